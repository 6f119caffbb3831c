package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fenceline/fenceline/storage"
)

const (
	// scanEvery is how often a relay looks at the database by itself.
	scanEvery = time.Second
	// ringAgain is when a bell comes back that nobody answered.
	ringAgain = 10 * time.Second
	// ringBatch bounds how many bells one look takes.
	ringBatch = 500
)

// Relay rings for whatever is due and unattended. PostgreSQL holds the truth,
// so Redis may be emptied or down at any time: the relay rings again. Any
// number of relays may run.
type Relay struct {
	store *storage.Store
	redis Redis
	lease time.Duration
	log   *slog.Logger

	client    *asynq.Client
	inspector *asynq.Inspector
	unparked  time.Time // when jobs that wait for a cap were last looked at
	names     map[string]bellName
	looked    time.Time // when plain jobs were last looked for because of a word

	forgot     time.Time // when news were last removed, of those that came before newsBefore
	newsBefore string
}

// NewRelay prepares a relay. An attempt that gave no heartbeat for lease is
// lost, and its job goes to another worker.
func NewRelay(store *storage.Store, r Redis, lease time.Duration, log *slog.Logger) *Relay {
	return &Relay{
		names: map[string]bellName{},
		store: store, redis: r, lease: lease, log: log,
		client: asynq.NewClientFromRedisClient(r.Client), inspector: asynq.NewInspectorFromRedisClient(r.Client),
	}
}

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	ready := make(chan struct{}, 1)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		listen(ctx, r.store, storage.ChannelJobs, r.log, func(queue string) {
			c := wake
			if queue != "" { // it only holds plain jobs that are ready
				c = ready
			}
			select {
			case c <- struct{}{}:
			default: // a look is due anyway
			}
		})
	}()
	counting := make(chan struct{})
	go func() {
		defer close(counting)
		r.keepStats(ctx)
	}()
	defer func() { <-listening; <-counting }()
	tick := time.NewTicker(scanEvery)
	defer tick.Stop()
	promotion := time.NewTimer(0) // when the next plain job is due
	defer promotion.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			err = errors.Join(r.settleBatches(ctx), r.ringDue(ctx))
		case <-ready:
			r.gather(ctx)
		case <-promotion.C:
		case <-tick.C:
			err = errors.Join(r.handOn(ctx), r.checkEmptied(ctx), r.unpark(ctx), r.settleBatches(ctx), r.ringDue(ctx))
		}
		next, promoteErr := r.promote(ctx)
		promotion.Reset(next)
		r.report(ctx, errors.Join(err, promoteErr, r.ringReady(ctx)))
	}
}

// gather lets what is dispatched in the same few milliseconds share one look: under
// load a look for each would cost more than the jobs.
func (r *Relay) gather(ctx context.Context) {
	if wait := gatherFor - time.Since(r.looked); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	r.looked = time.Now()
}

const gatherFor = 5 * time.Millisecond

// promote makes plain jobs ready whose time has come, and answers when to look again.
func (r *Relay) promote(ctx context.Context) (time.Duration, error) {
	n, next, err := r.store.Promote(ctx, promoteBatch)
	switch {
	case err != nil:
		return scanEvery, err
	case n == promoteBatch:
		return 0, nil
	case next == 0:
		return scanEvery, nil
	}
	return min(next, scanEvery), nil
}

// promoteBatch bounds how many jobs one look makes ready.
const promoteBatch = 1000

// ringReady wakes workers for queues that hold plain jobs.
func (r *Relay) ringReady(ctx context.Context) error {
	ready, err := r.store.ReadyQueues(ctx, bellsAtMost)
	if err != nil {
		return err
	}
	for queue, n := range ready {
		next, err := r.redis.ringQueue(ctx, r.client, r.inspector, queue, n, r.names[queue])
		if errors.Is(err, asynq.ErrQueueNotFound) {
			r.client = asynq.NewClientFromRedisClient(r.redis.Client)
			next, err = r.redis.ringQueue(ctx, r.client, r.inspector, queue, n, r.names[queue])
		}
		if err != nil {
			return err
		}
		r.names[queue] = next
	}
	return nil
}

// unpark looks now and then for jobs that wait for a cap: the end of others wakes
// them, and this is for what nobody saw end.
func (r *Relay) unpark(ctx context.Context) error {
	if time.Since(r.unparked) < unparkEvery {
		return nil
	}
	r.unparked = time.Now()
	return r.store.Unpark(ctx)
}

const unparkEvery = 3 * time.Second

func (r *Relay) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		r.log.Warn("relay", "error", err)
	}
}

// handOn gives the jobs of silent attempts to other workers.
func (r *Relay) handOn(ctx context.Context) error {
	lost, err := r.store.HandOnLost(ctx, r.lease, ringBatch)
	for _, l := range lost {
		r.log.Warn("attempt gave no more heartbeat, job handed on", "job", l.JobID, "attempt", l.AttemptID, "token", l.Token, "worker", l.Worker, "job_state", l.JobState)
	}
	return err
}

func (r *Relay) checkEmptied(ctx context.Context) error {
	emptied, err := r.redis.emptied(ctx)
	if err != nil || !emptied {
		return err
	}
	n, err := r.store.RingAll(ctx)
	if n > 0 {
		r.log.Warn("Redis was emptied, ringing again", "jobs", n)
	}
	return err
}

// ringDue rings for what is due until nothing is left.
func (r *Relay) ringDue(ctx context.Context) error {
	for {
		bells, err := r.store.TakeBells(ctx, ringBatch, ringAgain)
		if err != nil {
			return err
		}
		for i, b := range bells {
			err := r.ring(ctx, b)
			if err != nil { // Redis is down: the rest come back in a second
				return errors.Join(err, r.store.RingAgain(ctx, bells[i:], time.Second))
			}
		}
		if len(bells) < ringBatch {
			return nil
		}
	}
}

func (r *Relay) ring(ctx context.Context, b storage.Bell) error {
	err := r.redis.ring(ctx, r.client, r.inspector, b)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		// Redis was emptied, and a client tells a queue's name only once: a new one tells it again.
		r.client = asynq.NewClientFromRedisClient(r.redis.Client)
		err = r.redis.ring(ctx, r.client, r.inspector, b)
	}
	if errors.Is(err, errBlocked) {
		return r.store.NewGeneration(ctx, b)
	}
	return err
}

// listen keeps a database listener going: heard is called for every message,
// and once after each (re)connection, when messages may have been missed.
func listen(ctx context.Context, store *storage.Store, channel string, log *slog.Logger, heard func(string)) {
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
		err := store.Listen(ctx, channel, func() { wait = 100 * time.Millisecond; heard("") }, heard)
		if ctx.Err() != nil {
			return
		}
		log.Warn("listening to PostgreSQL was cut off", "error", fmt.Errorf("%s: %w", channel, err))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}
