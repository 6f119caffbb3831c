package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// ErrWorkerStopped is the cause with which attempts end when their worker stops.
var ErrWorkerStopped = errors.New("the worker was stopped")

// decided reports whether the database has given the attempt its verdict
// already, or whether nobody can know yet; either way the worker adds nothing.
func decided(err error) bool {
	var fenced *storage.FencedError
	if errors.As(err, &fenced) {
		return fenced.Resource == "" && fenced.Reason != "newer_token" && fenced.Reason != "handed_on" // a fence of the handler's own decides nothing about its job
	}
	return errors.Is(err, storage.ErrGone) || errors.Is(err, storage.ErrUnknownOutcome)
}

// ending turns the error that ended an attempt into its verdict. Only what the
// work itself did wrong counts as a failure of the job.
func ending(job storage.Job, err error) storage.Ending {
	var fenced *storage.FencedError
	switch {
	case errors.Is(err, errNotForUs):
		return storage.Ending{State: storage.AttemptFailed, Reason: "not_for_us", Error: storable(err.Error()), Retry: jitter(notForUsWait)}
	case errors.As(err, &fenced):
		return storage.Ending{State: storage.AttemptFenced, Reason: fenced.Reason, Retry: spread(job.Generation)}
	case errors.Is(err, storage.ErrCancelled):
		return storage.Ending{State: storage.AttemptCancelled, Reason: "cancelled"}
	case errors.Is(err, storage.ErrRecoveryNeeded):
		return storage.Ending{State: storage.AttemptFailed, Reason: "recovery_needed", Retry: jitter(notForUsWait)}
	case errors.Is(err, ErrWorkerStopped):
		return storage.Ending{State: storage.AttemptFailed, Reason: "worker_stopped"}
	case errors.Is(err, ErrLeaseLost):
		return storage.Ending{State: storage.AttemptFailed, Reason: "lease_lost", Retry: jitter(time.Second)}
	case errors.Is(err, storage.ErrCondemned):
		return storage.Ending{State: storage.AttemptFailed, Reason: "condemned"}
	}
	return failure(job, err)
}

// failure is the verdict on what the work itself did wrong.
func failure(job storage.Job, err error) storage.Ending {
	var (
		panicd *panicError
		perm   *permanentError
		bad    *invalid.Error
	)
	e := storage.Ending{
		State: storage.AttemptFailed, Reason: "error", Error: storable(err.Error()),
		Counts: true, Retry: backoffOf(job),
	}
	switch {
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		e.Reason = "timeout"
	case errors.As(err, &panicd):
		e.Reason = "panic"
	case errors.As(err, &perm), errors.As(err, &bad):
		e.Final = true
	}
	return e
}

// backoff grows from two seconds to ten minutes with the failures before.
func backoff(failures int) time.Duration {
	return jitter(min(2*time.Second<<min(failures, 16), 10*time.Minute))
}

// spread is how long a job that was overtaken stays away, unless the end of a
// newer attempt wakes it: anything up to a time that doubles with each return, so
// that jobs which keep overtaking each other come apart.
func spread(generation int) time.Duration {
	return time.Second + rand.N(min(time.Second<<min(generation, 16), time.Minute))
}

// notForUsWait is how long a job waits for a worker that can run it.
const notForUsWait = 15 * time.Second

func randomUpTo(span float64) float64 { return rand.Float64() * span }

// jitter is d give or take a quarter, so that what failed together does not come back together.
func jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}

// storable makes any text fit for PostgreSQL: valid UTF-8, no U+0000, not endless.
func storable(s string) string {
	const most = 16 << 10
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}
