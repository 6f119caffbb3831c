package jobstest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// Overtaking says how a run is overtaken.
type Overtaking struct {
	Setup
	// At is where the first run freezes; [BeforeWrite] 1 otherwise.
	At Moment
	// State reads what the job changes, such as a balance. It is called before and after the overtaken run goes on;
	// what it answers is compared with [reflect.DeepEqual]. nil: only what Fenceline itself knows is compared. Both runs
	// may write the same value: read PostgreSQL's xmin of the row too, or change the value Meanwhile, to see the second write.
	State func(ctx context.Context, f *Fenceline) (any, error)
	// Meanwhile, unless nil, is called when the second run is done, before the first goes on.
	Meanwhile func(ctx context.Context, f *Fenceline) error
	// Told ends the context of the overtaken run before it goes on, as when its worker has heard from the database
	// first. Otherwise it learns nothing until it writes: a process that wakes up may run on for as long before
	// its heartbeat does.
	Told bool
	// Options are those of the job.
	Options []jobs.Option
}

// Overtaken is what became of two runs of one job.
type Overtaken struct {
	// First is the run that was frozen and overtaken, Second the one that overtook it.
	First, Second Result
	// FirstCause is why the first run's context had ended when it was over; nil when it had not.
	FirstCause error
	// Writes are the outcomes of the first run's writes under a fence, in order, as PostgreSQL gave them; nil for
	// one that was let through.
	Writes []error
	// Before is the state when the second run was done, After when the first was over too.
	Before, After any
	// Job is the job at the end.
	Job storage.Job
	// Attempts of an export, the newest first.
	Attempts []storage.Attempt
}

// Overtake runs a job of a kind, in a database of its own, and lets a second run
// overtake the first: the first freezes at a moment, as a process that is stopped
// does, with whatever it has read and holds; its job is handed on, and a second run
// does the work and ends; then the first goes on from where it was, knowing nothing.
//
// The test fails when the first run changed anything after that: through a fence
// (which means that it drew a token after it was overtaken), past every fence (then State
// has changed), in its job's row, or in what is published. It ends at once when
// this does not come to pass: when the first run never comes to the moment, or the
// second is not done.
//
// There is neither Redis nor a lease: nothing but the database's refusal is tried.
func Overtake(t testing.TB, kind jobs.Kind, payload any, o Overtaking) Overtaken {
	t.Helper()
	o.NoWorker = true
	return StartWith(t, o.Setup, kind).Overtake(kind.Name, payload, o)
}

// Overtake is [Overtake] in this Fenceline, which must have no worker. The setup in o is not used.
func (f *Fenceline) Overtake(kind string, payload any, o Overtaking) Overtaken {
	f.t.Helper()
	if !f.setup.NoWorker {
		f.t.Fatal("overtake: the worker of this Fenceline would take the job; set NoWorker")
	}
	if o.At.is == nil {
		o.At = BeforeWrite(1)
	}
	job := f.Dispatch(kind, payload, o.Options...)
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	r := &overtaking{Fenceline: f, o: o, job: job, cancel: cancel, freeze: newFreeze(o.At), over: make(chan struct{})}
	r.first = f.newRunner("the first")
	r.second = f.newRunner("the second")
	return r.do(ctx)
}

// overtaking is one that goes on.
type overtaking struct {
	*Fenceline
	o             Overtaking
	job           storage.Job
	first, second *runner
	freeze        *freeze
	cancel        context.CancelCauseFunc
	over          chan struct{} // closed when the first run is over
	out           Overtaken
}

func (r *overtaking) do(ctx context.Context) Overtaken {
	r.t.Helper()
	claimed := r.first.claim(r.job)
	go func() {
		defer close(r.over)
		own := r.freeze.carriedBy(ctx)
		r.first.trial.Faults, r.first.trial.Reported = r.freeze, r.freeze.reporting(r.first.seen.reported)
		r.first.run(own, claimed)
		r.out.FirstCause = context.Cause(own)
	}()
	defer func() { // whatever the test ends with, nobody stays frozen
		r.cancel(errors.New("the test has ended"))
		r.freeze.melt()
		<-r.over
	}()
	r.waitForFreeze()
	r.handOn()
	r.overtake()
	if r.o.Meanwhile != nil {
		r.must(r.o.Meanwhile(r.ctx, r.Fenceline))
	}
	before := r.look()
	if r.o.Told {
		r.cancel(&storage.FencedError{Reason: "handed_on"})
	}
	r.freeze.melt()
	r.wait(r.over, "the first run, which was overtaken, does not end")
	r.first.end()
	r.report(before, r.look())
	return r.out
}

