package jobs

import (
	"context"
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
		r.report(ctx, err)
		wait := rollEvery
		if more && err == nil {
			wait = time.Millisecond
		}
		timer.Reset(wait)
	}
}
