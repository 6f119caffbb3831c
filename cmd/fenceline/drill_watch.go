package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// scope is the drill's own tenant: nothing else is ever read or changed.
func (d *drill) scope() storage.Scope { return storage.Scope{Tenant: d.id} }

// until waits for something, watching the database and the workers meanwhile.
func (d *drill) until(ctx context.Context, what string, yes func() (bool, error)) error {
	return d.wait(ctx, d.patience(), what, func() (bool, error) {
		for _, w := range d.workers {
			if err := w.alive(); err != nil {
				return false, err
			}
		}
		if err := d.look(ctx); err != nil {
			return false, err
		}
		return yes()
	})
}

// look reads what the database holds about the drill and notes what has changed.
func (d *drill) look(ctx context.Context) error {
	if d.export == uuid.Nil {
		return nil
	}
	if err := d.lookAtJobs(ctx); err != nil {
		return err
	}
	attempts, err := d.app.store.Attempts(ctx, d.export, 200)
	if err != nil {
		return err
	}
	slices.Reverse(attempts) // oldest first
	if len(d.attempts) == 0 && len(attempts) > 0 {
		d.label(attempts[0])
	}
	for i, a := range attempts {
		var before storage.Attempt
		if i < len(d.attempts) {
			before = d.attempts[i]
		} else {
			d.noteBegun(a)
		}
		if a.State != before.State && a.State != storage.AttemptRunning {
			d.noteState(ctx, a)
		}
	}
	d.attempts = attempts
	return nil
}

// label calls the worker that was first to take a job worker A.
func (d *drill) label(first storage.Attempt) {
	if len(d.workers) == 2 && d.workers[1].made(first.Worker) {
		a, b := d.workers[1], d.workers[0]
		a.label, b.label = b.label, a.label
		d.workers[0], d.workers[1] = a, b
	}
}

func (d *drill) lookAtJobs(ctx context.Context) error {
	for i, before := range d.jobs {
		job, err := d.app.store.Job(ctx, d.scope(), before.ID)
		if err != nil {
			return err
		}
		d.jobs[i] = job
		if job.Crashes > before.Crashes {
			d.noteHandedOn(before, job.DueAt)
		}
		if job.State != before.State {
			d.noteJob(job)
		}
	}
	return nil
}

// noteHandedOn says how long the attempt was silent: the relay that noticed may
// be the deployment's, and have another lease.
func (d *drill) noteHandedOn(before storage.Job, at time.Time) {
	what := d.jobName(before.ID) + " goes to another worker"
	if before.AttemptID != nil {
		silent := at.Sub(d.attempt(*before.AttemptID).HeartbeatAt)
		what = fmt.Sprintf("%s had no heartbeat for %.1f s, and goes to another worker", d.jobName(before.ID), silent.Seconds())
		if silent < d.app.conf.Lease {
			what += fmt.Sprintf("; another relay's lease is shorter than %s", d.app.conf.Lease)
		}
	}
	d.add(drillEvent{At: at, Who: byDatabase, What: what})
}

// noteJob notes the ends of jobs that no attempt tells by itself.
func (d *drill) noteJob(job storage.Job) {
	switch job.State {
	case storage.JobSuperseded:
		d.add(drillEvent{At: *job.FinishedAt, Who: byDatabase, What: d.jobName(job.ID) + " is superseded: a newer job has published; no alert, no retry"})
	case storage.JobFailed:
		d.add(drillEvent{At: *job.FinishedAt, Who: byDatabase, What: d.jobName(job.ID) + " has failed: " + deref(job.Error)})
	}
}

func (d *drill) noteBegun(a storage.Attempt) {
	what := "took the lease and " + d.jobName(a.JobID)
	if a.LeaseOrder.Name != "" {
		what = fmt.Sprintf("took the lease (%s) and %s", a.LeaseOrder, d.jobName(a.JobID))
	}
	if d.backend == leaseNone {
		what = "took " + d.jobName(a.JobID)
	}
	d.add(drillEvent{At: a.StartedAt, Who: d.who(a), Token: a.Token, What: what})
}

