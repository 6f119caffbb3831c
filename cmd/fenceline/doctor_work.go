package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

const (
	// newestAttempts bounds how far back the settings are compared with what happened.
	newestAttempts = 1000
	// longLease is one that a job may wait for too long after a crash, if it is much longer than jobs take.
	longLease = 5 * time.Minute
	// resumeTime is how long after a replacement a download may still be going on, or be taken up again.
	resumeTime = time.Hour
	// readTime is what a reader needs between the pointer and the file that it names.
	readTime = time.Minute
)

func askLease(ctx context.Context, d *doctor) (finding, error) {
	a, err := d.postgres.Attempts(ctx, newestAttempts)
	if err != nil {
		return finding{}, err
	}
	return judgeLease(d.conf.Lease, a), nil
}

func judgeLease(lease time.Duration, a storage.AttemptFacts) finding {
	took := fmt.Sprintf("FENCELINE_LEASE is %s", approximately(lease))
	if a.Published > 0 {
		took += fmt.Sprintf("; of the newest %s 99 %% took at most %s", count.Of(int(a.Published), "publication"), approximately(a.Slowest))
	}
	switch {
	case a.Outlived*50 > a.Attempts:
		return warning(fmt.Sprintf("%s; %d of the newest %s were taken for lost while their worker lived", took, a.Outlived, count.Of(int(a.Attempts), "attempt")),
			"speed: their work was done again (and the fence refused them)",
			"lengthen FENCELINE_LEASE, or find out what stops the workers: memory, a frozen machine, the way to PostgreSQL")
	case a.Running > 0 && a.Silence > lease/2 && a.Silence <= lease:
		return warning(fmt.Sprintf("%s; an attempt that holds its job has been silent for %s", took, approximately(a.Silence)),
			"speed: if its worker lives, its job is about to be given to another", "look again in a minute; if it happens often, lengthen FENCELINE_LEASE")
	case lease > longLease && a.Published > 0 && lease > 10*a.Slowest:
		return warning(took, "speed: after a crash a job waits that long, though it takes far less to do it again", "shorten FENCELINE_LEASE")
	}
	return fine("%s", took)
}

func askSweepGrace(_ context.Context, d *doctor) (finding, error) {
	grace, lease := d.conf.SweepGrace, d.conf.Lease
	found := fmt.Sprintf("SWEEP_GRACE is %s, FENCELINE_LEASE %s", approximately(grace), approximately(lease))
	if grace <= lease {
		return warning(found, "speed: attempts that would go on are condemned, and their work is done again", "set SWEEP_GRACE to several times the lease"), nil
	}
	return fine("%s", found), nil
}

func askSuperseded(_ context.Context, d *doctor) (finding, error) {
	stay := d.conf.SweepSuperseded
	found := "SWEEP_SUPERSEDED is " + approximately(stay)
	const do = "set SWEEP_SUPERSEDED to an hour or more"
	switch {
	case stay < readTime:
		return danger(found, "L1: who has just read the pointer may find its files gone", do), nil
	case stay < resumeTime:
		return warning(found, "speed: a download that is taken up again after a replacement has to begin anew", do), nil
	}
	return fine("%s", found), nil
}

func askMaintenance(ctx context.Context, d *doctor) (finding, error) {
	m, err := d.postgres.Maintenance(ctx)
	if err != nil {
		return finding{}, err
	}
	if m.Since == nil && len(m.Paused) == 0 {
		return fine("no maintenance goes on, no queue is paused"), nil
	}
	if m.Since == nil {
		return warning("paused: "+strings.Join(m.Paused, ", "), "speed: their jobs wait", "`fenceline queue resume NAME` when they may go on"), nil
	}
	found := "maintenance since " + stamp(m.Since)
	if m.Note != "" {
		found += ": " + inCellWhole(m.Note)
	}
	return warning(found, "speed: accepted jobs wait until it ends", "`fenceline maintenance off` when it is over"), nil
}

func askNotices(ctx context.Context, d *doctor) (finding, error) {
	n, err := d.postgres.Notices(ctx, d.limits.waiting)
	if err != nil {
		return finding{}, err
	}
	switch {
	case n.Unsent > 0:
		return warning(fmt.Sprintf("%s due to be sent, the first for %s", count.Of(int(n.Unsent), "notice"), approximately(n.Oldest)), "nothing that a law says; but who wants to know is not told",
			"start what sends: `fenceline notify work` or `schedule work`, with SMTP_URL for mail; if one runs, `fenceline notify list` shows which targets are slow or fail"), nil
	case n.Dead > 0:
		return warning(count.Of(int(n.Dead), "notice")+" given up", "nothing that a law says; but who wants to know was not told",
			"`fenceline notify deliveries --state dead` shows why; then `fenceline notify replay --dead --yes`"), nil
	}
	return fine("none has been waiting to be sent for more than %s, and none was given up", approximately(d.limits.waiting)), nil
}

