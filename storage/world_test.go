package storage_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func TestMain(m *testing.M) { os.Exit(storagetest.Main(m)) }

// world is a database of its own with what the tests do to it.
type world struct {
	t     testing.TB
	ctx   context.Context
	url   string
	store *storage.Store
	once  sync.Once
	pool  *pgxpool.Pool
}

func migrate(ctx context.Context, url string) error {
	_, err := storage.Migrate(ctx, url)
	return err
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ctx := t.Context()
	url := storagetest.Database(t, migrate)
	return &world{t: t, ctx: ctx, url: url, store: openStore(t, url)}
}

func openStore(t testing.TB, url string) *storage.Store {
	t.Helper()
	store, err := storage.Open(t.Context(), url, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func newJob(key string) storage.NewJob {
	return storage.NewJob{
		Tenant: "acme", Kind: "report", Key: key, Title: key, Queue: "default", Payload: json.RawMessage(`{"a":1}`), PayloadVersion: 1,
		MaxAttempts: 3, MaxCrashes: 3, Timeout: time.Minute, RequestHash: []byte("hash"),
	}
}

func (w *world) insert(n storage.NewJob) storage.Job {
	w.t.Helper()
	var job storage.Job
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) (err error) {
		job, _, err = w.store.InsertJob(w.ctx, tx, n)
		return err
	}))
	return job
}

func (w *world) begin(job storage.Job) storage.Begun {
	w.t.Helper()
	b, err := w.store.BeginAttempt(w.ctx, job.ID, "w-1")
	w.must(err)
	return b
}

func sealing(name string) storage.Sealed {
	return storage.Sealed{Rows: 3, Files: []storage.File{{
		Name: name, Object: files.ObjectName(1, name), Format: "csv", MediaType: "text/csv", Size: 5, SHA256: make([]byte, 32), Rows: 3,
	}}}
}

func (w *world) seal(b storage.Begun) storage.Begun {
	w.t.Helper()
	w.must(w.store.Seal(w.ctx, b.ID, sealing("orders.csv")))
	return b
}

// published is a job of the export with this key, published.
func (w *world) published(key string) (storage.Job, storage.Begun) {
	w.t.Helper()
	job := w.insert(newJob(key))
	b := w.seal(w.begin(job))
	w.must(w.store.Publish(w.ctx, b.ID))
	return job, b
}

// handOn gives the job's running attempt up for lost.
func (w *world) handOn(want int) []storage.Lost {
	w.t.Helper()
	lost, err := w.store.HandOnLost(w.ctx, -time.Hour, 100)
	w.must(err)
	if len(lost) != want {
		w.t.Fatalf("handed on %d jobs, want %d", len(lost), want)
	}
	return lost
}

func (w *world) jobState(id uuid.UUID, want storage.JobState) storage.Job {
	w.t.Helper()
	job, err := w.store.Job(w.ctx, everything, id)
	w.must(err)
	if job.State != want {
		w.t.Fatalf("job is %s, want %s", job.State, want)
	}
	return job
}

func (w *world) attemptState(id uuid.UUID, want storage.AttemptState) storage.Attempt {
	w.t.Helper()
	a, err := w.store.Attempt(w.ctx, id)
	w.must(err)
	if a.State != want {
		w.t.Fatalf("attempt is %s, want %s", a.State, want)
	}
	return a
}

func (w *world) attempts(job storage.Job) []storage.Attempt {
	w.t.Helper()
	list, err := w.store.JobAttempts(w.ctx, job.ID, 100)
	w.must(err)
	return list
}

func (w *world) pointer(export uuid.UUID, token int64) {
	w.t.Helper()
	e, err := w.store.Export(w.ctx, everything, export)
	w.must(err)
	if e.LastToken != token {
		w.t.Fatalf("the pointer has token %d, want %d", e.LastToken, token)
	}
}

var everything = storage.Scope{All: true}

// exec and query reach the database as any program could, past the store.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if err := w.tryExec(sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) tryExec(sql string, args ...any) error {
	_, err := w.conn().Exec(w.ctx, sql, args...)
	return err
}

func (w *world) query(sql string, args ...any) pgx.Row {
	return w.conn().QueryRow(w.ctx, sql, args...)
}

func (w *world) conn() *pgxpool.Pool {
	w.t.Helper()
	w.once.Do(func() {
		pool, err := pgxpool.New(w.ctx, w.url)
		w.must(err)
		w.t.Cleanup(pool.Close)
		w.pool = pool
	})
	return w.pool
}