// noteState notes that an attempt has reached a state other than running.
func (d *drill) noteState(ctx context.Context, a storage.Attempt) {
	e := drillEvent{At: d.now(), Who: byDatabase, Token: a.Token}
	if a.FinishedAt != nil {
		e.At = *a.FinishedAt
	}
	switch a.State {
	case storage.AttemptSealed:
		e.At, e.Who, e.What = *a.SealedAt, d.who(a), "completed its file: "+count.Of(a.Rows, "row")+", "+count.Of(a.Bytes, "byte")
	case storage.AttemptPublished:
		e.Who, e.What = d.who(a), "published "+d.fileOf(ctx, a)
	case storage.AttemptFenced:
		e.What, e.Guard = "refused: "+fencedBy(a), guardOf(a)
	case storage.AttemptFailed, storage.AttemptCancelled:
		e.Who, e.What = d.who(a), fmt.Sprintf("gave up: %s; %s goes back", gaveUpFor(a), d.jobName(a.JobID))
	case storage.AttemptCondemned:
		e.What, e.Guard = "condemned by the clean-up: it can never publish", "condemn_attempts"
	default: // superseded is told by the publication that did it, deleted by the clean-up
		return
	}
	d.add(e)
}

func (d *drill) fileOf(ctx context.Context, a storage.Attempt) string {
	list, err := d.app.store.Files(ctx, a.ID)
	if err != nil || len(list) == 0 {
		return count.Of(a.Rows, "row") + ", " + count.Of(a.Bytes, "byte")
	}
	f := list[0]
	return fmt.Sprintf("%s: %s, %s, sha256 %.8s…", f.Name, count.Of(f.Rows, "row"), count.Of(f.Size, "byte"), f.SHA256)
}

// fencedBy says which token was ahead, and of what.
func fencedBy(a storage.Attempt) string {
	by := int64(0)
	if a.FencedBy != nil {
		by = *a.FencedBy
	}
	switch deref(a.Reason) {
	case "newer_attempt":
		return fmt.Sprintf("token %d of the same job has published", by)
	case "newer_job":
		return fmt.Sprintf("token %d of a newer job has published", by)
	case "newer_token":
		return fmt.Sprintf("token %d was drawn since", by)
	}
	return "the job has gone to another worker"
}

// gaveUpFor says why a worker gave an attempt up.
func gaveUpFor(a storage.Attempt) string {
	switch deref(a.Reason) {
	case "lease_lost":
		return "its lease was lost"
	case "worker_stopped":
		return "it was stopped"
	case "cancelled":
		return "the job was cancelled"
	case "error":
		return deref(a.Error)
	}
	return deref(a.Reason)
}

// guardOf is the function of the database that gave a fenced attempt its verdict.
func guardOf(a storage.Attempt) string {
	if a.SealedAt != nil {
		return "publish_attempt"
	}
	return "end_attempt"
}

// who is the label of the worker that makes or made an attempt.
func (d *drill) who(a storage.Attempt) string {
	if w := d.workerOf(a); w != nil {
		return w.label
	}
	return a.Worker
}

func (d *drill) workerOf(a storage.Attempt) *drillWorker {
	for _, w := range d.workers {
		if w.made(a.Worker) {
			return w
		}
	}
	return nil
}

// jobName is what a timeline calls a job.
func (d *drill) jobName(id uuid.UUID) string {
	if d.plan.jobs == 1 {
		return "the job"
	}
	return fmt.Sprintf("job %d", 1+slices.IndexFunc(d.jobs, func(j storage.Job) bool { return j.ID == id }))
}

// attemptOf is the newest attempt at the n-th job.
func (d *drill) attemptOf(n int) (storage.Attempt, bool) {
	for _, a := range slices.Backward(d.attempts) {
		if len(d.jobs) > n && a.JobID == d.jobs[n].ID {
			return a, true
		}
	}
	return storage.Attempt{}, false
}

// attempt is an attempt as it was seen last.
func (d *drill) attempt(id uuid.UUID) storage.Attempt {
	for _, a := range d.attempts {
		if a.ID == id {
			return a
		}
	}
	return storage.Attempt{}
}

// decidedAttempt reports whether an attempt has its verdict.
func decidedAttempt(a storage.Attempt) bool {
	return a.State != "" && a.State != storage.AttemptRunning && a.State != storage.AttemptSealed
}

// noteLog adds what a worker itself said about an attempt that ended, if it says
// it soon. Its times are this machine's.
func (d *drill) noteLog(ctx context.Context, w *drillWorker, token int64) {
	ends := []string{"attempt ended", "not published", "published"}
	fits := func(l workerLine) bool { return l.Token == token && slices.Contains(ends, l.Msg) }
	var line workerLine
	err := d.wait(ctx, 5*time.Second, w.label+" tells how it ended", func() (found bool, err error) {
		line, found = w.output.find(fits)
		return found, nil
	})
	if err != nil {
		return // the database has told it already
	}
	what := "logs: " + line.Msg
	if line.Reason != "" {
		what += fmt.Sprintf(", reason=%s job_became=%s", line.Reason, line.JobBecame)
	} else if line.Error != "" {
		what += ": " + line.Error
	}
	d.add(drillEvent{At: d.here(line.Time), Who: w.label, Token: token, What: what})
}