func (r *overtaking) waitForFreeze() {
	r.t.Helper()
	select {
	case <-r.over:
		r.t.Fatalf("the first run ended without coming to the moment %s: %s", r.o.At.says, r.first.story())
	default:
	}
	patience := time.NewTimer(r.setup.Patience)
	defer patience.Stop()
	select {
	case <-r.freeze.reached:
	case <-r.over:
		r.t.Fatalf("the first run ended without coming to the moment %s: %s", r.o.At.says, r.first.story())
	case <-patience.C:
		r.t.Fatalf("the first run did not come to the moment %s in %s", r.o.At.says, r.setup.Patience)
	}
}

func (r *overtaking) wait(done <-chan struct{}, otherwise string) {
	r.t.Helper()
	patience := time.NewTimer(r.setup.Patience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		r.t.Fatalf("%s in %s", otherwise, r.setup.Patience)
	}
}

// handOn makes the first run a lost one.
func (r *overtaking) handOn() {
	r.t.Helper()
	if job := r.Job(r.job.ID); job.State.Ended() {
		r.t.Fatalf("the job is %s at the moment %s: nothing can overtake it any more", job.State, r.o.At.says)
	}
	_, err := r.Store.HandOnLost(r.ctx, 0, 1000)
	r.must(err)
}

// overtake makes the second run.
func (r *overtaking) overtake() {
	r.t.Helper()
	claimed := r.second.claim(r.job)
	done := make(chan struct{})
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	go func() {
		defer close(done)
		r.second.run(ctx, claimed)
	}()
	patience := time.NewTimer(r.setup.Patience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		cancel(errors.New("the test waited for too long"))
		<-done
		r.t.Fatalf("the second run did not end in %s. Perhaps it waits for the first, which holds row locks at the moment %s: "+
			"the other writes of its transaction came before the fence's", r.setup.Patience, r.o.At.says)
	}
	if r.second.end(); r.second.result.Outcome != Done {
		r.t.Fatalf("the second run, which should do the work, was not done: %s", r.second.story())
	}
}

// seen is what there is to see at one time.
type seen struct {
	state   any
	job     storage.Job
	current uuid.UUID
	fences  []written
}

// written is the newest write under a fence.
type written struct {
	Tenant, Resource  string
	LastToken, LastOp int64
}

func (r *overtaking) look() seen {
	r.t.Helper()
	s := seen{job: r.Job(r.job.ID), fences: r.written()}
	if a := r.current(s.job); a != nil {
		s.current = a.ID
	}
	if r.o.State != nil {
		var err error
		s.state, err = r.o.State(r.ctx, r.Fenceline)
		r.must(err)
	}
	return s
}

func (r *overtaking) written() (list []written) {
	r.t.Helper()
	r.must(r.Store.Transaction(r.ctx, func(tx storage.Tx) error {
		return tx.Raw("SELECT tenant, resource, last_token, last_op FROM fenceline.fences WHERE last_token > 0 ORDER BY tenant, resource").Scan(&list).Error
	}))
	return list
}

// report says what the first run has changed after it was overtaken.
func (r *overtaking) report(before, after seen) {
	r.t.Helper()
	r.out.First, r.out.Second, r.out.Writes, r.out.Job = r.first.result, r.second.result, r.freeze.writes(), after.job
	r.out.Before, r.out.After = before.state, after.state
	if !r.job.Plain() {
		var err error
		r.out.Attempts, err = r.Store.JobAttempts(r.ctx, r.job.ID, 10)
		r.must(err)
	}
	for _, w := range after.fences {
		if was := find(before.fences, w); was != w {
			r.t.Errorf("the overtaken run wrote through the fence of %q: token %d, operation %d, after token %d of the second run. It drew that token after "+
				"it had been overtaken. A fence keeps out what was computed before; that the work is done once must be kept in the same transaction, "+
				"such as by a row that can be inserted once", w.Resource, w.LastToken, w.LastOp, was.LastToken)
		}
	}
	if !reflect.DeepEqual(before.state, after.state) {
		r.t.Errorf("the overtaken run changed what the second one had left: it was %v and became %v%s", before.state, after.state, r.advice(before, after))
	}
	if before.current != after.current {
		r.t.Errorf("the pointer moved from attempt %s to attempt %s", before.current, after.current)
	}
	if !reflect.DeepEqual(before.job, after.job) {
		r.t.Errorf("the overtaken run changed its job: it was %s with result %s and became %s with result %s",
			before.job.State, before.job.Result, after.job.State, after.job.Result)
	}
}

