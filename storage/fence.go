package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

var (
	// ErrWrittenBefore means that a token, or this operation of it, was written by an earlier try
	// that was committed: there is nothing left to do.
	ErrWrittenBefore = errors.New("it was written before")
	// ErrOutOfOrder means that a write does not follow what was written under its token, or that the
	// token was never given out: a mistake of the program.
	ErrOutOfOrder = errors.New("the write is out of order")
)

// Fence is the right to write to a resource of the application's own: a row, an
// account, anything that has a name. It is a token, above every token that was
// drawn for the resource before, and the check of it in the transaction that
// writes. Nothing expires: a program may be frozen for as long as it pleases
// between drawing and writing.
//
//   - [Fence.Write] is one write. It is refused when another token has written
//     since this one was drawn. So what was read after drawing is still true when the
//     write is committed, and no update gets lost.
//   - [Fence.Step] is one of several writes in their order 1, 2, 3, … under one
//     token, each in a transaction of its own.
//   - [Fence.Once] is a piece of work that is done once for all.
//   - [Fence.NewestWins] is the weaker rule: refused only when a newer token has
//     written. For writes that are made of nothing that was read from the resource.
//
// A fence protects what is written under it, and only from those that write under
// it too: every program that changes the resource must. It keeps nobody from
// working; two that work at once find out when they write.
//
// A Fence is a value and safe for concurrent use. A token with its operation names
// one piece of work, whoever sends it.
type Fence struct {
	store            *Store
	tenant, resource string
	token            int64
	newestWins       bool
	job, run         *uuid.UUID // nil, or that the job must still be run by
}

// Fence draws a token for a resource of a tenant. Read what the write will be made
// of after this, never before. holder is for people: who asks, such as a job and
// its worker; it may be empty. A refused name is a [*NameError].
//
// It waits while another transaction writes under a fence of the resource, and
// must not be called within one that does: that would wait for itself.
func (s *Store) Fence(ctx context.Context, tenant, resource, holder string) (Fence, error) {
	if err := CheckFence(tenant, resource, holder); err != nil {
		return Fence{}, err
	}
	f := Fence{store: s, tenant: tenant, resource: resource}
	err := decide(ctx, func(ctx context.Context) error { // a number whose reply was lost is skipped, which harms nobody
		return s.pool.QueryRow(ctx, "SELECT fenceline.fence_token($1, $2, $3)", tenant, resource, holder).Scan(&f.token)
	})
	if err != nil {
		return Fence{}, fmt.Errorf("draw a token for %q: %w", resource, sequenceBehind(err))
	}
	return f, nil
}

// Token is the number that was drawn.
func (f Fence) Token() int64 { return f.token }

// Resource is what the fence is for.
func (f Fence) Resource() string { return f.resource }

// NewestWins is the fence with a weaker rule: a write is refused only when a newer
// token has written, not when an older one has since this one was drawn. Then what
// the older one wrote is written over. That is right for a write that replaces the
// whole resource by something made elsewhere, and loses updates for any other.
func (f Fence) NewestWins() Fence {
	f.newestWins = true
	return f
}

// OfRun is the fence of a plain job's run: a write is also refused when the job was
// handed on to another run, or cancelled ([ErrCancelled]), even before anybody else
// has drawn a token.
func (f Fence) OfRun(job, run uuid.UUID) Fence {
	f.job, f.run = &job, &run
	return f
}

// Write runs fn in one transaction that may write to the resource, and commits it
// when fn returns nil. The check comes first and holds until the commit: nobody
// else draws a token of the resource or writes under one meanwhile, so fn should be
// short. What fn reads in it is the newest.
//
// It is refused with [ErrFenced] (a [*FencedError]) when another token has written,
// with [ErrWrittenBefore] when this one has; fn is not called then. With any other
// error nothing was written, and it may be called again; except for
// [ErrUnknownOutcome]: PostgreSQL did not answer whether it committed and could not be
// asked before ctx ended, or a newer token has written since, so that nobody can
// tell; see [Fence.Written].
func (f Fence) Write(ctx context.Context, fn func(Tx) error) error { return f.write(ctx, 0, fn) }

// Step is [Fence.Write] for operation op of an ordered sequence: 1, 2, 3, … under one
// token. An operation that was committed before is [ErrWrittenBefore], also after a
// lost reply, so a sequence may be sent again from its beginning. One that skips
// operations is [ErrOutOfOrder], and so are Write and Step under the same token. A
// newer token begins at 1 again; that ends the sequence of the older one.
func (f Fence) Step(ctx context.Context, op int64, fn func(Tx) error) error {
	if op < 1 {
		return fmt.Errorf("%w: operations are counted from 1, not from %d", ErrOutOfOrder, op)
	}
	return f.write(ctx, op, fn)
}

// Once is [Fence.Write] for a piece of work that is to be done once, however often
// its job is delivered, tried again or handed on: the resource is the name of the work,
// such as "invoice:4711:mail", and not what it is done to. When the resource was
// written before, under whatever token, it is [ErrWrittenBefore] and the work is
// done. What [Store.ForgetFences] has deleted counts as never done.
func (f Fence) Once(ctx context.Context, fn func(Tx) error) error {
	last, err := f.Written(ctx)
	if err != nil {
		return err
	}
	if last.Token != 0 {
		return fmt.Errorf("%w: %q, under token %d", ErrWrittenBefore, f.resource, last.Token)
	}
	f.newestWins = false // nobody has written until now, so who has then has written since
	err = f.Write(ctx, fn)
	var fenced *FencedError
	if errors.As(err, &fenced) && (fenced.Reason == "newer_token" || fenced.Reason == "written_since") {
		return fmt.Errorf("%w: %q, under token %d", ErrWrittenBefore, f.resource, fenced.By)
	}
	return err
}

