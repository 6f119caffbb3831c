package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// sweepBatch is how many attempts are taken in one statement.
	sweepBatch = 200
	// maxFailures ends a run: something is wrong that trying the rest does not mend.
	maxFailures = 1000
	// lastWords is how long a run that is told to stop may take to record what it did.
	lastWords = 10 * time.Second
)

// sweepRun is one run of a clean-up.
type sweepRun struct {
	*Sweep
	res     SweepResult
	began   time.Time
	checked map[uuid.UUID]bool // exports whose folders were looked at
}

// Run cleans up: what [Sweep.Plan] says, in that order, in batches, each of a few
// short statements, until nothing is left or a bound is reached. [ErrBusy] means
// that another run is in progress; [ErrOff] that it is switched off, and
// [ErrTooMuch] that it would delete too large a share: then nothing was deleted;
// [ErrUnsafe] that something does not fit together (see the protocol, step 7) and
// nothing more was deleted. Items that failed are in the result, not in the error;
// the next run tries them again. When ctx ends the run ends between two items and
// records what it did.
func (sw *Sweep) Run(ctx context.Context) (SweepResult, error) {
	if err := sw.checkOn(ctx); err != nil {
		return SweepResult{Stopped: stoppedOff}, err
	}
	unlock, err := sw.store.tryLock(ctx, sweepLock)
	if err != nil {
		return SweepResult{}, err
	}
	defer unlock()
	r := &sweepRun{Sweep: sw, began: time.Now(), checked: map[uuid.UUID]bool{}}
	if err := sw.closeKilled(ctx); err != nil {
		return r.res, err
	}
	if err := sw.checkSafe(ctx); err != nil {
		r.res.Stopped = stoppedUnsafe
		_ = r.begin(ctx) // so that it is seen; a standby refuses even that
		_, _ = r.record(ctx, err)
		return r.res, err
	}
	if err := r.begin(ctx); err != nil {
		return r.res, err
	}
	err = r.run(ctx)
	if r.res.Stopped == "" {
		r.res.Stopped = stoppedFor(err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	_, bad := r.record(last, err)
	return r.res, errors.Join(err, bad)
}

// run looks at the whole, then goes through the plan batch by batch.
func (r *sweepRun) run(ctx context.Context) error {
	if err := r.store.FoldStored(ctx); err != nil {
		return err
	}
	if err := r.store.ApplyRetention(ctx); err != nil {
		return err
	}
	if err := r.checkShare(ctx); err != nil {
		return err
	}
	p := r.newPlanner(false)
	p.keep = r.lookAgain
	for {
		start := time.Now()
		items, full, err := p.next(ctx, sweepBatch)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			if p.more {
				r.res.Stopped = stoppedLimit
			}
			return nil
		}
		failed := r.res.Failed
		if err := r.batch(ctx, items); err != nil {
			return err
		}
		p.left += r.res.Failed - failed // what cannot be deleted does not keep the rest waiting
		if stop, err := r.after(ctx); stop || err != nil {
			return err
		}
		if full {
			if err := r.rest(ctx, time.Since(start)); err != nil {
				return err
			}
		}
	}
}

// after records a batch and says whether it was the last one.
func (r *sweepRun) after(ctx context.Context) (stop bool, err error) {
	off, err := r.record(ctx, nil)
	switch {
	case ctx.Err() != nil:
		return true, ctx.Err()
	case err != nil:
		return true, err
	case off:
		r.res.Stopped = stoppedOff
		return true, r.checkOn(ctx)
	case r.res.Failed >= maxFailures:
		r.res.Stopped = stoppedFailures
		return true, nil
	case r.late():
		r.res.Stopped = stoppedTime
		return true, nil
	}
	return false, nil
}

func (r *sweepRun) late() bool { return r.opt.Time > 0 && time.Since(r.began) >= r.opt.Time }

// rest lets others work after a batch that took so long.
func (r *sweepRun) rest(ctx context.Context, took time.Duration) error {
	if r.opt.Pace <= 0 || r.opt.Pace >= 100 {
		return nil
	}
	wait := took * time.Duration(100-r.opt.Pace) / time.Duration(r.opt.Pace)
	if r.opt.Time > 0 {
		wait = min(wait, max(r.opt.Time-time.Since(r.began), 0))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// batch does what is planned with some items, all of one reason.
func (r *sweepRun) batch(ctx context.Context, items []SweepItem) error {
	if err := r.checkExports(ctx, items); err != nil {
		return err
	}
	switch items[0].Action {
	case "condemn":
		return r.condemn(ctx, items)
	case "expire":
		return r.expire(ctx, items)
	case "delete":
		var err error
		if items, err = r.doom(ctx, items); err != nil {
			return err
		}
	}
	done := r.remove(ctx, items)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	r.bury(last, done)
	return ctx.Err()
}

// condemn gives silent attempts their verdict. Publish needs the same rows, so
// exactly one of the two wins; one that is held is skipped.
func (r *sweepRun) condemn(ctx context.Context, items []SweepItem) error {
	ids := make([]uuid.UUID, len(items))
	for i, it := range items {
		ids[i] = it.Attempt
	}
	tag, err := r.store.pool.Exec(ctx, "SELECT fenceline.condemn_attempts($1::uuid[], $2)", texts(ids), r.opt.Grace.Seconds())
	if err != nil {
		return fmt.Errorf("condemn attempts: %w", recoveryNeeded(err))
	}
	r.res.Planned += len(items)
	r.res.Condemned += int(tag.RowsAffected())
	r.res.Skipped += len(items) - int(tag.RowsAffected())
	return nil
}

// removal is what became of the files of an item.
type removal struct {
	SweepItem
	removed int64
}

// remove deletes the files of several items at once, until ctx ends or it is too
// late for another one. It answers those whose files are gone.
func (r *sweepRun) remove(ctx context.Context, items []SweepItem) (done []removal) {
	var mu sync.Mutex
	var parts sync.WaitGroup
	at, release := lingering(ctx)
	defer release()
	next := 0
	take := func() (it SweepItem, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(items) || ctx.Err() != nil || r.late() {
			return it, false
		}
		next++
		r.res.Planned++
		return items[next-1], true
	}
	for range min(r.opt.Parallel, len(items)) {
		parts.Go(func() {
			for it, ok := take(); ok; it, ok = take() {
				bytes, err := r.files.Remove(at, placeOf(it))
				mu.Lock()
				if err != nil {
					r.res.failed(fmt.Errorf("delete the files of attempt %s: %w", it.Attempt, err))
				} else {
					done = append(done, removal{it, bytes})
					r.res.Bytes += bytes
				}
				mu.Unlock()
			}
		})
	}
	parts.Wait()
	return done
}

// lingering ends a little later than ctx, so that what was begun is brought to its end.
func lingering(ctx context.Context) (context.Context, func()) {
	at, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, cancel) })
	return at, func() {
		stop()
		cancel()
	}
}

