package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

var (
	chaosFor  = flag.Duration("chaos", 30*time.Second, "how long TestChaos hurts the system")
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0 takes a new one")
)

const chaosExports = 6

// chaos is a deployment under fire, and what readers saw of it.
type chaos struct {
	*site
	store   *storage.Store // of the readers and the sweeper: on its own way past what is hurt
	files   *files.Local
	disp    *jobs.Dispatcher
	pg      *pgServer
	redis   *redisPair
	workers []*process

	mu      sync.Mutex
	jobs    []storage.Job
	booked  []uuid.UUID // plain jobs
	reads   []pointerRead
	stats   map[string]int
	workLog []*lines // of workers that are gone
}

// Everything that can be done to it on one machine is done to it; readers never
// see anything but whole files of a pointer that only moves forward.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d; replay with: go test ./cmd/fenceline -run TestChaos -chaos %s -chaos.seed %d", seed, *chaosFor, seed)
	c := newChaos(t, seed)
	ctx, cancel := context.WithTimeout(t.Context(), *chaosFor)
	defer cancel()
	var wg sync.WaitGroup
	for i, part := range []func(context.Context, *rand.Rand){c.changeData, c.dispatchJobs, c.read, c.read, c.sweepForEver, c.nemesis, c.book} {
		wg.Go(func() { part(ctx, rand.New(rand.NewPCG(seed, uint64(i)))) }) // each draws its own numbers: their order is the seed's
	}
	wg.Wait()
	c.calm()
	c.checkJobs()
	c.checkBookings()
	c.checkHistory()
	c.checkVerify()
	t.Logf("seed %d: %v", seed, c.stats)
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	c := &chaos{stats: map[string]int{}}
	c.pg = newPGServer(t)
	c.redis = newRedisPair(t)
	dir := t.TempDir()
	c.site = &site{t: t, dir: dir, env: map[string]string{
		"DATABASE_URL": c.pg.url, "REDIS_URL": c.redis.url(), "FILES_DIR": smallDisk(t, filepath.Join(dir, "files")), "FENCELINE_NAMESPACE": "chaos",
		"FENCELINE_LEASE": "2s", "FENCELINE_CONCURRENCY": "4", "FENCELINE_GRACE": "500ms", "LEASE_URL": map[bool]string{true: "none", false: "redis"}[seed%2 == 0],
	}}
	_, err := storage.Migrate(t.Context(), c.pg.url)
	c.must(err)
	c.sql("CREATE TABLE chaos (version bigint NOT NULL)", "INSERT INTO chaos VALUES (1)",
		"CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)", fmt.Sprintf("INSERT INTO accounts SELECT i, 0 FROM generate_series(0, %d) i", chaosAccounts-1),
		"CREATE TABLE bookings (job uuid PRIMARY KEY, account int NOT NULL)")
	c.store, err = storage.Open(t.Context(), c.pg.url, storage.Options{MaxConns: 8})
	c.must(err)
	t.Cleanup(c.store.Close)
	id, err := c.store.Installation(t.Context())
	c.must(err)
	c.files, err = files.OpenLocal(c.env["FILES_DIR"], id)
	c.must(err)
	t.Cleanup(func() { _ = c.files.Close() })
	registry, err := jobs.NewRegistry(chaosKind(), bookKind(c.pg.url))
	c.must(err)
	c.disp = jobs.NewDispatcher(c.store, registry)
	for range 3 {
		c.workers = append(c.workers, c.startHurt("", "work"))
	}
	return c
}

func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats[what]++
}

// every calls do again and again until ctx ends, with pauses up to most.
func every(ctx context.Context, rng *rand.Rand, most time.Duration, do func()) {
	for {
		timer := time.NewTimer(time.Duration(rng.Int64N(int64(most))) + time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			do()
		}
	}
}

