package protocol

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A story is what a seeded scheduler lets three workers, a clean-up without grace
// and others do to a world. Each step is one random number: it says who goes on and
// what they meet. Any list of numbers is a story, so a part of one is one too.
type story struct {
	world   World
	laws    Laws
	missing missing
	absent  uint32 // who does not appear in it
	workers [3]worker
	sweeper sweeper
	restore restorePhase
	acted   bool             // in this step: something has happened
	roll    uint32           // what is left of this step's number
	told    *strings.Builder // nil unless somebody wants to read it
}

// worker runs one attempt after another, each to its end or away from it.
type worker struct {
	phase   phase
	attempt AttemptID
	asOf    int
	frozen  bool
}

type phase int

const (
	idle phase = iota
	begun
	reading // has its snapshot
	written
	sealed
	publishing // holds the lock on the attempt's row
)

// sweeper cleans up one attempt after another.
type sweeper struct {
	phase sweepPhase
	Deed
}

type sweepPhase int

const (
	looking sweepPhase = iota
	deciding
	removing
	burying
)

type restorePhase int

const (
	noCopy restorePhase = iota
	copied
	restoring
	restored // and nobody has looked after it
	closed
	raised
)

const (
	mostJobs     = 4
	mostAttempts = 10
	mostSteps    = 96
)

// missing is a guard that a story goes without, and the law that it is told for; the
// zero value leaves all guards in place and tells for all laws.
type missing struct {
	guard Guard
	law   int
}

// Who appears besides the workers. Each of them stays away from half of the stories:
// where everybody meddles, few things come to their end.
const (
	sweeps uint32 = 1 << iota
	handsOn
	meddles
	givesUp
	restores
	kills
	keeps
)

// script is a story before it is told.
type script struct {
	absent uint32
	rolls  []uint32
}

// begin makes the world in which a story starts.
func (s *story) begin(m missing, absent uint32) {
	s.missing, s.absent = m, absent
	s.world.Reset(m.guard)
	s.laws.only = m.law
	s.workers = [3]worker{}
	s.sweeper = sweeper{}
	s.restore = noCopy
	s.world.AddJob(1, 3, 3, false)
	s.world.AddJob(1, 2, 2, false)
	s.laws.Watch(&s.world)
}

func (s *story) there(who uint32) bool { return s.absent&who == 0 }

func (s *story) has(g Guard) bool { return s.missing.guard&g == 0 }

// pick takes a number below n from the roll.
func (s *story) pick(n int) int {
	got := s.roll % uint32(n)
	s.roll /= uint32(n)
	return int(got)
}

// job takes one at random that is as wanted; any one when none is.
func (s *story) job(wanted func(*Job) bool) JobID {
	n := int(s.world.Jobs())
	first := s.pick(n)
	for i := range n {
		j := JobID((first+i)%n + 1)
		if wanted(&s.world.jobs[j]) {
			return j
		}
	}
	return JobID(first + 1)
}

func (s *story) tell(format string, args ...any) {
	s.acted = true
	if s.told != nil {
		fmt.Fprintf(s.told, format+"\n", args...)
	}
}

// step lets somebody go on and asks the laws.
func (s *story) step(roll uint32) *Violation {
	s.roll, s.acted = roll, false
	by := AttemptID(0)
	who := s.pick(28)
	switch {
	case (who > 11 && who <= 14 || who > 25) && s.there(sweeps):
		s.sweep()
	case who > 14 && who <= 16 && s.there(handsOn):
		s.handOn()
	case who > 16 && who <= 18 && s.there(meddles):
		s.others()
	case who == 19 && s.there(givesUp):
		by = s.giveUp()
	case who >= 20 && who <= 22 && s.there(restores):
		s.copyOrRestore()
	case who >= 23 && who <= 25 && s.there(keeps):
		s.keep()
	default:
		by = s.work(&s.workers[who%3], who%3+1)
	}
	if !s.acted {
		return nil
	}
	return s.laws.Check(&s.world, by)
}

// play goes through a story to its end, and answers how many steps it took to break
// a law; the end is one step more.
func (s *story) play(of script, m missing) (int, *Violation) {
	s.begin(m, of.absent)
	for i, roll := range of.rolls {
		if v := s.step(roll); v != nil {
			return i + 1, v
		}
	}
	return len(of.rolls) + 1, s.end()
}

