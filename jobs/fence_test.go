package jobs_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// A handler that was overtaken at a row of the application is refused there. Its
// job is tried again with a new token; that is no failure.
func TestAHandlerThatIsFencedIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.must(w.store.Exec(w.ctx, "CREATE SCHEMA bank; CREATE TABLE bank.accounts (balance bigint); INSERT INTO bank.accounts VALUES (500)"))
	balance := func() (n int64) { w.ask(&n, "SELECT balance FROM bank.accounts"); return n }
	set := func(ctx context.Context, n int64, pause func()) error {
		f, err := jobs.Fence(ctx, w.store, "acme", "account:1", "test")
		if err != nil {
			return err
		}
		n += balance()
		pause()
		return f.Write(ctx, func(tx storage.Tx) error { return tx.Exec("UPDATE bank.accounts SET balance = ?", n).Error })
	}
	overtaken := false
	w.handle("take 50", func(ctx context.Context, r *jobs.Run) error {
		err := set(ctx, -50, func() {
			if !overtaken {
				overtaken = true
				w.must(set(ctx, -60, func() {}))
			}
		})
		if err != nil {
			return err
		}
		return writeFile(r, "taken")
	})
	w.worker()
	job := w.ends(w.dispatch("take 50", "sales"), storage.JobDone)
	if got := balance(); got != 390 {
		t.Errorf("the balance is %d", got)
	}
	attempts := w.attempts(job)
	if job.Failures != 0 || job.Crashes != 0 || len(attempts) != 2 || attempts[1].State != storage.AttemptFenced || *attempts[1].Reason != "newer_token" {
		t.Errorf("failures %d, crashes %d, attempts %+v", job.Failures, job.Crashes, attempts)
	}
}

// A run whose job was handed on writes nothing, not even before the next run has
// written; nor does one that was cancelled.
func TestAStaleRunWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.must(w.store.Exec(w.ctx, "CREATE SCHEMA bank; CREATE TABLE bank.accounts (balance bigint); INSERT INTO bank.accounts VALUES (500)"))
	take := func(work *jobs.Work, pause func()) error {
		f, err := work.Fence(w.ctx, "account:1") // the handler ignores its own context
		if err != nil {
			return err
		}
		pause()
		return f.Write(w.ctx, func(tx storage.Tx) error { return tx.Exec("UPDATE bank.accounts SET balance = balance - 60").Error })
	}
	frozen, second, tried, cancelled := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
	var runs atomic.Int32
	w.does("take", func(_ context.Context, work *jobs.Work, _ plainPayload) (any, error) {
		if runs.Add(1) == 1 {
			err := take(work, func() { close(frozen); <-second })
			tried <- err
			return nil, err
		}
		var stale error
		err := take(work, func() { close(second); stale = <-tried })
		tried <- stale
		return nil, err
	})
	w.does("cancelled", func(ctx context.Context, work *jobs.Work, _ plainPayload) (any, error) {
		err := take(work, func() { close(cancelled); <-ctx.Done() })
		tried <- err
		return nil, err
	})
	w.worker()
	job := w.ask1("take")
	<-frozen
	lost, err := w.store.HandOnLost(w.ctx, -time.Hour, 10) // whatever beats
	if err != nil || len(lost) != 1 {
		t.Fatalf("handed on %v, %v", lost, err)
	}
	w.ends(job, storage.JobDone)
	var fenced *storage.FencedError
	if err := <-tried; !errors.As(err, &fenced) || fenced.Reason != "handed_on" {
		t.Errorf("the stale run: %v", err)
	}
	job = w.ask1("cancelled")
	<-cancelled
	_, err = w.store.CancelJob(w.ctx, everything, job.ID)
	w.must(err)
	w.ends(job, storage.JobCancelled)
	if err := <-tried; !errors.Is(err, storage.ErrCancelled) {
		t.Errorf("the cancelled run: %v", err)
	}
	var balance int64
	w.ask(&balance, "SELECT balance FROM bank.accounts")
	if balance != 440 {
		t.Errorf("the balance is %d", balance)
	}
	state, err := w.store.FenceState(w.ctx, everything, jobs.DefaultTenant, "account:1")
	if err != nil || !strings.HasPrefix(state.Holder, "job ") {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestNamesOfFencesAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, tenant, resource string }{
		{"tenant", "", "r"}, {"resource", "a", ""}, {"resource", "a", strings.Repeat("x", 501)}, {"resource", "a", "\x00"}, {"resource", "a", "\xff"},
	} {
		_, err := jobs.Fence(t.Context(), nil, c.tenant, c.resource, "") // refused before any database is asked
		for _, err := range []error{err, jobs.CheckFence(c.tenant, c.resource)} {
			var bad *invalid.Error
			if !errors.As(err, &bad) || len(bad.Problems) != 1 || bad.Problems[0].Field != c.field {
				t.Errorf("%q, %q: %v", c.tenant, c.resource, err)
			}
		}
	}
	if err := jobs.CheckFence("acme", "account:1"); err != nil {
		t.Error(err)
	}
}
