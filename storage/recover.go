package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
)

// RecoverOptions say what a [Recover] may do. The zero value finishes only when
// every pointer's files are there.
type RecoverOptions struct {
	// DryRun changes nothing.
	DryRun bool
	// Adopt lets files without rows become publications again, where their manifest proves them complete and they are newer
	// than what the database has.
	Adopt bool
	// FilesLost gives up pointers whose files are missing: their exports say so until they are published again.
	FilesLost bool
	// Found, unless nil, is called for each finding, from the goroutine that called Recover.
	Found func(RecoverFinding)
	// Step, unless nil, is called before each step that changes something. It is for tests, which may die there.
	Step func(name string)
}

// RecoverFinding is one export or attempt on which the database and the files differ.
type RecoverFinding struct {
	// What is lost (a pointer without its files), unknown (files without rows), adopted, or adoptable (in a dry run).
	What    string    `json:"what"`
	Export  uuid.UUID `json:"export,omitzero"`
	Attempt uuid.UUID `json:"attempt,omitzero"`
	Token   int64     `json:"token,omitzero"`
	Tenant  string    `json:"tenant,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	Key     string    `json:"key,omitempty"`
	Why     string    `json:"why"` // in words
}

// RecoverSummary is what a [Recover] found and did.
type RecoverSummary struct {
	// Trouble is why it was needed; empty when nothing contradicted anything.
	Trouble string `json:"trouble"`
	// Done is whether publishing goes on. Number is that of the epoch that began.
	Done      bool      `json:"done"`
	Epoch     uuid.UUID `json:"epoch,omitzero"`
	Number    int64     `json:"number,omitzero"`
	Condemned int64     `json:"condemned"` // unfinished attempts; their jobs wait again
	Pointers  int64     `json:"pointers"`  // that were looked at
	Lost      int64     `json:"lost"`
	Unknown   int64     `json:"unknown"`
	Adopted   int64     `json:"adopted"` // in a dry run: adoptable
	// Sequence is where the tokens stood, Seen the highest that left a trace anywhere, Token where they go on.
	Sequence int64 `json:"sequence"`
	Seen     int64 `json:"seen"`
	Token    int64 `json:"token"`
}

// ErrFilesLost means that pointers name files that are not there. Nothing is
// published until they are back, or given up.
var ErrFilesLost = errors.New("files of current publications are missing")

// tokenMargin is how far above every token that was seen the sequence goes on:
// some were given out and left no trace.
const tokenMargin = 1000

// Recover ends what [ErrRecoveryNeeded] stands for: it begins a new epoch on both
// sides. First the database closes, then unfinished attempts are condemned, both
// sides are compared, the sequence goes past every token that left a trace, the
// files' mark is written, and last the database opens. Killed anywhere, it can be
// run again. One runs at a time, and none beside a clean-up ([ErrBusy]). The
// error is [ErrFilesLost] when pointers lack files and that was not allowed: then
// the database stays closed. [files.ErrOtherInstallation] means that the files
// are strangers', which no recovery mends.
//
// Nothing is deleted, and nothing contradicts a publication that the database has.
func Recover(ctx context.Context, s *Store, f files.Store, o RecoverOptions) (RecoverSummary, error) {
	r := &recovery{store: s, files: f, opt: o}
	for _, key := range []int64{recoverLock, sweepLock, beatLock} {
		unlock, err := s.tryLock(ctx, key)
		if err != nil {
			return r.sum, fmt.Errorf("recover: %w", err)
		}
		defer unlock()
	}
	err := r.run(ctx)
	switch {
	case err == nil:
		return r.sum, nil
	case r.next == uuid.Nil || errors.Is(err, ErrFilesLost): // which says so itself
		return r.sum, fmt.Errorf("recover: %w", err)
	}
	return r.sum, fmt.Errorf("recover: %w; it has not finished: run it again, nothing is published or cleaned up until then", err)
}

// recovery is one run of [Recover].
type recovery struct {
	store *Store
	files files.Store
	opt   RecoverOptions
	sum   RecoverSummary
	id    uuid.UUID // of the installation
	mark  files.Mark
	next  uuid.UUID
}

func (r *recovery) found(x RecoverFinding) {
	if r.opt.Found != nil {
		r.opt.Found(x)
	}
}

func (r *recovery) step(name string) {
	if r.opt.Step != nil {
		r.opt.Step(name)
	}
}

func (r *recovery) run(ctx context.Context) error {
	if err := r.look(ctx); err != nil {
		return err
	}
	if r.sum.Trouble == "" && !r.opt.DryRun && !r.opt.Adopt && !r.opt.FilesLost {
		r.sum.Done = true
		return nil
	}
	if !r.opt.DryRun {
		if err := r.closeEpoch(ctx); err != nil {
			return err
		}
	}
	if err := r.walk(ctx, r.seen); err != nil { // every token, before one is given out or adopted
		return err
	}
	if err := r.raise(ctx); err != nil {
		return err
	}
	if err := r.walk(ctx, r.strangers); err != nil {
		return err
	}
	if err := r.pointers(ctx); err != nil {
		return err
	}
	if r.opt.DryRun {
		return nil
	}
	if r.sum.Lost > 0 && !r.opt.FilesLost {
		return fmt.Errorf("%w (%d): bring them back and recover again, or give them up with --files-lost; nothing is published until then", ErrFilesLost, r.sum.Lost)
	}
	return r.openEpoch(ctx)
}

// look reads both sides and says what is wrong.
func (r *recovery) look(ctx context.Context) (err error) {
	if err := r.store.Ping(ctx); err != nil {
		return err
	}
	if r.id, err = r.store.Installation(ctx); err != nil {
		return err
	}
	r.mark, err = r.files.ReadMark(ctx)
	if errors.Is(err, files.ErrNotFound) && !r.opt.DryRun {
		if err = r.files.CheckMarker(ctx, r.id); err == nil { // empty: it is marked
			r.mark, err = r.files.ReadMark(ctx)
		}
	}
	if err != nil {
		return err
	}
	if r.mark.Installation != r.id {
		return fmt.Errorf("%w: they are of installation %s, the database is installation %s", files.ErrOtherInstallation, r.mark.Installation, r.id)
	}
	var why *RecoveryError
	if _, err = r.store.compare(ctx, r.files); errors.As(err, &why) {
		r.sum.Trouble, err = why.Why, nil
	}
	if err != nil {
		return err
	}
	e, err := r.store.Epoch(ctx)
	r.sum.Sequence, r.sum.Epoch, r.sum.Number, r.sum.Seen = e.Token, e.ID, e.Number, max(e.Token, r.mark.Token)
	return err
}

// closeEpoch stops everybody, in the database, and condemns what was going on.
func (r *recovery) closeEpoch(ctx context.Context) error {
	r.step("close")
	err := r.store.pool.QueryRow(ctx, `UPDATE fenceline.epoch SET state = 'recovering', reason = NULL, next_id = coalesce(next_id, gen_random_uuid())
		RETURNING next_id`).Scan(&r.next)
	if err != nil {
		return fmt.Errorf("close the epoch: %w", err)
	}
	for {
		r.step("condemn")
		var n int64
		if err := r.store.pool.QueryRow(ctx, "SELECT fenceline.condemn_unfinished(100)").Scan(&n); err != nil {
			return fmt.Errorf("condemn unfinished attempts: %w", err)
		}
		r.sum.Condemned += n
		if n == 0 {
			return nil
		}
	}
}

// raise lets the sequence go on above every token that was seen.
func (r *recovery) raise(ctx context.Context) error {
	var rows int64
	err := r.store.pool.QueryRow(ctx, `SELECT greatest((SELECT max(issued_token) FROM fenceline.exports), (SELECT max(token) FROM fenceline.attempts),
		(SELECT max(greatest(issued_token, last_write)) FROM fenceline.fences), 0)`).Scan(&rows)
	if err != nil {
		return fmt.Errorf("look for the highest token: %w", err)
	}
	r.sum.Seen = max(r.sum.Seen, rows)
	r.sum.Token = r.sum.Seen + tokenMargin
	if r.opt.DryRun {
		return nil
	}
	r.step("raise")
	_, err = r.store.pool.Exec(ctx, "SELECT setval('fenceline.fence_tokens', $1) FROM fenceline.fence_tokens WHERE last_value < $1", r.sum.Token)
	if err != nil {
		return fmt.Errorf("raise the sequence: %w", err)
	}
	return nil
}

// openEpoch tells the files, then the database. When only the first was done, the
// next run begins the same epoch again.
func (r *recovery) openEpoch(ctx context.Context) error {
	m := files.Mark{Installation: r.id, Epoch: r.next, Token: r.sum.Token}
	r.step("count")
	err := r.store.pool.QueryRow(ctx, `UPDATE fenceline.epoch SET beats = greatest(beats, $1) + 1 RETURNING beats, greatest(number, $2) + 1, fenceline.database_here(),
		current_database(), clock_timestamp()`, r.mark.Beat, r.mark.Number).Scan(&m.Beat, &m.Number, &m.Fingerprint, &m.Database, &m.At)
	if err != nil {
		return fmt.Errorf("count a beat of the epoch: %w", err)
	}
	r.step("mark")
	if err := r.files.WriteMark(ctx, m); err != nil {
		return err
	}
	r.step("open")
	tag, err := r.store.pool.Exec(ctx, `UPDATE fenceline.epoch SET id = next_id, number = $2, state = 'open', next_id = NULL, fingerprint = $3, database = $4,
		confirmed = $5, began_at = clock_timestamp(), recovered_at = clock_timestamp() WHERE state = 'recovering' AND next_id = $1`,
		r.next, m.Number, m.Fingerprint, m.Database, m.Beat)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("it was not closed any more")
	}
	if err != nil { // or it was done, and the answer was lost
		if e, bad := r.store.Epoch(ctx); bad != nil || e.ID != r.next {
			return fmt.Errorf("open the epoch: %w", err)
		}
	}
	r.sum.Done, r.sum.Epoch, r.sum.Number = true, m.Epoch, m.Number
	r.store.forget(ctx)
	return nil
}
