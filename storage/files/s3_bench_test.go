//go:build unix

package files_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// uploaded is the size of the object, in bytes.
const uploaded = 256 << 20

// stream is content that is made as it is read and does not repeat soon.
func stream() io.Reader {
	block := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(block) // never fails
	return io.LimitReader(&endless{block: block}, uploaded)
}

type endless struct {
	block []byte
	at    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.block[e.at:])
	e.at = (e.at + n) % len(e.block)
	return n, nil
}

// cost is what an upload took of this process; the server is another one.
type cost struct{ seconds, cpu, heap float64 }

// measured runs an upload and watches the heap meanwhile.
func measured(b *testing.B, upload func() error) cost {
	b.Helper()
	runtime.GC()
	heap := func() uint64 {
		read := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(read)
		return read[0].Value.Uint64()
	}
	cpu := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	base, peak, done := heap(), uint64(0), make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				peak = max(peak, heap())
			}
		}
	})
	began, before := time.Now(), cpu()
	err := upload()
	c := cost{seconds: time.Since(began).Seconds(), cpu: cpu() - before}
	close(done)
	watch.Wait()
	if err != nil {
		b.Fatal(err)
	}
	c.heap = float64(peak-min(base, peak)) / (1 << 20)
	return c
}

// BenchmarkS3Upload streams a large object to a server, create-only and with its SHA-256: ours, and the manager of
// the SDK, with its usual five parts at once and with two as we have, in turns. What is reported is ours
// against it, at the median of the turns: of time, of CPU seconds and of the highest heap.
func BenchmarkS3Upload(b *testing.B) {
	for _, atOnce := range []int{5, 2} {
		b.Run(fmt.Sprintf("against=%d-at-once", atOnce), func(b *testing.B) {
			bucket := s3test.New(b)
			store, err := files.Open(b.Context(), bucket.URL("ours"), uuid.New(), files.Ledger{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			theirs := sdkManager(b, bucket, atOnce)
			var all [2][]cost
			for b.Loop() {
				for turn := range 5 {
					for half := range 2 {
						if half == turn%2 {
							at := files.Place{Export: uuid.New(), Token: 1, Attempt: uuid.New()}
							all[0] = append(all[0], measured(b, func() error { return uploadOurs(b.Context(), store, at) }))
							if _, err := store.Remove(b.Context(), at); err != nil {
								b.Fatal(err)
							}
						} else {
							all[1] = append(all[1], measured(b, theirs))
						}
						if err := bucket.Remove("ours/theirs.csv"); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			reportCosts(b, all[0], all[1])
		})
	}
}

func reportCosts(b *testing.B, ours, theirs []cost) {
	b.Helper()
	for _, of := range []struct {
		name string
		get  func(cost) float64
	}{{"time", func(c cost) float64 { return c.seconds }}, {"cpu", func(c cost) float64 { return c.cpu }}, {"heap", func(c cost) float64 { return c.heap }}} {
		us, them := middle(ours, of.get), middle(theirs, of.get)
		b.ReportMetric(us/them, "x-"+of.name)
		b.ReportMetric(us, "ours-"+of.name)
		b.ReportMetric(them, "sdk-"+of.name)
	}
}

func middle(list []cost, get func(cost) float64) float64 {
	values := make([]float64, len(list))
	for i, c := range list {
		values[i] = get(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func uploadOurs(ctx context.Context, store files.Store, at files.Place) error {
	w, err := store.Create(ctx, at, "1-large.csv")
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, stream(), make([]byte, 256<<10)); err != nil {
		return err
	}
	_, err = w.Commit()
	return err
}

// sdkManager uploads with the SDK's manager; the caller sums the content, as nobody else does.
func sdkManager(b *testing.B, bucket *s3test.Bucket, atOnce int) func() error {
	b.Helper()
	conf, err := config.LoadDefaultConfig(b.Context(), config.WithRegion("us-east-1"))
	if err != nil {
		b.Fatal(err)
	}
	client := s3.NewFromConfig(conf, func(o *s3.Options) { o.UsePathStyle, o.BaseEndpoint = true, &bucket.Endpoint })
	manager := transfermanager.New(client, func(o *transfermanager.Options) { o.Concurrency = atOnce })
	key, none := "ours/theirs.csv", "*"
	return func() error {
		sum := sha256.New()
		_, err := manager.UploadObject(b.Context(), &transfermanager.UploadObjectInput{Bucket: &bucket.Name, Key: &key, Body: io.TeeReader(stream(), sum), IfNoneMatch: &none})
		sum.Sum(nil)
		return err
	}
}
