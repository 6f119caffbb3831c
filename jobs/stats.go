package jobs

import (
	"context"
	"errors"
	"time"
)

// rollEvery is how often a relay counts the minutes that have closed.
const rollEvery = 15 * time.Second

// keepStats counts what has ended, minute by minute, until ctx ends. It does not
// stand in the way of the bells: an old database takes a while to count.
func (r *Relay) keepStats(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		more, err := r.store.RollStats(ctx)
		r.report(ctx, errors.Join(err, r.forgetNews(ctx)))
		wait := rollEvery
		if more && err == nil {
			wait = time.Millisecond
		}
		timer.Reset(wait)
	}
}

// forgetNews removes once a minute what nobody looks for any more.
func (r *Relay) forgetNews(ctx context.Context) (err error) {
	if time.Since(r.forgot) < time.Minute {
		return nil
	}
	r.forgot = time.Now()
	r.newsBefore, err = r.store.ForgetNews(ctx, r.newsBefore)
	return err
}
