package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// VerifyOptions say how much [Verify] looks at. The zero value reads every file
// that has to be there and takes nothing for granted about the clean-up.
type VerifyOptions struct {
	// SizesOnly compares the sizes of files and not their hashes: much faster, and blind to
	// bytes that changed in place. The summary says which of the two was done.
	SizesOnly bool
	// Drained says that the clean-up has nothing left to do: whatever the newest clean-up that
	// finished had to take is then a violation instead of being counted.
	Drained bool
	// Sweep is what the clean-up is told; Grace, Quarantine and Superseded are read.
	Sweep SweepOptions
	// Stuck is for how long a job may do without somebody who rings or works for it before that
	// is reported as a warning; 0 is an hour.
	Stuck time.Duration
	// Progress, if it is not nil, is called often, from the goroutine that called Verify.
	Progress func(VerifyProgress)
}

// VerifyProgress says how far a [Verify] is.
type VerifyProgress struct {
	Step  string // exports, jobs, notices, files or folders
	Done  int64
	Total int64 // counted at the start of the step
	Bytes int64 // of files that were read so far
}

// Violation is something that a law forbids, or, as a warning, something that
// an operator should look at although no law is broken yet.
type Violation struct {
	Law     string    `json:"law"` // L1 to L8, see the package's documentation
	Warning bool      `json:"warning,omitempty"`
	Export  uuid.UUID `json:"export,omitzero"`
	Attempt uuid.UUID `json:"attempt,omitzero"`
	Job     uuid.UUID `json:"job,omitzero"`
	What    string    `json:"what"` // a sentence with the values that do not fit
}

// String is the violation in a line.
func (v Violation) String() string {
	s := v.Law
	if v.Warning {
		s += " warning"
	}
	for _, of := range []struct {
		name string
		id   uuid.UUID
	}{{"export", v.Export}, {"attempt", v.Attempt}, {"job", v.Job}} {
		if of.id != uuid.Nil {
			s += " " + of.name + " " + of.id.String()
		}
	}
	return s + ": " + v.What
}

// Summary is what a [Verify] looked at and found.
type Summary struct {
	Exports  int64 `json:"exports"`
	Jobs     int64 `json:"jobs"`
	Attempts int64 `json:"attempts"`
	Notices  int64 `json:"notices"` // rows of the outbox
	// Files that have to be there, and their bytes. Hashed says that they were read to the end.
	Files  int64 `json:"files"`
	Bytes  int64 `json:"bytes"`
	Hashed bool  `json:"hashed"`
	// Garbage are folders and left-over names that a clean-up will still take.
	Garbage      int64 `json:"garbage"`
	GarbageBytes int64 `json:"garbage_bytes"`
	// Unknown are names below the files folder that no attempt accounts for. No clean-up takes them.
	Unknown    int64 `json:"unknown"`
	Violations int64 `json:"violations"`
	Warnings   int64 `json:"warnings"`
	// Elapsed is in nanoseconds.
	Elapsed time.Duration `json:"elapsed"`
}

// ErrNotDrained means that a [Verify] was told that the clean-up has nothing
// left to do, but no clean-up has finished yet.
var ErrNotDrained = errors.New("no clean-up has finished without an error yet; run one first")

// Verify reads the whole database and the file store and reports everything
// that the laws forbid, in no promised order. It changes nothing, needs memory
// that does not grow with what there is, and its cost is linear in it.
//
// It may run beside a live system: what is compared inside the database is
// compared by one statement and so in one snapshot, and what is compared with
// the files is read again from the database afterwards, and reported only if it
// still stands. A publication that moved on meanwhile is not a violation.
//
// report is called for each finding, from the goroutine that called Verify. The
// error is not nil when Verify could not look at everything; what was reported
// until then stands. It is [files.ErrOtherInstallation] when the files are not
// this database's, and [ErrNotDrained].
func Verify(ctx context.Context, s *Store, f files.Store, o VerifyOptions, report func(Violation)) (Summary, error) {
	if o.Stuck == 0 {
		o.Stuck = time.Hour
	}
	start := time.Now()
	v := &verifier{store: s, files: f, opt: o, report: report, sum: Summary{Hashed: !o.SizesOnly}}
	err := v.run(ctx)
	v.sum.Elapsed = time.Since(start)
	if err != nil {
		return v.sum, fmt.Errorf("verify: %w", err)
	}
	return v.sum, nil
}

// verifier is one run of [Verify].
type verifier struct {
	store  *Store
	files  files.Store
	opt    VerifyOptions
	report func(Violation)
	sum    Summary
	// drained is since when the newest finished clean-up has been at work; nil when that is not looked at.
	drained *time.Time
}

// verifyPage is how many rows or names are looked at at once.
const verifyPage = 500

func (v *verifier) run(ctx context.Context) error {
	id, err := v.store.Installation(ctx)
	if err != nil {
		return err
	}
	if err := v.files.CheckMarker(ctx, id); err != nil {
		return err
	}
	if v.opt.Drained {
		if v.drained, err = v.store.lastSweep(ctx); err != nil {
			return err
		}
	}
	for _, p := range rowPasses {
		if err := v.rows(ctx, p); err != nil {
			return fmt.Errorf("look at %s: %w", p.step, err)
		}
	}
	if err := v.recorded(ctx); err != nil {
		return fmt.Errorf("look at files: %w", err)
	}
	w := &walk{v: v}
	if err := w.all(ctx); err != nil {
		return fmt.Errorf("look at what the files hold: %w", err)
	}
	return nil
}

// lastSweep is when the newest clean-up began that has come to its end.
func (s *Store) lastSweep(ctx context.Context) (*time.Time, error) {
	var began time.Time
	err := s.pool.QueryRow(ctx, `SELECT started_at FROM fenceline.sweeps
		WHERE finished_at IS NOT NULL AND error IS NULL AND tenant IS NULL ORDER BY id DESC LIMIT 1`).Scan(&began)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotDrained
	}
	if err != nil {
		return nil, fmt.Errorf("look for the last clean-up: %w", err)
	}
	return &began, nil
}

// due reports whether the last clean-up had to take what became garbage at
// since and may stay for wait after that.
func (v *verifier) due(since *time.Time, wait time.Duration) bool {
	if v.drained == nil || since == nil {
		return false
	}
	return since.Before(v.drained.Add(-max(wait, 0)))
}

func (v *verifier) found(x Violation) {
	if x.Warning {
		v.sum.Warnings++
	} else {
		v.sum.Violations++
	}
	v.report(x)
}

func (v *verifier) progress(step string, done, total int64) {
	if v.opt.Progress != nil {
		v.opt.Progress(VerifyProgress{Step: step, Done: done, Total: total, Bytes: v.sum.Bytes})
	}
}
