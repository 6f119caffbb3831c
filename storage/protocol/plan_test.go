package protocol_test

import (
	"math/rand/v2"
	"slices"

	"github.com/fenceline/fenceline/storage/protocol"
)

// plan makes up the next step from what the reference knows.
type plan struct {
	*rand.Rand
	ref  *protocol.World
	pair *pair
}

// next is weighted: the way to a publication is long, so its steps come often. What
// has nothing to undo comes seldom.
func (p plan) next() step {
	exports, attempts, jobs := p.count()
	ops := []struct {
		op     string
		weight int
	}{
		{"begin", 20}, {"write", 8}, {"manifest", 5}, {"seal", 18}, {"publish", 22}, {"add job", often(jobs < 3, 12)}, {"end", 5}, {"heartbeat", 4}, {"snapshot", 2},
		{"hand on", 10}, {"cancel", 3}, {"condemn", 2}, {"sweep", 6}, {"silence", 3}, {"make due", 6}, {"wait for lease", 1}, {"wake waiting", 1},
		{"probes due", 1}, {"delete export", 3}, {"mark deleted", 1}, {"set sequence", 2}, {"save", 2}, {"restore", often(p.ref.Stored(), 3)},
		{"recover", often(p.ref.Epoch() != protocol.EpochOpen, 12)}, {"restore export", often(exports.deleted, 8)}, {"pin", 2},
		{"unpin", often(exports.pinned || attempts, 5)}, {"hold", 1}, {"release", often(exports.held || p.ref.HeldAll(), 5)},
		{"set rule", 4}, {"remove rule", 1}, {"day passes", 3}, {"plan", 10}, {"as planned", 8 * len(p.pair.planned)},
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

func often(yes bool, weight int) int {
	if yes {
		return weight
	}
	return 1
}

// count says whether there is an export that is deleted, pinned or held, whether
// there is a pinned attempt, and how many jobs have not ended.
func (p plan) count() (some struct{ deleted, pinned, held bool }, pinned bool, jobs int) {
	for e := range p.ref.Exports() + 1 {
		x := p.ref.Export(e)
		some.deleted, some.pinned, some.held = some.deleted || x.Deleted, some.pinned || x.Pinned, some.held || x.Held
	}
	for a := range p.ref.Attempts() + 1 {
		pinned = pinned || p.ref.Attempt(a).Pinned
	}
	for j := range p.ref.Jobs() + 1 {
		if s := p.ref.Job(j).State; s != "" && !s.Ended() {
			jobs++
		}
	}
	return some, pinned, jobs
}

// arguments are what the step needs; where there is nothing to take it with, it is
// another step that makes something.
func (p plan) arguments(s step) step {
	if p.ref.Jobs() == 0 {
		return step{op: "add job", key: 1}
	}
	if p.ref.Attempts() == 0 && slices.Contains([]string{"write", "manifest", "seal", "snapshot", "silence", "publish", "end", "condemn", "heartbeat"}, s.op) {
		return step{op: "begin", job: 1}
	}
	switch s.op {
	case "add job":
		s.key = 1 + p.IntN(4)/3 // the first one is busier
		s.later = p.IntN(8) == 0
		if p.ref.Jobs() >= mostJobs {
			return step{op: "probes due"}
		}
	case "begin":
		s.job = p.job(func(j protocol.Job) bool { return j.State == protocol.JobQueued && j.Due })
		s.order = int64(p.ref.Attempts()) % 3 // none, rises and falls: no law looks at it
	case "make due", "wait for lease":
		s.job = p.job(func(j protocol.Job) bool { return j.State == protocol.JobQueued })
	case "cancel":
		s.job = p.job(func(j protocol.Job) bool { return !j.State.Ended() })
	case "as planned":
		i := p.IntN(len(p.pair.planned))
		return p.pair.planned[i]
	case "wake waiting", "delete export", "mark deleted":
		s.export = p.export(func(e protocol.Export) bool { return !e.Deleted })
	case "restore export":
		s.export = p.export(func(e protocol.Export) bool { return e.Deleted })
	case "hold", "release":
		if all := p.ref.HeldAll() == (s.op == "release"); !all || p.IntN(3) > 0 {
			s.export = p.export(func(e protocol.Export) bool { return e.Held == (s.op == "release") })
		}
	case "set sequence":
		s.token = 1 + p.Int64N(int64(p.ref.Attempts())+2)
	case "write", "manifest", "seal", "snapshot", "silence":
		s.attempt = p.attempt(func(a protocol.Attempt) bool { return a.State == protocol.AttemptRunning })
		if s.op == "write" || s.op == "manifest" {
			s.attempt = max(s.attempt, 1) // a worker knows its own
		}
	case "pin", "unpin":
		if p.ref.Attempts() == 0 || p.IntN(2) == 0 {
			s.export = p.export(func(e protocol.Export) bool { return e.Exists && e.Pinned == (s.op == "unpin") })
			break
		}
		s.attempt = p.attempt(func(a protocol.Attempt) bool {
			return a.Pinned == (s.op == "unpin") && (a.State == protocol.AttemptPublished || a.State == protocol.AttemptSuperseded)
		})
	case "publish":
		s.attempt = p.attempt(func(a protocol.Attempt) bool { return a.State == protocol.AttemptSealed })
	case "end", "condemn", "heartbeat":
		s.attempt = p.attempt(func(a protocol.Attempt) bool { return a.State.Unfinished() })
	}
	return p.options(s)
}

func (p plan) options(s step) step {
	switch s.op {
	case "seal", "heartbeat", "manifest":
		s.rows = p.Int64N(5)
	case "end":
		s.ending = p.ending()
	case "hand on", "condemn":
		s.every = p.IntN(2) == 0
	case "set rule":
		s.rule = protocol.Rule{Set: true, Current: p.span(), Superseded: p.span(), Newest: p.IntN(5) / 2}
	case "sweep", "plan":
		s.every, s.lost, s.superseded, s.news = p.IntN(4) == 0, p.IntN(2) == 0, p.IntN(3) > 0, p.IntN(4) == 0
	case "recover":
		s.lost, s.adopt = p.IntN(4) == 0, p.IntN(2) == 0
	}
	return s
}

func (p plan) span() protocol.Span {
	return []protocol.Span{protocol.Forever, protocol.OneDay, protocol.OneDay, protocol.NoTime, protocol.NoTime}[p.IntN(5)]
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

// export is one in the same way.
func (p plan) export(wanted func(protocol.Export) bool) protocol.ExportID {
	return protocol.ExportID(p.oneOf(int(p.ref.Exports()), func(n int) bool { return wanted(p.ref.Export(protocol.ExportID(n))) }))
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
