//go:build unix

package web

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// BenchmarkPages measures every GET route: one request at a time, then fifty a second, and fails where
// one reads more rows than a page may, by the plans that PostgreSQL makes for so many. It prints a
// line for each address, tab-separated, in milliseconds. Settings for a look by hand are
//
//	FENCELINE_BENCH_JOBS      how many jobs there are, a million unless it is set
//	FENCELINE_BENCH_DATABASE  a database to fill once and keep, instead of a new one
//	FENCELINE_BENCH_ROUTE     a regular expression of the addresses to measure
//	FENCELINE_BENCH_SECONDS   for how long fifty requests a second are sent, 5 unless it is set; 0 for not at all
func BenchmarkPages(b *testing.B) {
	var conf Config
	w := benchWorld(b, func(c *Config) { conf = *c })
	name := "Nadia " + uuid.NewString()[:8]
	person, token := w.person(name, ""), w.token("")
	found := w.sampled(b)
	found["/healthz"] = []string{"/healthz"}
	wanted := regexp.MustCompile(os.Getenv("FENCELINE_BENCH_ROUTE"))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 100}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for b.Loop() {
		fmt.Println("address\talone\tof it CPU here\tp50\tp99\tload")
		worst := time.Duration(0)
		for _, route := range slices.Sorted(maps.Keys(found)) {
			who := person
			if route == "/metrics" {
				who = token
			}
			for _, path := range found[route] {
				if !wanted.MatchString(path) {
					continue
				}
				alone, cpu := w.alone(b, client, path, who)
				p50, p99 := w.pace(b, client, path, who, benchNumber("FENCELINE_BENCH_SECONDS", 5))
				fmt.Printf("%s\t%s\t%s\t%s\t%s\t%s\n", path, millis(alone), millis(cpu), millis(p50), millis(p99), machineLoad())
				worst = max(worst, p99)
				if wrong := w.readsTooMuch(conf, path, who); wrong != "" {
					b.Errorf("GET %s %s", path, wrong)
				}
			}
		}
		b.ReportMetric(float64(worst.Milliseconds()), "ms-p99-worst")
	}
}

// readsTooMuch is [world.excess] by PostgreSQL's own plans. Of several looks the best one counts, because what the
// requests before it have read may be counted late.
func (w *world) readsTooMuch(conf Config, path string, who creds) (wrong string) {
	for range 5 {
		if wrong = w.excess(conf, w.addressWith("enable_seqscan", "on"), path, who, 100, 2*rowsRead); wrong == "" {
			break
		}
	}
	return wrong
}

// benchWorld is a world with many jobs: in a new database, or in one that is kept.
func benchWorld(b *testing.B, change func(*Config)) *world {
	b.Helper()
	n := benchNumber("FENCELINE_BENCH_JOBS", 1_000_000)
	address := os.Getenv("FENCELINE_BENCH_DATABASE")
	if address == "" {
		w := newWorld(b, change)
		w.bigWorld(n)
		return w
	}
	if _, err := storage.Migrate(b.Context(), address); err != nil {
		b.Fatal(err)
	}
	w := newWorldAt(b, address, change)
	if must(w.store.NewestJob(w.ctx, storage.Scope{All: true}))(b) == uuid.Nil {
		from := time.Now()
		w.bigWorld(n)
		fmt.Printf("filled with %d jobs in %s\n", n, time.Since(from).Round(time.Second))
	}
	for more := true; more; {
		more = must(w.store.RollStats(w.ctx))(b)
	}
	return w
}

// benchNumber is a number of the environment.
func benchNumber(name string, without int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return without
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }

// machineLoad is the load average of the last minute, empty where the system does not tell.
func machineLoad() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// alone is the middle one of some requests that are sent one after the other, and the time that
// the process, client included, computed for one of them.
func (w *world) alone(b *testing.B, client *http.Client, path string, who creds) (middle, cpu time.Duration) {
	took := make([]time.Duration, 9)
	w.timed(b, client, path, who) // the first one fills the caches
	before := processorTime()
	for i := range took {
		took[i] = w.timed(b, client, path, who)
	}
	cpu = (processorTime() - before) / time.Duration(len(took))
	slices.Sort(took)
	return took[len(took)/2], cpu
}

// processorTime is what this process has computed.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pace sends fifty requests a second, whether or not the earlier ones were answered.
func (w *world) pace(b *testing.B, client *http.Client, path string, who creds, seconds int) (p50, p99 time.Duration) {
	const rate = 50
	if seconds == 0 {
		return 0, 0
	}
	took := make([]time.Duration, rate*seconds)
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	var all sync.WaitGroup
	for i := range took {
		<-tick.C
		all.Go(func() { took[i] = w.timed(b, client, path, who) })
	}
	all.Wait()
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// timed sends one request and reads the answer.
func (w *world) timed(b *testing.B, client *http.Client, path string, who creds) time.Duration {
	r, err := http.NewRequestWithContext(w.ctx, "GET", w.base+path, nil)
	if err != nil {
		b.Error(err)
		return 0
	}
	if who != nobody {
		r.Header.Set(who.name, who.value)
	}
	from := time.Now()
	answer, err := client.Do(r)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode >= 400 {
		b.Errorf("GET %s answered %d", path, answer.StatusCode)
	}
	return time.Since(from)
}