func askQueues(ctx context.Context, d *doctor) (finding, error) {
	overdue, err := d.postgres.Overdue(ctx, d.limits.waiting)
	if err != nil {
		return finding{}, err
	}
	if len(overdue) == 0 {
		return fine("no job is due for more than %s", approximately(d.limits.waiting)), nil
	}
	workers, err := d.workers()
	served := map[string]bool{}
	for _, w := range workers {
		for _, q := range w.Queues {
			served[q] = true
		}
	}
	var texts, unserved []string
	for _, q := range overdue {
		texts = append(texts, fmt.Sprintf("queue %s: %s due, the first for %s", q.Queue, count.Of(int(q.Jobs), "job"), approximately(q.Oldest)))
		if !served[q.Queue] {
			unserved = append(unserved, q.Queue)
		}
	}
	found := strings.Join(texts, "; ")
	slices.Sort(unserved)
	switch {
	case err != nil:
		return danger(found+"; who serves them is not known: "+d.withoutSecrets(err), "L5: unless a worker serves the queue, accepted jobs never end", "start Redis, then look at the workers"), nil
	case len(unserved) > 0:
		return danger(found+"; no worker serves "+strings.Join(unserved, ", "), "L5: accepted jobs never end",
			"fenceline work --queues "+strings.Join(unserved, "=1,")+"=1"), nil
	}
	return warning(found, "speed: the workers do not keep up, or their bells do not ring", "start more workers, or raise FENCELINE_CONCURRENCY; if they are idle, look at their logs"), nil
}

func askLost(ctx context.Context, d *doctor) (finding, error) {
	// Twice the lease, and a minute: relays look every second.
	silent := 2*d.conf.Lease + time.Minute
	s, err := d.postgres.Silent(ctx, d.conf.SweepGrace, silent)
	if err != nil {
		return finding{}, err
	}
	if s.Jobs == 0 {
		return fine("no job is left with an attempt that is silent for more than %s", approximately(silent)), nil
	}
	return danger(fmt.Sprintf("%s with an attempt that gave no heartbeat for up to %s", areLeft(s.Jobs), approximately(s.Longest)),
		"L5: nobody hands them on, so they never end", "start a relay: `fenceline work` and `fenceline schedule work` have one"), nil
}

func areLeft(n int64) string {
	return count.Of(n, "job") + count.Verb(n, " is left", " are left")
}

func askHeartbeats(ctx context.Context, d *doctor) (finding, error) {
	f, err := d.postgres.FutureHeartbeats(ctx, d.limits.clock)
	if err != nil {
		return finding{}, err
	}
	if f.Attempts == 0 {
		return fine("none lies in the future"), nil
	}
	return danger(fmt.Sprintf("%s that run have a heartbeat up to %s in the future", count.Of(int(f.Attempts), "attempt"), approximately(f.Ahead)),
		"L5, L7: until then they do not count as silent, whatever became of their workers. No host's clock does this: PostgreSQL itself writes these times, "+
			"so its clock was set back, or a standby with a slower clock was promoted, or somebody wrote the rows",
		"set right the clock of PostgreSQL; then UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() WHERE heartbeat_at > clock_timestamp()"), nil
}

func (d *doctor) sweeps(ctx context.Context) (storage.SweepFacts, error) {
	return d.postgres.Sweeps(ctx, storage.SweepOptions{
		Grace: d.conf.SweepGrace, Quarantine: d.conf.SweepQuarantine, Superseded: d.conf.SweepSuperseded,
	}, d.limits.unswept)
}

func askOrphans(ctx context.Context, d *doctor) (finding, error) {
	s, err := d.sweeps(ctx)
	if err != nil {
		return finding{}, err
	}
	if s.Overdue == 0 {
		return fine("none has been waiting for the clean-up for more than %s", approximately(d.limits.unswept)), nil
	}
	since := "no clean-up has ever finished"
	if s.EverGood {
		since = "the last clean-up without an error finished " + approximately(s.SinceGood) + " ago"
	}
	found := fmt.Sprintf("%s should have been condemned or deleted more than %s ago; %s", count.Of(int(s.Overdue), "attempt"), approximately(d.limits.unswept), since)
	if s.EverGood && s.SinceGood < d.limits.unswept {
		return warning(found, "nothing yet: clean-ups run, but not everything was taken", "run `fenceline sweep` and read what it says"), nil
	}
	return danger(found, "L7: what was orphaned is never gone, and fills the disk",
		"run `fenceline schedule work` with SWEEP_EVERY above 0, or `fenceline sweep` by cron; a run that refuses says why"), nil
}

func askSweep(ctx context.Context, d *doctor) (finding, error) {
	s, err := d.sweeps(ctx)
	if err != nil {
		return finding{}, err
	}
	return d.judgeSweep(s), nil
}

func (d *doctor) judgeSweep(s storage.SweepFacts) finding {
	ago := approximately(s.Began) + " ago"
	idle := !s.Ever || s.Finished && s.Began > d.limits.unswept
	switch {
	case s.LockHeldBy != 0 && idle:
		return danger(fmt.Sprintf("session %d holds the clean-up's lock, but none is running", s.LockHeldBy),
			"L7: every other run finds it taken; a version before this one left locks behind like this in a pooler", fmt.Sprintf("SELECT pg_terminate_backend(%d)", s.LockHeldBy))
	case !s.Ever:
		return fine("none has run yet")
	case s.Error != "":
		return danger("the last one began "+ago+" and broke off: "+oneLine(s.Error), "L7: orphans stay until one gets through",
			"repair what it says, then run `fenceline sweep`")
	case s.Failed > 0:
		return warning(fmt.Sprintf("the last one began %s; %s failed", ago, count.Of(int(s.Failed), "item")), "nothing yet: the next run tries them again", "run `fenceline sweep` and read what it says")
	case !s.Finished && s.LockHeldBy == 0:
		return warning("the last one began "+ago+" and was killed", "nothing: the next one goes on", "run `fenceline sweep`")
	case !s.Finished:
		return fine("one is running, since %s", approximately(s.Began))
	}
	return fine("the last one began %s", ago)
}
