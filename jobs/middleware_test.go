package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func workOf(job storage.Job) *Work { return &Work{Log: quiet(), job: job} }

// says is a middleware that writes down when it comes and what it sees when it goes.
func says(name string, to *[]string) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, w *Work) error {
			*to = append(*to, name)
			err := next(ctx, w)
			first, _, _ := strings.Cut(fmt.Sprint(err), "\n")
			*to = append(*to, name+" "+first)
			return err
		}
	}
}

func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	var got []string
	err := wrap(func(context.Context, *Work) error { got = append(got, "work"); return errors.New("no") },
		[]Middleware{says("a", &got), says("b", &got)})(t.Context(), workOf(storage.Job{}))
	if want := []string{"a", "b", "work", "b no", "a no"}; !slices.Equal(got, want) || err.Error() != "no" {
		t.Errorf("got %q and %v", got, err)
	}
}

// A panic anywhere is an error for those outside of it, with the stack of where it was.
func TestPanicsAreErrorsOutside(t *testing.T) {
	t.Parallel()
	bang := func(Handler) Handler { return func(context.Context, *Work) error { panic("bang") } }
	for name, c := range map[string]struct {
		inner []Middleware
		h     Handler
	}{
		"handler":    {nil, func(context.Context, *Work) error { panic("bang") }},
		"middleware": {[]Middleware{bang}, func(context.Context, *Work) error { return nil }},
	} {
		var got []string
		err := wrap(c.h, append([]Middleware{says("outside", &got)}, c.inner...))(t.Context(), workOf(storage.Job{}))
		var p *panicError
		if !errors.As(err, &p) || p.value != "bang" || !strings.Contains(string(p.stack), "middleware_test.go") {
			t.Errorf("%s: %v", name, err)
		}
		if want := []string{"outside", "outside panic: bang"}; !slices.Equal(got, want) {
			t.Errorf("%s: outside saw %q", name, got)
		}
	}
	err := wrap(nil, []Middleware{bang})(t.Context(), workOf(storage.Job{}))
	var p *panicError
	if !errors.As(err, &p) {
		t.Errorf("the outermost middleware: %v", err)
	}
}

