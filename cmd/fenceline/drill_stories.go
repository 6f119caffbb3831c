package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// slowDrill leaves time to hurt whoever works on it; quickDrill is over soon.
func slowDrill() jobs.DrillPayload  { return jobs.DrillPayload{Seconds: 4, Rows: 40} }
func quickDrill() jobs.DrillPayload { return jobs.DrillPayload{Seconds: 2, Rows: 40} }

// launch starts workers and waits until they listen.
func (d *drill) launch(ctx context.Context, labels ...string) error {
	args := []string{"work"}
	if d.at == atPublish {
		args = []string{"drill", "worker"}
	}
	args = append(args, "--queues", d.id+"=1", "--concurrency", "1")
	for _, label := range labels {
		w, err := spawn(ctx, d.app, label, []string{"LEASE_URL=" + d.backend}, args...)
		if err != nil {
			return err
		}
		d.workers = append(d.workers, w)
	}
	err := d.until(ctx, "the workers have started", func() (bool, error) {
		for _, w := range d.workers {
			if !w.output.says("worker started") {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, w := range d.workers[len(d.workers)-len(labels):] {
		d.note(byDrill, 0, "started a worker that serves the queue %s only (process %d)", d.id, w.pid())
	}
	return nil
}

// dispatch asks for the drill's export.
func (d *drill) dispatch(ctx context.Context, p jobs.DrillPayload) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	receipt, err := d.app.dispatcher.Dispatch(ctx, nil, jobs.Request{Kind: jobs.DrillName, Tenant: d.id, Payload: raw},
		jobs.Queue(d.id), jobs.RequestedBy("fenceline drill "+d.plan.name))
	if err != nil {
		return err
	}
	d.jobs, d.export = append(d.jobs, receipt.Job), receipt.Job.ExportID
	d.add(drillEvent{At: receipt.Job.CreatedAt, Who: byDrill, What: fmt.Sprintf("dispatched %s in the tenant %s: a file that takes %d s", d.jobName(receipt.Job.ID), d.id, p.Seconds)})
	return nil
}

// taken waits until a worker has the first job: that one is worker A.
func (d *drill) taken(ctx context.Context) error {
	return d.until(ctx, "a worker takes the job", func() (bool, error) { return len(d.attempts) > 0, nil })
}

// ready waits until worker A has come to the moment at which it is to be hurt.
func (d *drill) ready(ctx context.Context) (storage.Attempt, error) {
	what := "worker A has written its first bytes"
	if d.at == atPublish {
		what = "worker A has its file complete"
	}
	var a storage.Attempt
	err := d.until(ctx, what, func() (bool, error) {
		a, _ = d.attemptOf(0)
		if decidedAttempt(a) {
			return false, errors.New("worker A was done before it could be hurt; this machine seems to be very busy, run the drill again")
		}
		if d.at == atPublish {
			return d.workers[0].output.says(lingerLine), nil
		}
		return a.Bytes > 0, nil
	})
	if err == nil && d.at == atWrite {
		d.note("worker A", a.Token, "wrote the first %s", count.Of(a.Bytes, "byte"))
	}
	return a, err
}

// hit brings worker A to the moment, hurts it, and waits until worker B has published.
func (d *drill) hit(ctx context.Context, hurt func(*drillWorker) (string, error)) (storage.Attempt, error) {
	if err := d.launch(ctx, "worker A", "worker B"); err != nil {
		return storage.Attempt{}, err
	}
	if err := d.dispatch(ctx, slowDrill()); err != nil {
		return storage.Attempt{}, err
	}
	stale, err := d.ready(ctx)
	if err != nil {
		return stale, err
	}
	how, err := hurt(d.workers[0])
	if err != nil {
		return stale, err
	}
	d.note(byDrill, stale.Token, "%s", how)
	if err := d.leaseEnds(ctx, stale); err != nil {
		return stale, err
	}
	return stale, d.until(ctx, fmt.Sprintf("worker B has published (the lease is %s)", d.app.conf.Lease), func() (bool, error) {
		a, _ := d.attemptOf(0)
		if decidedAttempt(d.attempt(stale.ID)) {
			return false, errors.New("worker A was done before it was hurt; this machine seems to be very busy, run the drill again")
		}
		return d.jobs[0].State == storage.JobDone && a.ID != stale.ID, nil
	})
}

// leaseEnds waits until Redis has forgotten the lease of an attempt that does
// not renew it, or has given it to the next one.
func (d *drill) leaseEnds(ctx context.Context, of storage.Attempt) error {
	switch d.backend {
	case leaseNone:
		return nil
	case leaseRedis:
	default:
		return d.leasePasses(ctx, of)
	}
	left, err := d.app.redis.LeaseLeft(ctx, d.export.String())
	if err != nil {
		return err
	}
	d.note(byRedis, of.Token, "the lease of worker A has %.1f s to go, and nobody renews it", left.Seconds())
	err = d.until(ctx, "the lease of worker A has ended", func() (bool, error) {
		before := left
		left, err = d.app.redis.LeaseLeft(ctx, d.export.String())
		return left == 0 || left > before+time.Second, err
	})
	if err == nil {
		d.note(byRedis, of.Token, "the lease of worker A has ended")
	}
	return err
}

// leasePasses is leaseEnds for services that do not tell how long a lease has to go.
func (d *drill) leasePasses(ctx context.Context, of storage.Attempt) error {
	was, err := d.app.leases.Holder(ctx, d.export.String())
	if err != nil && !errors.Is(err, jobs.ErrLeaseFree) {
		return err
	}
	if err == nil {
		d.note(byLeases, of.Token, "the lease of worker A is held by %s, and nobody renews it", was.Owner)
		err = d.until(ctx, "the lease of worker A has ended", func() (bool, error) {
			now, err := d.app.leases.Holder(ctx, d.export.String())
			if errors.Is(err, jobs.ErrLeaseFree) {
				return true, nil
			}
			return err == nil && now != was, err
		})
		if err != nil {
			return err
		}
	}
	d.note(byLeases, of.Token, "the lease of worker A has ended")
	return nil
}

// pause freezes worker A, lets worker B publish, and lets A go on.
func (d *drill) pause(ctx context.Context) error {
	var frozen time.Time
	stale, err := d.hit(ctx, func(w *drillWorker) (string, error) {
		frozen = time.Now()
		return fmt.Sprintf("froze worker A (SIGSTOP to process %d)", w.pid()), freeze(w.cmd.Process)
	})
	if err != nil {
		return err
	}
	if err := d.remember(ctx); err != nil {
		return err
	}
	if err := thaw(d.workers[0].cmd.Process); err != nil {
		return fmt.Errorf("let worker A go on: %w", err)
	}
	slept := time.Since(frozen)
	d.note(byDrill, stale.Token, "let worker A go on (SIGCONT), after %.1f s", slept.Seconds())
	err = d.until(ctx, "worker A has its verdict", func() (bool, error) { return decidedAttempt(d.attempt(stale.ID)), nil })
	if err != nil {
		return err
	}
	d.noteLog(ctx, d.workers[0], stale.Token)
	d.held = fmt.Sprintf("worker A was frozen for %.1f s, longer than its lease of %s; token %d was refused, and the file of token %d is untouched.",
		slept.Seconds(), d.app.conf.Lease, stale.Token, d.file.Token)
	return nil
}

// kill ends worker A, and lets worker B do its job.
func (d *drill) kill(ctx context.Context) error {
	stale, err := d.hit(ctx, func(w *drillWorker) (string, error) {
		w.stopped = true
		return fmt.Sprintf("killed worker A (SIGKILL to process %d)", w.pid()), w.cmd.Process.Kill()
	})
	if err != nil {
		return err
	}
	d.held = fmt.Sprintf("worker A was killed, and worker B did its job; what token %d had left was condemned and removed, and the file of token %d is untouched.",
		stale.Token, d.attempts[len(d.attempts)-1].Token)
	return d.remember(ctx)
}

// flush removes what Redis holds about the drill while one worker works and two jobs wait.
func (d *drill) flush(ctx context.Context) error {
	if err := d.launch(ctx, "worker A"); err != nil {
		return err
	}
	if err := d.dispatch(ctx, jobs.DrillPayload{Seconds: 6, Rows: 60}); err != nil {
		return err
	}
	if _, err := d.ready(ctx); err != nil {
		return err
	}
	for range 2 {
		if err := d.dispatch(ctx, quickDrill()); err != nil {
			return err
		}
	}
	err := d.until(ctx, "the bells of the other jobs wait in Redis", func() (bool, error) {
		n, err := d.app.redis.Pending(ctx, d.id)
		return n >= 2, err
	})
	if err != nil {
		return err
	}
	if err := d.forget(ctx); err != nil {
		return err
	}
	if err := d.launch(ctx, "worker B"); err != nil {
		return err
	}
	if err := d.until(ctx, "all jobs have ended", func() (bool, error) { return d.allEnded(), nil }); err != nil {
		return err
	}
	d.held = fmt.Sprintf("Redis lost the bells, the lease and the mark; what was dispatched (%s) came to its end, none was published twice, and the tokens only rose.", count.Of(len(d.jobs), "job"))
	return d.remember(ctx)
}

// forget is the flush itself, of nothing but what is the drill's, and the mark.
func (d *drill) forget(ctx context.Context) error {
	n, err := d.app.redis.ForgetQueue(ctx, d.id)
	if err == nil && d.backend == leaseRedis {
		err = d.app.redis.ForgetLease(ctx, d.export.String())
	}
	if err == nil {
		err = d.app.redis.ForgetMark(ctx)
	}
	if err != nil {
		return err
	}
	d.note(byDrill, 0, "removed from Redis: %s of the drill's queue, the lease on its export, and the mark of %s", count.Of(n, "key"), d.app.conf.Namespace)
	d.note(byDrill, 0, "nothing else: FLUSHALL would take what is not the drill's; without the mark every relay rings once more, which harms nobody")
	err = d.until(ctx, "a relay has noticed", func() (bool, error) { return d.app.redis.Marked(ctx) })
	if err == nil {
		d.note(byRedis, 0, "the mark is back: a relay has noticed, and rings again for every job that waits")
	}
	return err
}

func (d *drill) allEnded() bool {
	for _, j := range d.jobs {
		if !j.State.Ended() {
			return false
		}
	}
	for _, a := range d.attempts {
		if w := d.workerOf(a); !decidedAttempt(a) && (w == nil || !w.stopped) {
			return false
		}
	}
	return true
}

// double lets two workers write one export at once, and rings twice for each job.
func (d *drill) double(ctx context.Context) error {
	d.backend = leaseNone
	if err := d.launch(ctx, "worker A", "worker B"); err != nil {
		return err
	}
	first, err := d.dispatchTwice(ctx, slowDrill())
	if err != nil {
		return err
	}
	if err := d.taken(ctx); err != nil { // the slow job must have the older token
		return err
	}
	second, err := d.dispatchTwice(ctx, quickDrill())
	if err != nil {
		return err
	}
	err = d.until(ctx, "the job with the newer token has published", func() (bool, error) { return d.jobs[1].State.Ended(), nil })
	if err != nil {
		return err
	}
	older, _ := d.attemptOf(0)
	newer, _ := d.attemptOf(1)
	if decidedAttempt(older) || older.Token > newer.Token {
		return errors.New("the workers did not write at the same time; this machine seems to be very busy, run the drill again")
	}
	if err := d.remember(ctx); err != nil {
		return err
	}
	if err := d.until(ctx, "all jobs have ended", func() (bool, error) { return d.allEnded(), nil }); err != nil {
		return err
	}
	d.noteLog(ctx, d.workers[0], older.Token)
	d.held = fmt.Sprintf("two workers wrote the same export at the same time, without a lease; token %d was refused, and the file of token %d is untouched.", older.Token, newer.Token)
	return d.heard(ctx, first, second)
}

// dispatchTwice dispatches a job and rings for it a second time.
func (d *drill) dispatchTwice(ctx context.Context, p jobs.DrillPayload) (bell string, err error) {
	if err := d.dispatch(ctx, p); err != nil {
		return "", err
	}
	bell, err = d.app.redis.RingTwice(ctx, d.jobs[len(d.jobs)-1])
	if err == nil {
		d.note(byDrill, 0, "rang a second time for %s", d.jobName(d.jobs[len(d.jobs)-1].ID))
	}
	return bell, err
}

// heard waits until the second bells were answered, and looks what they did.
func (d *drill) heard(ctx context.Context, bells ...string) error {
	err := d.until(ctx, "the second bells were heard", func() (bool, error) {
		for _, bell := range bells {
			if heard, err := d.app.redis.Heard(ctx, d.id, bell); err != nil || !heard {
				return false, err
			}
		}
		return true, nil
	})
	if err == nil && len(d.attempts) == len(d.jobs) {
		d.note(byDatabase, 0, "both second bells were heard, and led to no second attempt")
	}
	return err
}