// advice says how a write came past the fence.
func (r *overtaking) advice(before, after seen) string {
	if !reflect.DeepEqual(before.fences, after.fences) {
		return ""
	}
	if len(after.fences) == 0 {
		return ". Nothing was written under a fence: draw a token with Work.Fence before reading, and write in Fence.Write"
	}
	return ". It wrote past the fence: that write is outside of the function given to Fence.Write, or does not use its transaction"
}

func find(list []written, like written) written {
	for _, w := range list {
		if w.Tenant == like.Tenant && w.Resource == like.Resource {
			return w
		}
	}
	return written{}
}

// runner makes one run, in the place of a worker.
type runner struct {
	f      *Fenceline
	id     uuid.UUID // of the worker that it stands for
	trial  *jobs.Trial
	seen   *record
	finish *storage.Finish
	result Result
}

func (f *Fenceline) newRunner(name string) *runner {
	f.t.Helper()
	r := &runner{f: f, id: uuid.New(), seen: newRecord()}
	r.trial = r.seen.trial(f.registry, name)
	r.trial.Store, r.trial.Files = f.Store, f.Files
	f.must(f.Store.RegisterWorker(f.ctx, storage.Worker{ID: r.id, Name: name, Host: "jobstest", PID: os.Getpid(), Version: "test", Queues: json.RawMessage("{}"), Concurrency: 1}))
	return r
}

// claim takes a job that must be due.
func (r *runner) claim(job storage.Job) storage.Job {
	r.f.t.Helper()
	if !job.Plain() {
		due, err := r.f.Store.Claimable(r.f.ctx, job.ID)
		if errors.Is(err, storage.ErrNotDue) {
			r.notDue(job)
		}
		r.f.must(err)
		return due
	}
	turned, err := r.f.Store.Turn(r.f.ctx, r.id, nil, []storage.Want{{Queue: job.Queue, Runs: []uuid.UUID{uuid.New()}}})
	r.f.must(err)
	if len(turned.Claimed) != 1 || turned.Claimed[0].Job.ID != job.ID {
		r.notDue(job)
	}
	return turned.Claimed[0].Job
}

func (r *runner) notDue(job storage.Job) {
	r.f.t.Helper()
	now := r.f.Job(job.ID)
	r.f.t.Fatalf("%s run cannot begin: job %s is %s%s; it must be due, and alone in its queue", r.trial.Name, job.ID, now.State, r.f.story(now))
}

// run runs the job and keeps how it came out.
func (r *runner) run(ctx context.Context, job storage.Job) {
	if job.Plain() {
		var err error
		r.finish, err = r.trial.Plain(ctx, job)
		r.result = r.seen.result(job, r.finish, err)
		return
	}
	err := r.trial.Export(ctx, job)
	r.result = r.seen.result(job, exportEnd(job, err), err)
}

// exportEnd is the error of an attempt at an export in the words for plain jobs.
func exportEnd(job storage.Job, err error) *storage.Finish {
	switch {
	case err == nil:
		return &storage.Finish{Job: job.ID, Outcome: "done"}
	case errors.Is(err, storage.ErrFenced), errors.Is(err, storage.ErrNotDue):
		return nil
	case errors.Is(err, storage.ErrCancelled):
		return &storage.Finish{Job: job.ID, Outcome: "cancelled"}
	}
	return &storage.Finish{Job: job.ID, Outcome: "failed", Reason: "error"}
}

// end tells the database how a plain job's run came out.
func (r *runner) end() {
	r.f.t.Helper()
	if r.finish == nil {
		return
	}
	_, err := r.f.Store.Turn(r.f.ctx, r.id, []storage.Finish{*r.finish}, nil)
	r.f.must(err)
}

func (r *runner) story() string {
	if r.result.Err != nil {
		return string(r.result.Outcome) + ": " + r.result.Err.Error()
	}
	return string(r.result.Outcome)
}
