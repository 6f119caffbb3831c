package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// Work is one run of a job as its handler and its middleware see it. Its methods
// may be called from several goroutines.
type Work struct {
	// Log carries the job, its kind and its run on every line.
	Log *slog.Logger

	store *storage.Store
	job   storage.Job
	trial *Trial // nil outside of tests

	mu       sync.Mutex
	progress json.RawMessage
	changed  bool // progress since the last heartbeat
	result   json.RawMessage
}

// Job is the job as it was when the run began.
func (w *Work) Job() storage.Job { return w.job }

// Attempt is 1 for the job's first attempt. What it waited for was none.
func (w *Work) Attempt() int { return w.job.Attempts }

// Progress reports how much of how much is done, and a word for people; total 0
// is unknown. It is seen with the next heartbeat, within a second.
func (w *Work) Progress(done, total int64, note string) {
	raw, _ := json.Marshal(struct { // numbers and valid text always can
		Done  int64  `json:"done"`
		Total int64  `json:"total,omitempty"`
		Note  string `json:"note,omitempty"`
	}{done, total, storable(note)})
	w.mu.Lock()
	w.progress, w.changed = raw, true
	w.mu.Unlock()
	w.trial.reported(raw)
}

// news is the progress since the last call; nil when there is none.
func (w *Work) news() json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.changed {
		return nil
	}
	w.changed = false
	return w.progress
}

// Previous decodes the result of the job before this one in its chain: what a
// plain job returned, or {"export_id", "attempt_id", "token", "rows"} of an
// export. It answers false when there is none.
func (w *Work) Previous(ctx context.Context, into any) (bool, error) {
	if w.job.AfterJob == nil {
		return false, nil
	}
	raw, err := w.around().ResultOf(ctx, *w.job.AfterJob)
	if err != nil || raw == nil {
		return false, err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return false, Permanent(fmt.Errorf("read the result of the job before: %w", err))
	}
	return true, nil
}

// Batch is the batch that the job belongs to, or that it was called by; false
// when there is none.
func (w *Work) Batch(ctx context.Context) (storage.Batch, bool, error) {
	b, err := w.around().BatchOf(ctx, w.job.ID)
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Batch{}, false, nil
	}
	return b, err == nil, err
}

// around is who knows the jobs around this one.
func (w *Work) around() Surroundings {
	if w.trial != nil && w.trial.Around != nil {
		return w.trial.Around
	}
	return w.store
}

// Handler does the work of a job, or of what is inside a middleware. It must stop
// soon when its context ends; whose cause says why.
type Handler func(ctx context.Context, w *Work) error

// Middleware wraps a handler. It runs before the attempt counts: what it releases
// (see [Release]) has only waited. For exports it wraps everything from the lease
// to the publication, so that waiting draws no token.
type Middleware func(next Handler) Handler

// HandleOption changes a kind that [Handle] makes.
type HandleOption func(*Kind)

// Use wraps the handler in middleware; the first is the outermost.
func Use(m ...Middleware) HandleOption {
	return func(k *Kind) { k.Middleware = append(k.Middleware, m...) }
}

// Handle makes a kind of plain jobs: jobs that do work and publish no export. The
// payload is decoded into T, strictly; when *T has a method Validate() error it is
// called at dispatch and again by the worker, and its error is what the user
// sees. What do answers is kept as JSON for the next job of a chain; nil is
// nothing.
//
// A plain job runs at least once. When a worker freezes, its job goes to another
// one, and the first may wake up in the middle of what it did: writes that must
// not be doubled or overtaken go through [Work.Fence].
func Handle[T any](name string, do func(ctx context.Context, w *Work, in T) (any, error), options ...HandleOption) Kind {
	k := Kind{Name: name, Version: 1, Secret: secretPaths(reflect.TypeFor[T]()), Decode: func(in Payload) (Task, error) {
		var v T
		if err := strictJSON(in.Body, &v, "payload"); err != nil {
			return Task{}, err
		}
		if checked, ok := any(&v).(interface{ Validate() error }); ok {
			if err := checked.Validate(); err != nil {
				return Task{}, err
			}
		}
		return Task{Title: name, Do: func(ctx context.Context, w *Work) error {
			out, err := do(ctx, w, v)
			if err != nil || out == nil {
				return err
			}
			return w.keep(out)
		}}, nil
	}}
	for _, o := range options {
		o(&k)
	}
	return k
}

// maxResult bounds what a job hands to the next one, in bytes of JSON.
const maxResult = 1 << 20

func (w *Work) keep(out any) error {
	raw, err := json.Marshal(out)
	if err != nil {
		return Permanent(fmt.Errorf("keep the result: %w", err))
	}
	if len(raw) > maxResult {
		return Permanent(fmt.Errorf("keep the result: it has %d bytes, %d are allowed; store it elsewhere and answer where", len(raw), maxResult))
	}
	if _, err := canonicalValue(raw); err != nil {
		return Permanent(fmt.Errorf("keep the result: %w", err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result = raw
	return nil
}

// releaseError puts a job back.
type releaseError struct {
	after time.Duration
	why   string
}

func (e *releaseError) Error() string { return fmt.Sprintf("released for %s (%s)", e.after, e.why) }

// Release puts the job back for a while, 50 milliseconds at least. It is no failure and no attempt. why is
// the word that lists show for what it waits: rate, overlap, circuit, or empty
// for "released".
func Release(after time.Duration, why string) error {
	if why == "" {
		why = "released"
	}
	return &releaseError{after: after, why: why}
}

// skipError gives a job up without a failure.
type skipError struct{ reason string }

func (e *skipError) Error() string { return "skipped: " + e.reason }

// Skip ends the job as cancelled, with the reason kept: there is nothing to do. To
// its batch that is as good as done; what waits behind it in a chain is cancelled.
func Skip(reason string) error { return &skipError{reason: reason} }

// canonicalValue checks that JSON can be stored as it is.
func canonicalValue(raw json.RawMessage) (json.RawMessage, error) {
	wrapped, err := canonicalJSON(json.RawMessage(`{"value":` + string(raw) + `}`))
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("it %s", bad.Problems[0].Message)
	}
	return wrapped, err
}