// work lets a worker do its next step, and answers for which attempt. It may also
// freeze for a while, as by SIGSTOP, which is when the world goes on without it.
func (s *story) work(w *worker, number int) AttemptID {
	a := w.attempt
	if w.frozen {
		w.frozen = s.pick(8) > 0
		return 0
	}
	if w.phase != idle {
		switch s.pick(24) {
		case 0:
			if !s.there(kills) {
				break
			}
			if w.phase == publishing {
				s.world.unlock(a)
			}
			s.tell("worker %d dies with attempt %d", number, a)
			*w = worker{}
			return 0
		case 1:
			s.tell("attempt %d beats: %+v", a, s.world.Heartbeat(a, "write", 1))
			return a
		case 2, 3:
			w.frozen = w.phase != publishing // the database would end its transaction
			return 0
		}
	}
	switch w.phase {
	case idle:
		return s.beginAttempt(w, number)
	case begun:
		s.read(w)
	case reading:
		s.tell("attempt %d writes its file: %s", a, s.world.CreateFile(a).Is)
		w.phase = written
	case written:
		s.world.CreateManifest(a, 1, w.asOf)
		out := s.world.Seal(a, 1, w.asOf)
		s.tell("attempt %d seals: %s", a, out.Is)
		w.phase = sealed
	case sealed:
		s.lock(w)
	case publishing:
		out := s.world.decide(a)
		s.tell("attempt %d publishes: %+v", a, out)
		w.phase = sealed // the reply was lost: asks again
		if s.pick(2) == 0 {
			*w = worker{}
		}
	}
	return a
}

func (s *story) beginAttempt(w *worker, number int) AttemptID {
	if s.world.Attempts() >= mostAttempts {
		return 0
	}
	j := s.job(func(job *Job) bool { return job.State == JobQueued })
	if !s.has(LateSnapshot) && w.asOf == 0 {
		w.asOf = s.world.Data()
		s.tell("worker %d reads data version %d", number, w.asOf)
		return 0
	}
	a, out := s.world.Begin(j, 0)
	s.tell("worker %d begins job %d: %s, attempt %d, token %d", number, j, out.Is, a, s.world.Attempt(a).Token)
	if a != 0 {
		w.attempt, w.phase = a, begun
	}
	return a
}

func (s *story) read(w *worker) {
	w.phase = reading
	if !s.has(LateSnapshot) {
		return
	}
	e, token := s.world.Place(w.attempt)
	asOf, out := s.world.Snapshot(e, token)
	s.tell("attempt %d reads data version %d: %+v", w.attempt, asOf, out)
	w.asOf = asOf
	if out.Is == Granted {
		return
	}
	if s.pick(2) == 0 {
		out = s.world.End(w.attempt, Ending{State: AttemptFenced, Reason: out.Reason, Later: true})
		s.tell("attempt %d gives up: %s", w.attempt, out.Is)
	}
	*w = worker{}
}

func (s *story) lock(w *worker) {
	found, decided := s.world.lockForPublish(w.attempt)
	if !decided {
		s.tell("attempt %d wants to be published", w.attempt)
		w.phase = publishing
		return
	}
	s.tell("attempt %d publishes: found %+v", w.attempt, found)
	*w = worker{}
}

// giveUp ends any attempt, also one whose worker goes on all the same.
func (s *story) giveUp() AttemptID {
	if s.world.Attempts() == 0 {
		return 0
	}
	a := AttemptID(s.pick(int(s.world.Attempts())) + 1)
	if s.world.attempts[a].locked {
		return 0 // waits for the publish
	}
	how := Ending{State: AttemptFailed, Reason: "error", Error: "boom", Counts: s.pick(2) == 0, Final: s.pick(8) == 0}
	out := s.world.End(a, how)
	s.tell("attempt %d is given up: %s", a, out.Is)
	return a
}

// handOn takes a job's attempt for silent, and with it everybody who waits for the time to pass.
func (s *story) handOn() {
	j := s.job(func(job *Job) bool { return job.State == JobRunning || job.State == JobCancelling || !job.Due })
	s.world.MakeDue(j)
	if lost, ok := s.world.handOn(j, true); ok {
		s.tell("job %d is handed on from attempt %d: %s", j, lost.Attempt, lost.State)
	}
}

// others are those who come by now and then.
func (s *story) others() {
	w := &s.world
	switch s.pick(8) {
	case 0:
		j := s.job(func(job *Job) bool { return !job.State.Ended() })
		s.tell("job %d is cancelled: %s", j, w.Cancel(j).Is)
	case 1, 2:
		if w.Jobs() < mostJobs {
			s.tell("job %d is asked for", w.AddJob(1, 2, 2, false))
		}
	case 3:
		w.ProbesDue()
	default:
		w.ChangeData()
		s.tell("the data have version %d", w.Data())
	}
}

// write makes the script that a seed stands for, in place of the one before.
func (of *script) write(seed uint64) {
	source := rand.NewPCG(seed, 1)
	of.absent = uint32(source.Uint64() >> 32)
	of.rolls = of.rolls[:0]
	for range mostSteps {
		of.rolls = append(of.rolls, uint32(source.Uint64()>>32))
	}
}
