package jobstest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/localredis"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// Main runs the tests of a package and then stops their PostgreSQL server. A package
// that uses [Start], [StartWith] or [Overtake] calls it from its TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(jobstest.Main(m)) }
func Main(m *testing.M) int {
	jobs.QuietRedis()
	return storagetest.Main(m)
}

// Setup says what a [Fenceline] is made of. The zero value is a database of the test's
// own with Fenceline's tables, an in-process Redis, files in the test's folder
// and one worker of the queue "default".
type Setup struct {
	// Kinds makes kinds that need the store. It is called once.
	Kinds func(*storage.Store) []jobs.Kind
	// Prepare fills the database instead of [storage.Migrate], which it must call too: your own tables, for
	// instance. It runs once in a process; each test gets a copy. All tests of a process give the same function.
	Prepare func(ctx context.Context, url string) error
	// SQL is run in this test's database.
	SQL string
	// DatabaseURL, unless empty, is a migrated database to use in place of a new one. It must be the test's own.
	DatabaseURL string
	// RedisURL, unless empty, is a Redis to use in place of the in-process one. The keys have names of their own.
	RedisURL string
	// Keys seal the secret fields of payloads; a key that ends with the test otherwise.
	Keys *secret.Keyring
	// NoWorker starts neither worker nor relay: jobs wait.
	NoWorker bool
	// Queues that the worker serves, by their weights; "default" otherwise.
	Queues map[string]int
	// Concurrency is how many jobs run at once; 8 otherwise.
	Concurrency int
	// Lease is how long a worker may be silent; 10 s otherwise.
	Lease time.Duration
	// Patience is how long [Fenceline.WaitFor] and [Fenceline.Overtake] wait; a minute otherwise.
	Patience time.Duration
	// Log is where worker and relay log to; the test's log otherwise.
	Log *slog.Logger
}

// Fenceline is a whole one in this process: PostgreSQL, Redis, files, worker and relay.
// It ends with its test. Its methods end the test when they fail; they are for the
// test's own goroutine.
type Fenceline struct {
	// URL is the address of the database, for connections of the test's own.
	URL        string
	Store      *storage.Store
	Files      files.Store
	Redis      jobs.Redis
	Dispatcher *jobs.Dispatcher

	t        testing.TB
	ctx      context.Context
	setup    Setup
	registry *jobs.Registry
}

// Start starts a Fenceline for kinds. It needs the programs of a PostgreSQL server
// (see package localpg for where they are looked for); the test fails where there are none.
func Start(t testing.TB, kinds ...jobs.Kind) *Fenceline {
	t.Helper()
	return StartWith(t, Setup{}, kinds...)
}

// StartWith is [Start] with a setup.
func StartWith(t testing.TB, s Setup, kinds ...jobs.Kind) *Fenceline {
	t.Helper()
	s = s.withDefaults(t)
	f := &Fenceline{t: t, ctx: t.Context(), setup: s, URL: s.DatabaseURL}
	if f.URL == "" {
		f.URL = storagetest.Database(t, s.Prepare)
	}
	f.openStore()
	if s.SQL != "" {
		f.must(f.Store.Exec(f.ctx, s.SQL))
	}
	if s.Kinds != nil {
		kinds = append(slices.Clone(kinds), s.Kinds(f.Store)...)
	}
	f.registry = registryOf(t, s.Keys, kinds...)
	f.Dispatcher = jobs.NewDispatcher(f.Store, f.registry)
	if !s.NoWorker {
		f.openRedis()
		f.work()
	}
	return f
}

func (s Setup) withDefaults(t testing.TB) Setup {
	if s.Prepare == nil {
		s.Prepare = migrate
	}
	if s.Queues == nil {
		s.Queues = map[string]int{"default": 1}
	}
	if s.Concurrency == 0 {
		s.Concurrency = 8
	}
	if s.Lease == 0 {
		s.Lease = 10 * time.Second
	}
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	if s.Log == nil {
		s.Log = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	}
	return s
}

func migrate(ctx context.Context, url string) error {
	_, err := storage.Migrate(ctx, url)
	return err
}

func (f *Fenceline) openStore() {
	f.t.Helper()
	var err error
	f.Store, err = storage.Open(f.ctx, f.URL, storage.Options{Watch: watch})
	f.must(err)
	f.t.Cleanup(f.Store.Close)
	id, err := f.Store.Installation(f.ctx)
	f.must(err)
	f.Files, err = files.OpenLocal(filepath.Join(f.t.TempDir(), "files"), id)
	f.must(err)
	f.t.Cleanup(func() { _ = f.Files.Close() })
}

func (f *Fenceline) openRedis() {
	f.t.Helper()
	url := f.setup.RedisURL
	if url == "" {
		server, err := localredis.Start("127.0.0.1:0")
		f.must(err)
		f.t.Cleanup(server.Stop)
		url = server.URL()
	}
	var err error
	f.Redis, err = jobs.OpenRedis(f.ctx, url, "test"+strings.ReplaceAll(uuid.NewString(), "-", ""))
	f.must(err)
	f.t.Cleanup(func() { _ = f.Redis.Client.Close() })
}