func (c *chaos) changeData(ctx context.Context, rng *rand.Rand) {
	every(ctx, rng, 20*time.Millisecond, func() {
		conn, err := pgx.Connect(ctx, c.pg.url)
		if err != nil {
			return
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for range 50 {
			if _, err := conn.Exec(ctx, "UPDATE chaos SET version = version + 1"); err != nil {
				return
			}
		}
	})
}

func (c *chaos) dispatchJobs(ctx context.Context, rng *rand.Rand) {
	every(ctx, rng, 150*time.Millisecond, func() {
		p := chaosPayload{Key: fmt.Sprint("export", rng.IntN(chaosExports)), Millis: rng.IntN(400), Deaf: rng.IntN(10) == 0}
		raw, err := json.Marshal(p)
		c.must(err)
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		// The key makes it one job when the answer was lost and the request comes again.
		key := uuid.NewString()
		for try.Err() == nil {
			r, err := c.disp.Dispatch(try, nil, jobs.Request{Kind: "chaos", Payload: raw}, jobs.IdempotencyKey(key), jobs.Timeout(5*time.Second))
			if err == nil {
				c.mu.Lock()
				c.jobs = append(c.jobs, r.Job)
				c.mu.Unlock()
				c.count("dispatched")
				return
			}
		}
	})
}

// sweepForEver cleans up without pause; now and then with a grace of zero, so
// that it condemns what is alive.
func (c *chaos) sweepForEver(ctx context.Context, rng *rand.Rand) {
	every(ctx, rng, 10*time.Millisecond, func() {
		opt := storage.SweepOptions{Grace: time.Second, Quarantine: 0, Superseded: 2 * time.Second, Worker: "chaos"}
		if rng.IntN(20) == 0 {
			opt.Grace = 0
		}
		res, err := storage.NewSweep(c.store, c.files, opt).Run(ctx)
		if err == nil && res.Deleted > 0 {
			c.count("swept")
		}
	})
}

// pointerRead is what a reader saw: the pointer's token between two times.
type pointerRead struct {
	export    uuid.UUID
	token     int64
	call, ret time.Time
}

// read downloads what pointers name: every download is complete, has the hash
// that its pointer promised, and holds data that is never older than before.
func (c *chaos) read(ctx context.Context, rng *rand.Rand) {
	newest := map[uuid.UUID]int64{}
	every(ctx, rng, 10*time.Millisecond, func() {
		c.mu.Lock()
		if len(c.jobs) == 0 {
			c.mu.Unlock()
			return
		}
		export := c.jobs[rng.IntN(len(c.jobs))].ExportID
		c.mu.Unlock()
		call := time.Now()
		e, err := c.store.Export(ctx, everything, export)
		ret := time.Now()
		if err != nil { // PostgreSQL is away
			return
		}
		c.mu.Lock()
		c.reads = append(c.reads, pointerRead{export, e.LastToken, call, ret})
		c.mu.Unlock()
		if e.AttemptID == nil {
			return
		}
		if version := c.download(ctx, e); version > 0 {
			if version < newest[export] {
				c.t.Errorf("export %s: version %d was read after %d", e.Key, version, newest[export])
			}
			newest[export] = version
			c.count("downloaded")
		}
	})
}

// download answers the version of the data in a pointer's file; 0 when
// PostgreSQL was away, or the publication was replaced and its time is over.
func (c *chaos) download(ctx context.Context, e storage.Export) int64 {
	list, err := c.store.Files(ctx, *e.AttemptID)
	if err != nil || len(list) != 1 {
		if err == nil {
			c.t.Errorf("the pointer of %s names an attempt with %d files", e.Key, len(list))
		}
		return 0
	}
	f, err := c.files.Open(ctx, files.Place{Export: e.ID, Token: e.LastToken, Attempt: *e.AttemptID}, list[0].Object)
	if err != nil {
		if now, again := c.store.Export(ctx, everything, e.ID); again == nil && now.LastToken == e.LastToken {
			c.t.Errorf("the pointer of %s names a file that is not there: %v", e.Key, err)
		}
		return 0
	}
	defer f.Close()
	raw := make([]byte, list[0].Size+1)
	n := 0
	for n < len(raw) {
		m, err := f.Read(raw[n:])
		n += m
		if err != nil {
			break
		}
	}
	sum := sha256.Sum256(raw[:n])
	if got := hex.EncodeToString(sum[:]); got != list[0].SHA256.String() {
		c.t.Errorf("the download of %s (token %d) has %d bytes and another hash than its pointer promised", e.Key, e.LastToken, n)
		return 0
	}
	token, version, err := checkChaos(string(raw[:n]))
	if err != nil || token != e.LastToken {
		c.t.Errorf("the file of %s is of token %d, its pointer of %d: %v", e.Key, token, e.LastToken, err)
	}
	return version
}

// calm ends all faults and waits until every job has come to its end.
func (c *chaos) calm() {
	c.t.Helper()
	c.pg.ensure(c.t)
	c.redis.ensure(c.t)
	for _, w := range c.workers {
		w.resume()
	}
	var open string
	c.t.Cleanup(func() {
		if open != "" {
			c.t.Logf("still open:\n%s", open)
		}
	})
	until(c.t, "every job has ended", func() bool {
		c.must(c.scan(&open, `SELECT coalesce(string_agg(concat_ws(' ', id, state, waiting_for, due_at, ring_at, generation, attempts, failures, crashes), E'\n'), '')
			FROM fenceline.jobs WHERE finished_at IS NULL`))
		return open == ""
	})
	for _, w := range c.workers {
		select {
		case <-w.exited: // whatever happens around it, a worker goes on
			c.t.Errorf("a worker ended by itself: %v", w.err)
		default:
			if err := w.stop(); err != nil {
				c.t.Errorf("a worker ended with %v", err)
			}
		}
		c.workLog = append(c.workLog, w.output)
	}
	c.sql("UPDATE fenceline.attempts SET probe_at = now() WHERE probe_at IS NOT NULL") // as if ten minutes had passed
	all := storage.SweepOptions{Grace: 0, Quarantine: 0, Superseded: 0, Worker: "calm"}
	_, err := storage.NewSweep(c.store, c.files, all).Run(c.t.Context())
	c.must(err)
}

// checkJobs: nothing was lost, each was published at most once.
func (c *chaos) checkJobs() {
	c.t.Helper()
	for _, job := range c.jobs {
		got, err := c.store.Job(c.t.Context(), everything, job.ID)
		if err != nil {
			c.t.Errorf("a job that was accepted is gone: %v", err)
			continue
		}
		c.stats["job "+string(got.State)]++
	}
	var twice int
	c.must(c.scan(&twice, `SELECT count(*) FROM (SELECT job_id FROM fenceline.attempts WHERE verdict IN ('published', 'superseded') GROUP BY job_id HAVING count(*) > 1) x`))
	if twice > 0 {
		c.t.Errorf("%d jobs were published twice", twice)
	}
	for _, need := range []string{"downloaded", "job done"} {
		if c.stats[need] == 0 {
			c.t.Errorf("nothing was %s: the test shows nothing", need)
		}
	}
}

// checkVerify asks what an operator would ask.
func (c *chaos) checkVerify() {
	c.t.Helper()
	if r := c.run("verify", "--drained"); r.code != 0 {
		c.t.Errorf("fenceline verify: exit %d\n%s%s", r.code, r.out, r.err)
	}
}

func (c *chaos) scan(into any, sql string, args ...any) error {
	conn, err := pgx.Connect(c.t.Context(), c.pg.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	return conn.QueryRow(c.t.Context(), sql, args...).Scan(into)
}