// WriteIn is [Fence.Write] within the caller's transaction, which must be one of
// this database in READ COMMITTED. The caller returns its error, so that the
// transaction is rolled back: refused, it cannot commit anyway. Rolled back, it leaves
// no trace. A transaction that writes to several resources takes them in one order
// everywhere, such as by name; others deadlock.
func (f Fence) WriteIn(ctx context.Context, tx Tx, fn func(Tx) error) error {
	return f.in(ctx, tx, 0, fn)
}

// StepIn is [Fence.Step] within the caller's transaction; see [Fence.WriteIn].
func (f Fence) StepIn(ctx context.Context, tx Tx, op int64, fn func(Tx) error) error {
	if op < 1 {
		return fmt.Errorf("%w: operations are counted from 1, not from %d", ErrOutOfOrder, op)
	}
	return f.in(ctx, tx, op, fn)
}

func (f Fence) in(ctx context.Context, tx Tx, op int64, fn func(Tx) error) error {
	if f.store == nil {
		return fmt.Errorf("%w: this fence was not drawn; see Store.Fence", ErrOutOfOrder)
	}
	if _, ok := tx.Statement.ConnPool.(gorm.TxCommitter); !ok {
		return fmt.Errorf("write under a fence of %q: it needs a transaction that holds until the write is committed; see Store.Transaction", f.resource)
	}
	err := tx.WithContext(ctx).Exec("SELECT fenceline.fence_write(?, ?, ?, ?, ?, ?, ?)",
		f.tenant, f.resource, f.token, op, f.newestWins, f.job, f.run).Error
	if err != nil {
		return f.refusal(err)
	}
	return fn(tx)
}

func (f Fence) write(ctx context.Context, op int64, fn func(Tx) error) error {
	if f.store == nil {
		return f.in(ctx, nil, op, fn)
	}
	asked := false // to commit
	err := f.store.Transaction(ctx, func(tx Tx) error {
		err := f.in(ctx, tx, op, fn)
		asked = err == nil
		return err
	})
	if !asked || err == nil || refused(err) {
		return err
	}
	return f.settle(ctx, op, err)
}

// settlePatience is how long an unanswered commit is asked about when ctx has ended.
const settlePatience = 5 * time.Second

// settle finds out what became of a commit that gave no answer.
func (f Fence) settle(ctx context.Context, op int64, lost error) error {
	if ended := ctx.Err(); ended != nil {
		if !errors.Is(lost, ended) { // as when the transaction saw it first
			lost = fmt.Errorf("%w: %w", ended, lost)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), settlePatience)
		defer cancel()
	}
	last, err := f.Written(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("write under token %d of %q: %w: %w; asked again: %w", f.token, f.resource, ErrUnknownOutcome, lost, err)
	case last.Token > f.token:
		return fmt.Errorf("write under token %d of %q: %w: %w; token %d has written since", f.token, f.resource, ErrUnknownOutcome, lost, last.Token)
	case last.Token == f.token && last.Op >= op:
		return nil
	}
	return fmt.Errorf("write under token %d of %q: it was rolled back: %w", f.token, f.resource, lost)
}

// Written is the newest write to a resource.
type Written struct {
	Token int64 // 0 when nothing was written yet
	Op    int64 // 0 for [Fence.Write], else the operation of [Fence.Step]
	At    time.Time
}

// Written asks what was written last to the resource, under whatever token. It
// waits for a transaction that is about to write, so the answer is what is
// committed. [ErrNotFound] when nobody used the fence for so long that it was
// forgotten, [ErrUnknownOutcome] when ctx ends first.
func (f Fence) Written(ctx context.Context) (Written, error) {
	if f.store == nil {
		return Written{}, fmt.Errorf("%w: this fence was not drawn; see Store.Fence", ErrOutOfOrder)
	}
	var w []Written
	err := decide(ctx, func(ctx context.Context) error {
		return f.store.db.WithContext(ctx).Raw(`SELECT last_token AS token, last_op AS op, coalesce(written_at, 'epoch') AS at FROM fenceline.fences
			WHERE tenant = ? AND resource = ? FOR SHARE`, f.tenant, f.resource).Scan(&w).Error
	})
	switch {
	case err != nil:
		return Written{}, fmt.Errorf("ask what was written to %q: %w", f.resource, err)
	case len(w) == 0:
		return Written{}, fmt.Errorf("fence of %q: %w", f.resource, ErrNotFound)
	case w[0].Token == 0:
		w[0].At = time.Time{}
	}
	return w[0], nil
}

// refusal turns what fence_write has raised into our errors.
func (f Fence) refusal(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("write under a fence of %q: %w", f.resource, err)
	}
	switch pg.Code {
	case "FL010":
		var detail struct {
			Reason string
			By     int64
		}
		_ = json.Unmarshal([]byte(pg.Detail), &detail) // refused it is in any case
		if detail.Reason == "cancelled" {
			return fmt.Errorf("write under a fence of %q: %w", f.resource, ErrCancelled)
		}
		return &FencedError{Reason: detail.Reason, By: detail.By, Resource: f.resource}
	case "FL011":
		return fmt.Errorf("%w: %s", ErrWrittenBefore, pg.Message)
	case "FL012":
		return fmt.Errorf("%w: %s", ErrOutOfOrder, pg.Message)
	}
	return fmt.Errorf("write under a fence of %q: %w", f.resource, sequenceBehind(err))
}
