package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrNotFound means that there is no such row, or none that the caller may see.
	ErrNotFound = errors.New("not found")
	// ErrBadURL means that the address of a database cannot be read; the error begins with the name of the setting.
	ErrBadURL = errors.New("must be such as postgres://user:secret@host/db, with %-escapes for special characters")
	// ErrUnreachable means that a server does not answer, or not yet; trying again may help.
	ErrUnreachable = errors.New("the server cannot be reached")
	// ErrNotDue means that the job cannot be begun: another worker has it, it is not due yet, or it has ended.
	ErrNotDue = errors.New("the job is not waiting to be run")
	// ErrHeld means that the job cannot begin now: its queue is paused, a cap is reached, or maintenance goes on.
	ErrHeld = errors.New("the job is held back")
	// ErrFenced means that a newer attempt is ahead; see [FencedError].
	ErrFenced = errors.New("fenced out by a newer attempt")
	// ErrCondemned means that the clean-up has condemned the attempt: its files go, it can never publish.
	ErrCondemned = errors.New("the attempt was condemned by the clean-up")
	// ErrCancelled means that the job was cancelled.
	ErrCancelled = errors.New("the job was cancelled")
	// ErrGone means that the export was deleted.
	ErrGone = errors.New("the export was deleted")
	// ErrUnknownOutcome means that PostgreSQL did not answer whether it committed. Nothing may be
	// concluded from it: neither success nor failure.
	ErrUnknownOutcome = errors.New("the outcome is unknown")
	// ErrSequenceBehind means that the token sequence was set back below tokens that were given out.
	ErrSequenceBehind = errors.New("the token sequence is behind")
	// ErrKeyReused means that an idempotency key came again with another request.
	ErrKeyReused = errors.New("the idempotency key was used for another request")
	// ErrKeyInUse means that another request with the idempotency key is at work.
	ErrKeyInUse = errors.New("a request with the idempotency key is being answered")
	// ErrBusy means that another process does this work right now.
	ErrBusy = errors.New("another run is in progress")
	// ErrOff means that clean-ups are switched off; nothing was deleted.
	ErrOff = errors.New("the clean-up is switched off")
	// ErrTooMuch means that a clean-up would delete too large a share of what is stored; nothing was deleted.
	ErrTooMuch = errors.New("too much for one clean-up")
	// ErrUnsafe means that the clean-up will not run on what it found; nothing was deleted.
	ErrUnsafe = errors.New("refusing to clean up")
)

// FencedError says what an attempt, or a write under a [Fence], was refused for.
// It matches [ErrFenced].
type FencedError struct {
	// Reason, of an attempt, is "newer_attempt" (of the same job), "newer_job", "handed_on" (the job
	// went to another worker) or "newer_token" (seen before anything was read). Of a fence it is
	// "newer_token" (it has written), "written_since" (an older token has, after this one was drawn),
	// "forgotten" (its row was deleted since, because nobody had used it for long) or "handed_on".
	Reason string
	// By is the token that was ahead; 0 when no newer attempt has begun yet.
	By int64
	// Resource is that of the fence; empty for an attempt.
	Resource string
}

// Error says in a sentence who was ahead.
func (e *FencedError) Error() string {
	if e.Resource != "" {
		return e.ofFence()
	}
	switch e.Reason {
	case "newer_attempt":
		return fmt.Sprintf("fenced out: attempt with token %d of the same job published before", e.By)
	case "newer_job":
		return fmt.Sprintf("fenced out: a newer job published with token %d", e.By)
	case "newer_token":
		return fmt.Sprintf("fenced out: token %d was drawn before this attempt began to read", e.By)
	}
	return "fenced out: the job was handed on to another worker"
}

func (e *FencedError) ofFence() string {
	const again = "draw a new token, read again and write"
	switch e.Reason {
	case "newer_token":
		return fmt.Sprintf("fenced out of %q: the newer token %d has written; %s", e.Resource, e.By, again)
	case "written_since":
		return fmt.Sprintf("fenced out of %q: token %d has written since this one was drawn; %s", e.Resource, e.By, again)
	case "handed_on":
		return fmt.Sprintf("fenced out of %q: the job was handed on to another worker", e.Resource)
	}
	return fmt.Sprintf("fenced out of %q: the token is of a fence that was forgotten since; %s", e.Resource, again)
}

// Is makes errors.Is(err, ErrFenced) true.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// refused reports whether PostgreSQL itself refused the statement, so that it
// certainly changed nothing. Everything else (a cut connection, a server that
// shuts down) leaves the outcome open.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Severity == "ERROR"
}

// unreachable marks an error to connect that is no answer of a running server,
// such as a wrong password is.
func unreachable(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !strings.HasPrefix(pg.Code, "57P") { // 57P01 to 57P03: it shuts down or starts up
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// passing reports whether a refused statement may well succeed when it is sent again.
func passing(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "55P03", "57014": // serialization, deadlock, lock timeout, cancelled
		return true
	}
	return false
}

// repairSequence brings the token sequence above everything that was drawn from it.
const repairSequence = `SELECT setval('fenceline.fence_tokens', greatest((SELECT max(issued_token) FROM fenceline.exports), ` +
	`(SELECT max(greatest(issued_token, last_write)) FROM fenceline.fences)))`

// IsBadText reports whether PostgreSQL refused a text because it is not UTF-8, or
// holds the character U+0000 (SQLSTATE 22021): bad input, whoever gave it.
func IsBadText(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "22021"
}

// sequenceBehind recognises a token that was given out before: to this export
// (the function says so) or to another (the unique index does).
func sequenceBehind(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "FL002" && (pg.Code != "23505" || pg.ConstraintName != "attempts_token_key") {
		return err
	}
	return fmt.Errorf("%w: %s; run: %s", ErrSequenceBehind, pg.Message, repairSequence)
}

// decide sends a deciding statement until PostgreSQL has answered it. The
// statements it is used for may be sent again: each takes the row lock first
// and answers what was decided before. When ctx ends without an answer the
// error is [ErrUnknownOutcome].
func decide(ctx context.Context, send func(context.Context) error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := send(ctx)
		if err == nil || refused(err) && !passing(err) {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
		case <-timer.C:
		}
	}
}