// bury turns attempts whose files are gone into tombstones. A row that somebody
// holds is asked for once more, by itself.
func (r *sweepRun) bury(ctx context.Context, done []removal) {
	left := r.buryAll(ctx, done)
	for _, d := range left {
		if again := r.buryAll(ctx, []removal{d}); len(again) > 0 {
			r.res.Skipped++
		}
	}
}

// buryAll answers those that were not taken; what the database refused has failed.
func (r *sweepRun) buryAll(ctx context.Context, done []removal) (left []removal) {
	if len(done) == 0 {
		return nil
	}
	ids, bytes, whys := make([]string, len(done)), make([]int64, len(done)), make([]string, len(done))
	for i, d := range done {
		ids[i], bytes[i], whys[i] = d.Attempt.String(), d.removed, d.Why
	}
	rows, err := r.store.pool.Query(ctx, "SELECT fenceline.bury_attempts($1, $2::uuid[], $3::bigint[], $4::text[])", r.res.ID, ids, bytes, whys)
	var buried []uuid.UUID
	if err == nil {
		buried, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	}
	if err != nil && len(done) > 1 {
		return done // each by itself: one of them was refused
	}
	if err != nil {
		r.res.failed(fmt.Errorf("record that the files of attempt %s are gone: %w", done[0].Attempt, recoveryNeeded(err)))
		return nil
	}
	gone := make(map[uuid.UUID]bool, len(buried))
	for _, id := range buried {
		gone[id] = true
	}
	for _, d := range done {
		switch {
		case !gone[d.Attempt]:
			left = append(left, d)
		case d.Action == "probe":
			r.res.Probed++
		default:
			r.res.Deleted++
		}
	}
	return left
}
