package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

const (
	lookEvery  = time.Second // without being woken
	pruneEvery = time.Hour
	fanOutPart = 200              // notices handed out in one transaction
	places     = 64               // deliveries that one deliverer sends at once
	perTarget  = 4                // of those, for one target that works
	claimLease = time.Minute      // longer than any send takes
	stopGrace  = 5 * time.Second  // what is being sent may end, when the deliverer stops
	recordIn   = 10 * time.Second // for the outcome to be recorded
)

// Config is what a [Deliverer] works with. Store and Log are needed.
type Config struct {
	Store *storage.Store
	Log   *slog.Logger
	Guard *Guard // which webhooks may be reached; nil for the public internet only
	// Keys open the secrets of webhooks that were sealed; nil for none.
	Keys *secret.Keyring
	// Mailer sends mail; nil leaves mail to other deliverers: it waits.
	Mailer *Mailer
	// PublicURL is that of the dashboard, for links; empty leaves them out.
	PublicURL string
	// Keep is for how long deliveries that arrived stay; 0 for ever.
	Keep    time.Duration
	Metrics *Metrics // may be nil

	// TLS is for tests, whose receivers have certificates of their own; nil for those of the system.
	TLS *tls.Config
}

// Deliverer hands out what the outbox holds and sends what is due. Any number
// may run at once.
type Deliverer struct {
	Config
	freeze  freezer
	kinds   []string
	webhook *webhook

	done chan storage.Parcel // what is no longer in our hands
	// Only the goroutine of Run touches these:
	busy    map[uuid.UUID]int
	failing map[uuid.UUID]bool // deliveries, by id, that take a place of the failing
	running int
}

// NewDeliverer prepares a deliverer.
func NewDeliverer(c Config) *Deliverer {
	if c.Guard == nil {
		c.Guard = &Guard{}
	}
	d := &Deliverer{Config: c, freeze: freezer{c.PublicURL}, kinds: []string{storage.TargetWebhook}, webhook: newWebhook(c.Guard, c.Keys, c.TLS),
		done: make(chan storage.Parcel, places), busy: map[uuid.UUID]int{}, failing: map[uuid.UUID]bool{}}
	if c.Mailer != nil {
		d.kinds = append(d.kinds, storage.TargetMail)
	}
	return d
}

// Run delivers until ctx ends; what is being sent then has some seconds to end.
// It may be called once.
func (d *Deliverer) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	helpers.Go(func() { d.listen(ctx, wake) })
	helpers.Go(func() { d.prune(ctx) })
	defer helpers.Wait()
	defer d.finish(stop)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			d.handOut(ctx)
		case <-tick.C:
			d.handOut(ctx)
		case c := <-d.done:
			d.letGo(c)
			for len(d.done) > 0 { // one look for all that ended meanwhile
				d.letGo(<-d.done)
			}
		}
		d.start(ctx, sending)
	}
}

// finish waits for what is being sent, and cuts it off after the grace. What
// does not end even then is left: it is sent again after its lease.
func (d *Deliverer) finish(stop context.CancelFunc) {
	defer stop()
	grace := time.AfterFunc(stopGrace, stop)
	defer grace.Stop()
	patience := time.NewTimer(2 * stopGrace)
	defer patience.Stop()
	for d.running > 0 {
		select {
		case c := <-d.done:
			d.letGo(c)
		case <-patience.C:
			return
		}
	}
}

// handOut makes deliveries of everything that is noticed.
func (d *Deliverer) handOut(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := d.Store.FanOut(ctx, fanOutPart, d.freeze.body)
		if err != nil {
			d.warn(ctx, "notices could not be handed out", err)
			return
		}
		if n < fanOutPart {
			return
		}
	}
}

// start takes what is due for the places that are free: first for targets that
// work, then for those that fail, which have half of the places at most.
func (d *Deliverer) start(ctx, sending context.Context) {
	for _, failing := range []bool{false, true} {
		free := places - d.running
		if failing {
			free = min(free, places/2-len(d.failing))
		}
		if free <= 0 || ctx.Err() != nil {
			continue
		}
		busy := make(map[string]int, len(d.busy))
		for id, n := range d.busy {
			busy[id.String()] = n
		}
		list, err := d.Store.ClaimDeliveries(ctx, storage.DeliveryClaim{
			Kinds: d.kinds, Failing: failing, Limit: free, PerTarget: perTarget, Busy: busy, Lease: claimLease,
		})
		if err != nil {
			d.warn(ctx, "deliveries could not be taken", err)
			return
		}
		for _, c := range list {
			d.running++
			d.busy[c.TargetID]++
			if failing {
				d.failing[c.ID] = true
			}
			go func() {
				d.deliver(sending, c)
				d.done <- c
			}()
		}
	}
}

func (d *Deliverer) letGo(c storage.Parcel) {
	d.running--
	delete(d.failing, c.ID)
	if d.busy[c.TargetID]--; d.busy[c.TargetID] == 0 {
		delete(d.busy, c.TargetID)
	}
}

// deliver sends one delivery and records what came of it.
func (d *Deliverer) deliver(ctx context.Context, c storage.Parcel) {
	begun := time.Now()
	r := d.send(ctx, c)
	if !r.ok && ctx.Err() != nil {
		r = result{err: "the deliverer was stopped", blameless: true}
	}
	o := r.outcome(c.Tries)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordIn)
	defer cancel()
	current, err := d.Store.RecordDelivery(ctx, c, o)
	d.Metrics.sent(c.Kind, o, time.Since(begun))
	log := d.Log.With("delivery", c.ID, "target", c.Name, "topic", c.Topic, "attempt", c.Tries)
	switch {
	case err != nil:
		log.Warn("the outcome of a delivery could not be recorded; it will be sent again", "error", err)
	case !current:
		log.Warn("a delivery was taken by another before its outcome was known")
	case o.Disable != "":
		log.Error("target disabled", "why", o.Disable)
	case o.State == storage.DeliveryDead:
		log.Error("delivery given up; it can be replayed", "error", o.Error)
	case o.State == storage.DeliveryPending:
		log.Warn("delivery failed, it is tried again", "error", o.Error, "in", o.Retry.Round(time.Second))
	default:
		log.Info("delivered", "status", o.Status)
	}
}

// send sends by the kind of target. A mistake of ours in it must not end the process.
func (d *Deliverer) send(ctx context.Context, c storage.Parcel) (r result) {
	defer func() {
		if p := recover(); p != nil {
			r = result{err: firstLine(fmt.Sprintf("a mistake of Fenceline: %v", p), maxError)}
		}
	}()
	if c.Kind == storage.TargetMail {
		return d.Mailer.send(ctx, c)
	}
	return d.webhook.send(ctx, c)
}

// listen wakes the deliverer when something is noticed, until ctx ends.
func (d *Deliverer) listen(ctx context.Context, wake chan<- struct{}) {
	heard := func(string) {
		select {
		case wake <- struct{}{}:
		default: // a look is due anyway
		}
	}
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 10*time.Second) {
		err := d.Store.Listen(ctx, storage.ChannelOutbox, func() { wait = 100 * time.Millisecond; heard("") }, heard)
		d.warn(ctx, "listening to the outbox was cut off", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// prune removes what arrived long ago.
func (d *Deliverer) prune(ctx context.Context) {
	if d.Keep <= 0 {
		return
	}
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		n, err := d.Store.PruneOutbox(ctx, d.Keep)
		d.warn(ctx, "old deliveries could not be removed", err)
		if n > 0 {
			d.Log.Info("old deliveries removed", "deliveries", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *Deliverer) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		d.Log.Warn(what, "error", err)
	}
}