func TestWithTimeout(t *testing.T) {
	t.Parallel()
	own := errors.New("the printer is on fire")
	for name, c := range map[string]struct {
		h    Handler
		want string // "" is no error
		is   error
	}{
		"in time":          {func(context.Context, *Work) error { return nil }, "", nil},
		"its own error":    {func(context.Context, *Work) error { return own }, own.Error(), own},
		"too long":         {func(ctx context.Context, _ *Work) error { <-ctx.Done(); return ctx.Err() }, "took longer than 30s", context.DeadlineExceeded},
		"says the cause":   {func(ctx context.Context, _ *Work) error { <-ctx.Done(); return context.Cause(ctx) }, "took longer than 30s", context.DeadlineExceeded},
		"wraps":            {func(ctx context.Context, _ *Work) error { <-ctx.Done(); return fmt.Errorf("read: %w", ctx.Err()) }, "took longer than 30s", context.DeadlineExceeded},
		"error when ended": {func(ctx context.Context, _ *Work) error { <-ctx.Done(); return own }, "took longer than 30s: the printer is on fire", own},
		"finished anyway":  {func(ctx context.Context, _ *Work) error { <-ctx.Done(); return nil }, "", nil},
		"puts back":        {func(ctx context.Context, _ *Work) error { <-ctx.Done(); return Release(time.Second, "later") }, Release(time.Second, "later").Error(), nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := wrap(c.h, []Middleware{WithTimeout(30 * time.Second)})(t.Context(), workOf(storage.Job{}))
			if c.want == "" && err != nil || c.want != "" && fmt.Sprint(err) != c.want || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s: %v", name, err)
			}
			if strings.HasPrefix(c.want, "took") && ending(storage.Job{}, err).Reason != "timeout" {
				t.Errorf("%s: its reason is %q", name, ending(storage.Job{}, err).Reason)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // what ends the whole attempt is not hidden behind the part
		outer, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { cancel(storage.ErrCancelled) })
		err := WithTimeout(30*time.Second)(func(ctx context.Context, _ *Work) error { <-ctx.Done(); return context.Cause(ctx) })(outer, workOf(storage.Job{}))
		if !errors.Is(err, storage.ErrCancelled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestKeysOfLimits(t *testing.T) {
	t.Parallel()
	w := workOf(storage.Job{Tenant: "acme", Kind: "mail", Queue: "slow"})
	long := strings.Repeat("ß", 300)
	key := func(s string) By { return PerKey(func(*Work) string { return s }) }
	for want, by := range map[storage.LimitKey]By{
		{Tenant: "acme", Key: "kind:mail"}:  PerKind,
		{Tenant: "acme", Key: "queue:slow"}: PerQueue,
		{Tenant: "acme", Key: "tenant"}:     PerTenant,
		{Key: "everything"}:                 Global,
		{Tenant: "acme", Key: "key:x"}:      key("x"),
		{}:                                  key(""),
		{Key: "key:x"}:                      AcrossTenants(key("x")),
		{Tenant: "acme", Key: "key:�x�"}:    key("\xffx\x00"),
	} {
		if got := by(w); got != want {
			t.Errorf("key is %+v, want %+v", got, want)
		}
	}
	a, b := key(long)(w).Key, key(long+"x")(w).Key
	if a == b || len(a) > 200 || len(b) > 200 || storable(a) != a {
		t.Errorf("long keys are %q and %q", a, b)
	}
}

func TestMiddlewareThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, make := range map[string]func(){
		"RateLimit(0, 1s)":     func() { RateLimit(0, time.Second, PerKind) },
		"RateLimit(1, 0s)":     func() { RateLimit(1, 0, PerKind) },
		"RateLimit(1, 1s)":     func() { RateLimit(1, time.Second, nil) },
		"100,000 a second":     func() { RateLimit(200_000, time.Second, PerKind) },
		"Burst(0)":             func() { RateLimit(1, time.Second, PerKind, Burst(0)) },
		"ReleaseAfter(0s)":     func() { WithoutOverlapping(PerKind, ReleaseAfter(0)) },
		"WithoutOverlapping":   func() { WithoutOverlapping(nil) },
		"ThrottleExceptions(0": func() { ThrottleExceptions(0, time.Second, time.Second, PerKind, nil) },
		"ThrottleExceptions(…": func() { ThrottleExceptions(1, 0, time.Second, PerKind, nil) },
		"ThrottleExceptions: ": func() { ThrottleExceptions(1, time.Second, time.Second, nil, nil) },
		"WithTimeout(0s)":      func() { WithTimeout(0) },
	} {
		func() {
			defer func() {
				if p := recover(); !strings.Contains(fmt.Sprint(p), want) {
					t.Errorf("%s: panic %v", want, p)
				}
			}()
			make()
		}()
	}
	RateLimit(100_000, time.Second, PerKind)
}

// What says something about the health of what jobs lean on, and what does not.
func TestVerdictsOfCircuits(t *testing.T) {
	t.Parallel()
	ended := func(cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx
		}
	}
	plain := func(ctx context.Context) context.Context { return ctx }
	failed, neither, passed := storage.CircuitFailed, storage.CircuitNeither, storage.CircuitPassed
	some := errors.New("503")
	for name, c := range map[string]struct {
		err  error
		ctx  func(context.Context) context.Context
		only func(error) bool
		want storage.CircuitVerdict
	}{
		"nil":             {nil, plain, nil, passed},
		"error":           {some, plain, nil, failed},
		"permanent":       {Permanent(some), plain, nil, failed},
		"panic":           {&panicError{value: 1}, plain, nil, failed},
		"part timed out":  {&tooLongError{after: 1}, plain, nil, failed},
		"timed out":       {context.Canceled, ended(errTimeout), nil, failed},
		"the right error": {some, plain, func(err error) bool { return errors.Is(err, some) }, failed},
		"another error":   {some, plain, func(error) bool { return false }, neither},
		"put back":        {Release(1, "rate"), plain, nil, neither},
		"skipped":         {fmt.Errorf("x: %w", Skip("y")), plain, nil, neither},
		"cancelled":       {some, ended(storage.ErrCancelled), nil, neither},
		"fenced":          {&storage.FencedError{Reason: "newer_job"}, plain, nil, neither},
		"handed on":       {some, ended(&storage.FencedError{Reason: "handed_on"}), nil, neither},
		"worker stopped":  {some, ended(ErrWorkerStopped), nil, neither},
		"lease lost":      {ErrLeaseLost, plain, nil, neither},
		"lease busy":      {ErrLeaseBusy, plain, nil, neither},
		"another worker":  {storage.ErrNotDue, plain, nil, neither},
		"queue paused":    {storage.ErrHeld, plain, nil, neither},
		"unknown kind":    {errNotForUs, plain, nil, neither},
	} {
		if got := (circuit{only: c.only}).verdict(c.ctx(t.Context()), c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestSkipWhen(t *testing.T) {
	t.Parallel()
	run := func(yes bool, err error) error {
		m := SkipWhen("the shop is closed", func(context.Context, *Work) (bool, error) { return yes, err })
		return wrap(func(context.Context, *Work) error { return errors.New("ran") }, []Middleware{m})(t.Context(), workOf(storage.Job{}))
	}
	broken := errors.New("no answer")
	var skip *skipError
	if err := run(true, nil); !errors.As(err, &skip) || skip.reason != "the shop is closed" {
		t.Errorf("skipped: %v", err)
	}
	if err := run(false, nil); err == nil || err.Error() != "ran" {
		t.Errorf("not skipped: %v", err)
	}
	if err := run(true, broken); !errors.Is(err, broken) || errors.As(err, &skip) {
		t.Errorf("undecided: %v", err)
	}
}

// field is a database with plain jobs, and hands that run them as workers do.
type field struct {
	t    *testing.T
	ctx  context.Context
	pool *pgxpool.Pool

	stores [2]*storage.Store // as two workers have them
}

// Migrated prepares a database, for all tests of this folder.
func Migrated(ctx context.Context, url string) error {
	_, err := storage.Migrate(ctx, url)
	return err
}

func newField(t *testing.T) *field {
	t.Helper()
	f := &field{t: t, ctx: t.Context()}
	url := storagetest.Database(t, Migrated)
	var err error
	f.pool, err = pgxpool.New(f.ctx, url)
	f.must(err)
	t.Cleanup(f.pool.Close)
	for i := range f.stores {
		f.stores[i], err = storage.Open(f.ctx, url, storage.Options{})
		f.must(err)
		t.Cleanup(f.stores[i].Close)
	}
	return f
}

func (f *field) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(f.ctx, sql, args...)
	f.must(err)
}

func (f *field) add(n int) []uuid.UUID {
	f.t.Helper()
	list := make([]uuid.UUID, n)
	for i := range list {
		list[i] = uuid.Must(uuid.NewV7())
		f.exec(`INSERT INTO fenceline.jobs (id, tenant, kind, queue, payload, payload_version, max_attempts, max_crashes, timeout_seconds, request_hash, ready_at)
			VALUES ($1, 'acme', 'mail', 'default', '{}', 1, 3, 3, 60, '', clock_timestamp())`, list[i])
	}
	return list
}

// claim lets a job that is due run; nil when it is not.
func (f *field) claim(id uuid.UUID, store *storage.Store) *Work {
	tag, err := f.pool.Exec(f.ctx, `UPDATE fenceline.jobs SET state = 'running', waiting_for = NULL, ready_at = NULL, run_id = $2, worker_id = $2
		WHERE id = $1 AND state = 'queued' AND due_at <= clock_timestamp()`, id, uuid.New())
	if err != nil {
		f.t.Error(err)
	}
	if err != nil || tag.RowsAffected() == 0 {
		return nil
	}
	job, err := store.Job(f.ctx, storage.Scope{All: true}, id)
	if err != nil {
		f.t.Error(err)
	}
	return &Work{Log: quiet(), store: store, job: job}
}

// finish does with a job what its worker would, for what these tests need.
func (f *field) finish(w *Work, err error) {
	var released *releaseError
	sql, args := "state = 'done', finished_at = clock_timestamp()", []any{w.job.ID, w.job.RunID}
	switch {
	case errors.As(err, &released):
		sql = `state = 'queued', worker_id = NULL, generation = generation + 1, releases = releases + 1, waiting_for = $3, due_at = clock_timestamp() + make_interval(secs => $4)`
		args = append(args, released.why, released.after.Seconds())
	case err != nil:
		sql = "state = 'queued', worker_id = NULL, generation = generation + 1, failures = failures + 1, error = $3, due_at = clock_timestamp()"
		args = append(args, err.Error())
	}
	_, execErr := f.pool.Exec(f.ctx, "UPDATE fenceline.jobs SET "+sql+" WHERE id = $1 AND run_id = $2 AND state = 'running'", args...)
	if execErr != nil {
		f.t.Error(execErr)
	}
}

// run runs a job once, at once, whatever it waits for.
func (f *field) run(id uuid.UUID, h Handler) error {
	f.t.Helper()
	f.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp() WHERE id = $1 AND state = 'queued'", id)
	w := f.claim(id, f.stores[0])
	if w == nil {
		f.t.Fatalf("job %s cannot be run", id)
	}
	err := h(f.ctx, w)
	f.finish(w, err)
	return err
}

// work runs jobs with so many hands until all are done.
func (f *field) work(list []uuid.UUID, hands int, h Handler) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	var left sync.Map
	for _, id := range list {
		left.Store(id, true)
	}
	var wg sync.WaitGroup
	for i := range hands {
		wg.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for more := true; more && ctx.Err() == nil; <-tick.C {
				more = false
				left.Range(func(id, _ any) bool {
					more = true
					if w := f.claim(id.(uuid.UUID), f.stores[i%2]); w != nil {
						err := h(ctx, w)
						f.finish(w, err)
						if err == nil {
							left.Delete(id)
						}
					}
					return ctx.Err() == nil
				})
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		f.t.Fatal("not all jobs were done in time")
	}
}

// released is how often jobs were put back, together.
func (f *field) released() (n int) {
	f.t.Helper()
	f.must(f.pool.QueryRow(f.ctx, "SELECT sum(releases) FROM fenceline.jobs").Scan(&n))
	return n
}

func wantRelease(t *testing.T, err error, why string, least, most time.Duration) {
	t.Helper()
	var r *releaseError
	if !errors.As(err, &r) || r.why != why || r.after < least || r.after > most {
		t.Errorf("got %v, want to be put back for %s, from %s to %s", err, why, least, most)
	}
}

func TestSkipCancelled(t *testing.T) {
	t.Parallel()
	f := newField(t)
	h := wrap(func(context.Context, *Work) error { return nil }, []Middleware{SkipCancelled()})
	list := f.add(3)
	w := f.claim(list[0], f.stores[0])
	if _, err := f.stores[1].CancelJob(f.ctx, storage.Scope{All: true}, list[0]); err != nil {
		t.Fatal(err)
	}
	if err := h(f.ctx, w); !errors.Is(err, storage.ErrCancelled) {
		t.Errorf("a cancelled job: %v", err)
	}
	b, err := f.stores[0].EnsureBatch(f.ctx, storage.Batch{Tenant: "acme", Key: "b", Title: "b"})
	f.must(err)
	f.exec("UPDATE fenceline.jobs SET batch_id = $1 WHERE id = $2", b.ID, list[1])
	w = f.claim(list[1], f.stores[0])
	if err := h(f.ctx, w); err != nil {
		t.Errorf("a job of a batch: %v", err)
	}
	f.exec("UPDATE fenceline.batches SET cancelled_at = clock_timestamp()")
	var skip *skipError
	if err := h(f.ctx, w); !errors.As(err, &skip) || !strings.Contains(err.Error(), "batch") {
		t.Errorf("a job of a cancelled batch: %v", err)
	}
	if err := f.run(list[2], h); err != nil {
		t.Errorf("any other: %v", err)
	}
}

// A limit that cannot be asked lets the job wait; one that answers with an error does not hide it.
func TestLimitsThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	f := newField(t)
	list := map[string]Middleware{
		"rate": RateLimit(1, time.Second, PerKind), "overlap": WithoutOverlapping(PerKind), "circuit": ThrottleExceptions(1, time.Hour, time.Hour, PerKind, nil),
		"released": SkipCancelled(),
	}
	w := f.claim(f.add(1)[0], f.stores[0])
	run := func(m Middleware) error {
		return wrap(func(context.Context, *Work) error { return errors.New("ran") }, []Middleware{m})(f.ctx, w)
	}
	for _, function := range []string{"take_rate", "take_hold", "enter_circuit"} {
		f.exec("ALTER FUNCTION fenceline." + function + " RENAME TO lost_" + function)
	}
	f.exec("ALTER TABLE fenceline.batches RENAME cancelled_at TO lost")
	for why, m := range list {
		if err := run(m); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%s: %v", why, err)
		}
	}
	f.stores[0].Close()
	for why, m := range list {
		wantRelease(t, run(m), why, 3*time.Second, 7*time.Second)
	}
}
