package jobs

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// Trial runs single jobs by hand, with the code that a [Worker] runs them with, but
// without Redis, heartbeats or anybody who hands them on: what a test controls must
// not go on by itself. Package jobstest is made of it; use that.
type Trial struct {
	Registry *Registry
	Store    *storage.Store
	Files    files.Store // only for exports
	Name     string      // of the worker, as attempts show it
	Log      *slog.Logger
	// Faults may be nil. Only exports have points.
	Faults Faults
	// Reported, unless nil, is called by [Work.Progress], which it may let wait.
	Reported func(progress json.RawMessage)
	// Around, unless nil, answers for the jobs around the one that runs, in place of the store.
	Around Surroundings

	err error
}

// Opened is the payload of a job as its handler gets it, secrets included.
func (r *Registry) Opened(job storage.Job) (json.RawMessage, error) {
	p, _, err := r.open(job.Kind, Payload{Version: job.PayloadVersion, Tenant: job.Tenant, Body: job.Payload})
	return p.Body, err
}

// Surroundings know the jobs around one that runs. A [*storage.Store] does.
type Surroundings interface {
	// ResultOf is what a job left behind for the next one of its chain; nil for nothing.
	ResultOf(ctx context.Context, job uuid.UUID) (json.RawMessage, error)
	// BatchOf is the batch of a job; [storage.ErrNotFound] when it has none.
	BatchOf(ctx context.Context, job uuid.UUID) (storage.Batch, error)
}

// Plain makes one run of a plain job that was claimed under the name in its RunID,
// and answers how it ends, which the caller records, and the error that ended it.
// The ending is nil when the database has decided about the run already. A trial makes one
// run at a time.
func (t *Trial) Plain(ctx context.Context, job storage.Job) (*storage.Finish, error) {
	f := t.worker().runPlain(ctx, job)
	return f, t.err
}

// Export makes one attempt at the job of an export, which waits and is due, and
// sees to its verdict. It answers the error that ended the attempt; nil when it published.
func (t *Trial) Export(ctx context.Context, job storage.Job) error {
	t.worker().work(ctx, job)
	return t.err
}

// worker is one that nobody hears of. Its lease keeps nobody out: what is tried
// must not depend on it.
func (t *Trial) worker() *Worker {
	t.err = nil
	return &Worker{
		id: uuid.New(), store: t.Store, files: t.Files, registry: t.Registry, leaser: AlwaysLeaser{}, name: t.Name, log: t.Log.With("worker", t.Name),
		lease: silent, heartbeat: silent, patience: 5 * time.Second, faults: t.Faults, trial: t, runs: newRuns(),
	}
}

// silent is longer than any test.
const silent = 24 * time.Hour

func (t *Trial) reported(progress json.RawMessage) {
	if t != nil && t.Reported != nil {
		t.Reported(progress)
	}
}

func (t *Trial) ended(err error) {
	if t != nil {
		t.err = err
	}
}
