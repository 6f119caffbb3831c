package protocol_test

import (
	"math/rand/v2"
	"slices"

	"github.com/fenceline/fenceline/storage/protocol"
)

// plan makes up the next step from what the reference knows.
type plan struct {
	*rand.Rand
	ref *protocol.World
}

// next is weighted: the way to a publication is long, so its steps come often.
func (p plan) next() step {
	ops := []struct {
		op     string
		weight int
	}{
		{"begin", 18}, {"write", 9}, {"seal", 16}, {"publish", 18}, {"add job", 8}, {"end", 6}, {"heartbeat", 5}, {"snapshot", 2},
		{"hand on", 7}, {"cancel", 3}, {"condemn", 2}, {"sweep", 4}, {"silence", 3}, {"make due", 6}, {"wait for lease", 1}, {"wake waiting", 1},
		{"probes due", 1}, {"delete export", 1}, {"mark deleted", 1}, {"set sequence", 2}, {"save", 2}, {"restore", 2},
		{"recover", p.recoveries()},
	}
	sum := 0
	for _, o := range ops {
		sum += o.weight
	}
	n := p.IntN(sum)
	for _, o := range ops {
		if n -= o.weight; n < 0 {
			return p.arguments(step{op: o.op})
		}
	}
	panic("the weights do not add up")
}

// recoveries are seldom where they are not needed.
func (p plan) recoveries() int {
	if p.ref.Epoch() != protocol.EpochOpen {
		return 8
	}
	return 1
}

// arguments are what the step needs; where there is nothing to take it with, it is
// another step that makes something.
func (p plan) arguments(s step) step {
	if p.ref.Jobs() == 0 {
		return step{op: "add job", export: 1}
	}
	if p.ref.Attempts() == 0 && slices.Contains([]string{"write", "seal", "snapshot", "silence", "publish", "end", "condemn", "heartbeat"}, s.op) {
		return step{op: "begin", job: 1}
	}
	switch s.op {
	case "add job":
		s.export = protocol.ExportID(1 + p.IntN(4)/3) // the first one is busier
		s.later = p.IntN(8) == 0
		if s.export = min(s.export, p.ref.Exports()+1); p.ref.Jobs() >= mostJobs || !p.ref.Export(1).Exists {
			return step{op: "probes due"}
		}
	case "begin":
		s.job = p.job(func(j protocol.Job) bool { return j.State == protocol.JobQueued && j.Due })
		s.order = int64(p.ref.Attempts()) % 3 // none, rises and falls: no law looks at it
	case "make due", "wait for lease":
		s.job = p.job(func(j protocol.Job) bool { return j.State == protocol.JobQueued })
	case "cancel":
		s.job = p.job(func(j protocol.Job) bool { return !j.State.Ended() })
	case "wake waiting", "delete export", "mark deleted":
		s.export = protocol.ExportID(p.IntN(int(p.ref.Exports()) + 1))
	case "set sequence":
		s.token = 1 + p.Int64N(int64(p.ref.Attempts())+2)
	case "write", "seal", "snapshot", "silence":
		s.attempt = p.attempt(func(a protocol.Attempt) bool { return a.State == protocol.AttemptRunning })
		if s.op == "write" {
			s.attempt = max(s.attempt, 1) // a worker knows its own
		}
	case "publish":
		s.attempt = p.attempt(func(a protocol.Attempt) bool { return a.State == protocol.AttemptSealed })
	case "end", "condemn", "heartbeat":
		s.attempt = p.attempt(func(a protocol.Attempt) bool { return a.State.Unfinished() })
	}
	return p.options(s)
}

func (p plan) options(s step) step {
	switch s.op {
	case "seal", "heartbeat":
		s.rows = p.Int64N(5)
	case "end":
		s.ending = p.ending()
	case "hand on", "condemn":
		s.every = p.IntN(2) == 0
	case "sweep":
		s.every, s.lost, s.superseded, s.news = p.IntN(4) == 0, p.IntN(2) == 0, p.IntN(2) == 0, p.IntN(4) == 0
	case "recover":
		s.lost = p.IntN(3) == 0
	}
	return s
}

func (p plan) ending() protocol.Ending {
	states := []protocol.AttemptState{protocol.AttemptFailed, protocol.AttemptFailed, protocol.AttemptFenced, protocol.AttemptCancelled}
	return protocol.Ending{
		State: states[p.IntN(len(states))], Reason: "because", Error: []string{"", "disk full"}[p.IntN(2)],
		Counts: p.IntN(2) == 0, Final: p.IntN(6) == 0, Later: p.IntN(3) == 0,
	}
}

// job is one that is as wanted; sometimes, or when there is none, any; seldom one that nobody knows.
func (p plan) job(wanted func(protocol.Job) bool) protocol.JobID {
	return protocol.JobID(p.oneOf(int(p.ref.Jobs()), func(n int) bool { return wanted(p.ref.Job(protocol.JobID(n))) }))
}

// attempt is one in the same way.
func (p plan) attempt(wanted func(protocol.Attempt) bool) protocol.AttemptID {
	return protocol.AttemptID(p.oneOf(int(p.ref.Attempts()), func(n int) bool { return wanted(p.ref.Attempt(protocol.AttemptID(n))) }))
}

func (p plan) oneOf(most int, wanted func(int) bool) int {
	var fit []int
	for n := 1; n <= most; n++ {
		if wanted(n) {
			fit = append(fit, n)
		}
	}
	switch {
	case p.IntN(60) == 0:
		return 0
	case len(fit) == 0 || p.IntN(6) == 0:
		return 1 + p.IntN(most)
	}
	return fit[p.IntN(len(fit))]
}