// work starts a worker and a relay, which stop before what they use is closed.
func (f *Fenceline) work() {
	s := f.setup
	worker := jobs.NewWorker(jobs.WorkerConfig{
		Store: f.Store, Files: f.Files, Registry: f.registry, Redis: f.Redis, Leaser: f.Redis.Leaser("jobstest", s.Lease), Name: "jobstest-" + uuid.NewString()[:8],
		Log: s.Log, Concurrency: s.Concurrency, Queues: s.Queues, Lease: s.Lease,
	})
	relay := jobs.NewRelay(f.Store, f.Redis, s.Lease, s.Log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.ctx))
	var parts sync.WaitGroup
	for _, run := range []func(context.Context) error{worker.Run, relay.Run} {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil { // a test may end before they have begun
				f.t.Error(err)
			}
		})
	}
	f.t.Cleanup(func() {
		cancel()
		parts.Wait()
	})
}

// Dispatch asks for a job of a kind. The payload is JSON or a value that encodes to it.
func (f *Fenceline) Dispatch(kind string, payload any, options ...jobs.Option) storage.Job {
	f.t.Helper()
	raw, err := rawOf(payload)
	f.must(err)
	r, err := f.Dispatcher.Dispatch(f.ctx, nil, jobs.Request{Kind: kind, Payload: raw}, options...)
	f.must(err)
	return r.Job
}

// Job reads a job as it is now.
func (f *Fenceline) Job(id uuid.UUID) storage.Job {
	f.t.Helper()
	job, err := f.Store.Job(f.ctx, storage.Scope{All: true}, id)
	f.must(err)
	return job
}

// WaitFor waits until a job is in a state, and answers it. It gives up when the job
// ends in another one, or when the patience of the setup is over.
func (f *Fenceline) WaitFor(id uuid.UUID, state storage.JobState) storage.Job {
	f.t.Helper()
	return f.WaitUntil(id, string(state), func(j storage.Job) bool { return j.State == state })
}

// WaitUntil is [Fenceline.WaitFor] for any condition; what says it in a word or two.
func (f *Fenceline) WaitUntil(id uuid.UUID, what string, is func(storage.Job) bool) storage.Job {
	f.t.Helper()
	patience := time.NewTimer(f.setup.Patience)
	defer patience.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		job := f.Job(id)
		if is(job) {
			return job
		}
		if job.State.Ended() {
			f.t.Fatalf("job %s of kind %s is %s, want %s%s", id, job.Kind, job.State, what, f.story(job))
		}
		select {
		case <-patience.C:
			f.t.Fatalf("job %s of kind %s is still %s after %s, want %s%s", id, job.Kind, job.State, f.setup.Patience, what, f.story(job))
		case <-tick.C:
		}
	}
}

// story is what a failure says of a job besides its state.
func (f *Fenceline) story(job storage.Job) string {
	var b strings.Builder
	if job.WaitingFor != nil {
		fmt.Fprintf(&b, "; it waits (%s) and is due at %s", *job.WaitingFor, job.DueAt.Format(time.RFC3339))
	}
	if _, served := f.setup.Queues[job.Queue]; !served {
		fmt.Fprintf(&b, "; the worker serves %s, and the job is in queue %s", strings.Join(slices.Sorted(maps.Keys(f.setup.Queues)), ", "), job.Queue)
	}
	if f.setup.NoWorker {
		b.WriteString("; there is no worker")
	}
	errs, err := f.Store.JobErrors(f.ctx, job.ID, 5)
	f.must(err)
	for _, e := range errs {
		fmt.Fprintf(&b, "\n  attempt %d, %s: %s", e.Attempt, e.Reason, e.Error)
	}
	if len(errs) == 0 && job.Error != nil {
		fmt.Fprintf(&b, "\n  %s", *job.Error)
	}
	return b.String()
}

// Published reads the files that are current of the export of a job, by their names;
// none when nothing was published.
func (f *Fenceline) Published(job storage.Job) map[string][]byte {
	f.t.Helper()
	out := map[string][]byte{}
	a := f.current(job)
	if a == nil {
		return out
	}
	list, err := f.Store.Files(f.ctx, a.ID)
	f.must(err)
	for _, file := range list {
		r, err := f.Files.Open(f.t.Context(), files.Place{Export: a.ExportID, Token: a.Token, Attempt: a.ID}, file.Object)
		f.must(err)
		out[file.Name], err = io.ReadAll(r)
		_ = r.Close()
		f.must(err)
	}
	return out
}

// current is the attempt that the pointer of a job's export names; nil for none.
func (f *Fenceline) current(job storage.Job) *storage.Attempt {
	f.t.Helper()
	if job.Plain() {
		return nil
	}
	e, err := f.Store.Export(f.ctx, storage.Scope{All: true}, job.ExportID)
	f.must(err)
	if e.AttemptID == nil {
		return nil
	}
	a, err := f.Store.Attempt(f.ctx, *e.AttemptID)
	f.must(err)
	return &a
}

// Value reads the one value that a query answers, such as SELECT balance FROM accounts WHERE id = ?.
func (f *Fenceline) Value(into any, sql string, args ...any) {
	f.t.Helper()
	f.must(f.Store.Transaction(f.ctx, func(tx storage.Tx) error { return tx.Raw(sql, args...).Row().Scan(into) }))
}

func (f *Fenceline) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// testWriter writes lines to the log of a test.
type testWriter struct{ t testing.TB }

// Write logs a line.
func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}
