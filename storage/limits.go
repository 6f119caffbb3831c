package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// LimitKey names what a limit counts: jobs with the same key share it.
type LimitKey struct {
	Tenant string // empty: all tenants share it
	Key    string
}

// Holder is a run of a job, for what is held as long as the run lives.
type Holder struct {
	Job        uuid.UUID
	Generation int        // of the job when the run took it
	Run        *uuid.UUID // the name of a plain job's run; nil for an export
}

// Rate is how often jobs may start.
type Rate struct {
	Every time.Duration // between two slots; whole microseconds
	Burst int           // so many may start at once after a pause, from 1
}

// Turn is the answer to a job that asked to start under a [Rate].
type Turn struct {
	// Go is true when the job may start after Wait, which is short then.
	Go   bool
	Wait time.Duration // until its slot
	Slot time.Time
}

const (
	// rateLate is how much later than planned jobs may start: those that wait come back when somebody looks for
	// them, which is about once a second.
	rateLate = 2 * time.Second
	// ratePatience is a wait that costs less than to put the job back and take it again.
	ratePatience = 20 * time.Millisecond
)

// TakeRate asks for a job's turn. A job that must wait has its slot kept: it
// should come back after the wait. In any period no more slots are given out than
// the rate has, with its burst. Jobs that come back late start late, together at
// most as many at once as the rate has in two seconds; beyond that they get new slots.
func (s *Store) TakeRate(ctx context.Context, key LimitKey, r Rate, job uuid.UUID) (Turn, error) {
	var t Turn
	var wait float64
	err := s.pool.QueryRow(ctx, "SELECT go, slot, wait_seconds FROM fenceline.take_rate($1, $2, $3, $4, $5, $6, $7)", key.Tenant, key.Key,
		r.Every.Microseconds(), r.Burst, rateLate.Microseconds(), ratePatience.Microseconds(), job).Scan(&t.Go, &t.Slot, &wait)
	if err != nil {
		return Turn{}, limitError("take a turn", key, err)
	}
	t.Wait = seconds(wait)
	return t, nil
}

// GiveBackRate gives the slot of a turn back that was not used: the next job that
// asks may have it.
func (s *Store) GiveBackRate(ctx context.Context, key LimitKey, slot time.Time) error {
	if _, err := s.pool.Exec(ctx, "SELECT fenceline.give_back_rate($1, $2, $3)", key.Tenant, key.Key, slot); err != nil {
		return limitError("give a turn back", key, err)
	}
	return nil
}

// Hold is the answer to a run that asked for a hold.
type Hold struct {
	Taken bool
	By    uuid.UUID // the job that has it
	// Own is true when By is the job that asks: another worker answered the same bell.
	Own bool
	// Ahead is how many jobs waited before this one, counted to 1,000.
	Ahead int
}

// TakeHold takes a hold for a run, under a name of this taking. It is free when
// nobody has it, and when the run that has it lives no more. With wait a run that
// finds it taken gets its job into the line: once the job waits for "overlap", the
// release of the hold makes the first in line due. Two runs may believe that they
// have it, when one was frozen: a hold saves work and guards nothing.
func (s *Store) TakeHold(ctx context.Context, key LimitKey, owner uuid.UUID, h Holder, wait bool) (Hold, error) {
	var got Hold
	var outcome string
	err := s.pool.QueryRow(ctx, "SELECT outcome, holder, ahead FROM fenceline.take_hold($1, $2, $3, $4, $5, $6, $7)",
		key.Tenant, key.Key, owner, h.Job, h.Generation, h.Run, wait).Scan(&outcome, &got.By, &got.Ahead)
	if err != nil {
		return Hold{}, limitError("take the hold", key, err)
	}
	got.Taken, got.Own = outcome == "taken", outcome == "own"
	return got, nil
}

// ReleaseHold ends a hold and wakes the first in line; nothing when it went to
// another owner meanwhile.
func (s *Store) ReleaseHold(ctx context.Context, key LimitKey, owner uuid.UUID) error {
	if _, err := s.pool.Exec(ctx, "SELECT fenceline.release_hold($1, $2, $3)", key.Tenant, key.Key, owner); err != nil {
		return limitError("release the hold", key, err)
	}
	return nil
}

// Breaker is when a circuit opens, and for how long.
type Breaker struct {
	Failures int           // so many
	Within   time.Duration // in so long open it
	CoolDown time.Duration
}

// Entry is the answer to a run that asked to pass a circuit.
type Entry struct {
	// Outcome is "closed" (go on), "probe" (go on; whether this run works decides for
	// the others), "open" (come back after Wait) or "probing" (another run tries right now).
	Outcome string
	Wait    time.Duration
}

// EnterCircuit asks whether a run may go on.
func (s *Store) EnterCircuit(ctx context.Context, key LimitKey, h Holder) (Entry, error) {
	var e Entry
	var wait float64
	err := s.pool.QueryRow(ctx, "SELECT outcome, wait_seconds FROM fenceline.enter_circuit($1, $2, $3, $4, $5)",
		key.Tenant, key.Key, h.Job, h.Generation, h.Run).Scan(&e.Outcome, &wait)
	if err != nil {
		return Entry{}, limitError("enter the circuit", key, err)
	}
	e.Wait = seconds(wait)
	return e, nil
}

// CircuitVerdict is how a run came out, as far as a circuit cares.
type CircuitVerdict string

// The verdicts of [Store.LeaveCircuit].
const (
	CircuitPassed  CircuitVerdict = "passed"
	CircuitFailed  CircuitVerdict = "failed"
	CircuitNeither CircuitVerdict = "neither" // it only waited, was cancelled or fenced
)

// LeaveCircuit says how a run came out that entered, and answers whether that
// opened the circuit. Only failures and the ends of probes need to be told.
func (s *Store) LeaveCircuit(ctx context.Context, key LimitKey, h Holder, v CircuitVerdict, b Breaker) (opened bool, err error) {
	err = s.pool.QueryRow(ctx, "SELECT fenceline.leave_circuit($1, $2, $3, $4, $5, $6, $7, $8, $9)", key.Tenant, key.Key, h.Job, h.Generation, h.Run,
		string(v), b.Failures, b.Within.Seconds(), b.CoolDown.Seconds()).Scan(&opened)
	if err != nil {
		return false, limitError("leave the circuit", key, err)
	}
	return opened, nil
}

// Cancelled reports whether a job was asked to cancel, and whether its batch was.
func (s *Store) Cancelled(ctx context.Context, job uuid.UUID) (itself, batch bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT j.state IN ('cancelling', 'cancelled'), coalesce((SELECT b.cancelled_at IS NOT NULL FROM fenceline.batches b WHERE b.id = j.batch_id), false)
		FROM fenceline.jobs j WHERE j.id = $1`, job).Scan(&itself, &batch)
	if err != nil {
		return false, false, fmt.Errorf("ask whether job %s was cancelled: %w", job, reached(err))
	}
	return itself, batch, nil
}

func limitError(what string, key LimitKey, err error) error {
	return fmt.Errorf("%s %q: %w", what, key.Key, reached(err))
}

// reached marks an error that is no answer of the server with [ErrUnreachable].
func reached(err error) error {
	if refused(err) {
		return err
	}
	return unreachable(err)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
