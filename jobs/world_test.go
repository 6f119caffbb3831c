package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func TestMain(m *testing.M) {
	if benchChild() {
		return
	}
	jobs.QuietRedis() // servers go away on purpose here
	os.Exit(storagetest.Main(m))
}

var everything = storage.Scope{All: true}

// shortLease is long enough for a loaded machine to renew in time, and short enough to wait for.
const shortLease = 3 * time.Second

// world is a whole Fenceline in process: PostgreSQL, Redis, files, and a kind
// of job whose handlers are functions of the test.
type world struct {
	t          testing.TB
	ctx        context.Context
	url        string
	store      *storage.Store
	files      *files.Local
	redis      jobs.Redis
	registry   *jobs.Registry
	dispatcher *jobs.Dispatcher
	leaser     jobs.Leaser
	log        *slog.Logger

	mu       sync.Mutex
	handlers map[string]func(context.Context, *jobs.Run) error
	plain    map[string]func(context.Context, *jobs.Work, plainPayload) (any, error)
}

// redisServer is a Redis of any kind: a server, one with sentinels, a cluster.
type redisServer interface{ URL() string }

func newWorld(t testing.TB, server redisServer) *world {
	t.Helper()
	return worldAt(t, server, storagetest.Database(t, jobs.Migrated))
}

// worldAt is a world in a database that is migrated.
func worldAt(t testing.TB, server redisServer, url string) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), handlers: map[string]func(context.Context, *jobs.Run) error{},
		plain: map[string]func(context.Context, *jobs.Work, plainPayload) (any, error){}}
	w.log = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	w.url = url
	var err error
	w.store, err = storage.Open(w.ctx, w.url, storage.Options{MaxConns: 30})
	w.must(err)
	t.Cleanup(w.store.Close)
	id, err := w.store.Installation(w.ctx)
	w.must(err)
	w.files, err = files.OpenLocal(filepath.Join(t.TempDir(), "files"), id)
	w.must(err)
	t.Cleanup(func() { _ = w.files.Close() })
	w.redis, err = jobs.OpenRedis(w.ctx, server.URL(), "t"+strings.ReplaceAll(uuid.NewString(), "-", ""))
	w.must(err)
	t.Cleanup(func() { _ = w.redis.Client.Close() })
	w.leaser = w.redis.Leaser("w", shortLease)
	w.registry, err = jobs.NewRegistry(w.testKind(), w.plainKind("plain"), w.plainKind("other"))
	w.must(err)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	return w
}

// testKind runs the handler that the payload names; the export is the payload's key.
func (w *world) testKind() jobs.Kind {
	return jobs.Kind{Name: "test", Version: 1, Decode: func(in jobs.Payload) (jobs.Task, error) {
		var p struct{ Handler, Key string }
		if err := json.Unmarshal(in.Body, &p); err != nil {
			return jobs.Task{}, err
		}
		return jobs.Task{Key: p.Key, Title: p.Key, Render: func(ctx context.Context, r *jobs.Run) error {
			w.mu.Lock()
			h := w.handlers[p.Handler]
			w.mu.Unlock()
			if h == nil {
				return jobs.Permanent(fmt.Errorf("no handler %q", p.Handler))
			}
			return h(ctx, r)
		}}, nil
	}}
}

func (w *world) handle(name string, h func(context.Context, *jobs.Run) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[name] = h
}

// writes is a handler that writes one file with this text.
func writes(text string) func(context.Context, *jobs.Run) error {
	return func(_ context.Context, r *jobs.Run) error { return writeFile(r, text) }
}

func writeFile(r *jobs.Run, text string) error {
	out, err := r.Create("out.txt", "txt", "text/plain")
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := out.Write([]byte(text)); err != nil {
		return err
	}
	return out.Commit(1)
}

func (w *world) dispatch(handler, key string, options ...jobs.Option) storage.Job {
	w.t.Helper()
	r, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "test", Payload: payload(handler, key)}, options...)
	w.must(err)
	return r.Job
}

func payload(handler, key string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{"handler": handler, "key": key})
	if err != nil {
		panic(err)
	}
	return raw
}

// worker starts a worker and a relay; stop stops both and waits for them.
func (w *world) worker(change ...func(*jobs.WorkerConfig)) (stop func()) {
	w.t.Helper()
	conf := jobs.WorkerConfig{
		Store: w.store, Files: w.files, Registry: w.registry, Redis: w.redis, Leaser: w.leaser, Name: "w-" + uuid.NewString()[:4], Log: w.log,
		Concurrency: 8, Queues: map[string]int{"default": 1}, Lease: shortLease, Grace: 5 * time.Second,
	}
	for _, c := range change {
		c(&conf)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	var wg sync.WaitGroup
	for _, part := range []func(context.Context) error{jobs.NewWorker(conf).Run, jobs.NewRelay(w.store, w.redis, conf.Lease, w.log).Run} {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(stop)
	return stop
}

// until polls a condition.
func (w *world) until(what string, yes func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-deadline.C:
			w.t.Fatalf("it never came to this: %s", what)
		case <-tick.C:
		}
	}
}

func (w *world) job(id uuid.UUID) storage.Job {
	w.t.Helper()
	job, err := w.store.Job(w.ctx, everything, id)
	w.must(err)
	return job
}

func (w *world) ends(job storage.Job, want storage.JobState) storage.Job {
	w.t.Helper()
	var got storage.Job
	w.until(fmt.Sprintf("job %s has ended", job.Title), func() bool { got = w.job(job.ID); return got.State.Ended() })
	if got.State != want {
		w.t.Fatalf("job %s is %s, want %s (error %v)", job.Title, got.State, want, deref(got.Error))
	}
	return got
}

// current is the text of the export's current file.
func (w *world) current(job storage.Job) string {
	w.t.Helper()
	e, err := w.store.Export(w.ctx, everything, job.ExportID)
	w.must(err)
	if e.AttemptID == nil {
		return ""
	}
	a, err := w.store.Attempt(w.ctx, *e.AttemptID)
	w.must(err)
	list, err := w.store.Files(w.ctx, a.ID)
	w.must(err)
	return w.content(a, list[0])
}

// content is the text of a file of an attempt.
func (w *world) content(a storage.Attempt, f storage.File) string {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.files.Dir(), files.Place{Export: a.ExportID, Token: a.Token, Attempt: a.ID}.String(), f.Object))
	w.must(err)
	return string(raw)
}

// ask scans the one value of a query.
func (w *world) ask(into any, sql string) {
	w.t.Helper()
	conn, err := pgx.Connect(w.ctx, w.url)
	w.must(err)
	defer conn.Close(w.ctx)
	w.must(conn.QueryRow(w.ctx, sql).Scan(into))
}

func (w *world) attempts(job storage.Job) []storage.Attempt {
	w.t.Helper()
	list, err := w.store.JobAttempts(w.ctx, job.ID, 100)
	w.must(err)
	return list
}

// due makes a job that waits due at once.
func (w *world) due(job storage.Job) {
	w.t.Helper()
	w.exec("UPDATE fenceline.jobs SET due_at = now(), ring_at = now() WHERE id = $1", job.ID)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	conn, err := pgx.Connect(w.ctx, w.url)
	w.must(err)
	defer conn.Close(w.ctx)
	_, err = conn.Exec(w.ctx, sql, args...)
	w.must(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}
