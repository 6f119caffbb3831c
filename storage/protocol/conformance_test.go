package protocol_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fenceline/fenceline/storage/protocol"
)

var (
	sequences = flag.Int("sequences", 200, "how many random sequences of steps the conformance test takes on the product")
	firstFlag = flag.Uint64("sequence", 1, "the seed of the first one")
)

const (
	sequenceSteps = 96
	mostJobs      = 8
)

// step is one call with its arguments.
type step struct {
	op                             string
	key                            int // of an export that may not be there yet
	export                         protocol.ExportID
	job                            protocol.JobID
	attempt                        protocol.AttemptID
	rows                           int64
	token, order                   int64
	ending                         protocol.Ending
	rule                           protocol.Rule
	later, every, lost, superseded bool
	news, adopt                    bool
}

func (s step) String() string {
	text := s.op
	for _, part := range []struct {
		name string
		n    int64
	}{{"key", int64(s.key)}, {"export", int64(s.export)}, {"job", int64(s.job)}, {"attempt", int64(s.attempt)}, {"token", s.token}, {"order", s.order}} {
		if part.n != 0 {
			text += fmt.Sprintf(" %s %d", part.name, part.n)
		}
	}
	for _, option := range []struct {
		name string
		set  bool
	}{{"later", s.later}, {"every", s.every}, {"lost", s.lost}, {"superseded", s.superseded}, {"news", s.news}, {"adopt", s.adopt}} {
		if option.set {
			text += " " + option.name
		}
	}
	switch s.op {
	case "end":
		text += fmt.Sprintf(" %+v", s.ending)
	case "set rule":
		text += fmt.Sprintf(" %+v", s.rule)
	}
	return text
}

// take takes a step on both sides. want and got say what was answered; stop that
// nothing can be compared from here on.
func (p *pair) take(s step) (want, got string, stop bool) {
	p.t.Helper()
	if s.export > p.ref.Exports() || s.job > p.ref.Jobs() || s.attempt > p.ref.Attempts() {
		return "", "", false // of a sequence that was shortened
	}
	switch s.op {
	case "sweep":
		want, got = p.sweep(s)
		return want, got, want == "unsafe"
	default:
		if take, ok := p.calls()[s.op]; ok {
			want, got = take(s)
		} else {
			p.arrange(s)
		}
	}
	return want, got, false
}

func (p *pair) calls() map[string]func(step) (want, got string) {
	return map[string]func(step) (want, got string){
		"add job": p.addJob, "begin": p.begin, "heartbeat": p.heartbeat, "snapshot": p.snapshot, "write": p.write, "manifest": p.manifest, "seal": p.seal, "publish": p.publish,
		"end": p.end, "hand on": p.handOn, "cancel": p.cancel, "delete export": p.deleteExport, "condemn": p.condemn, "restore": p.restore,
		"recover": p.recover, "restore export": p.restoreExport, "pin": p.pin, "unpin": p.pin, "hold": p.hold, "release": p.release,
		"set rule": p.setRule, "remove rule": p.setRule, "plan": p.plan, "doom": p.doom, "expire": p.expire,
	}
}

// arrange is for what has no answer: the passing of time, and the like.
func (p *pair) arrange(s step) {
	p.t.Helper()
	switch s.op {
	case "silence":
		p.ref.Silence(s.attempt)
		p.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '1 hour' WHERE id = $1", p.attempts[s.attempt].ID)
	case "make due":
		p.ref.MakeDue(s.job)
		p.exec("UPDATE fenceline.jobs SET due_at = clock_timestamp() WHERE id = $1 AND state = 'queued'", p.jobs[s.job].ID)
	case "probes due":
		p.ref.ProbesDue()
		p.exec("UPDATE fenceline.attempts SET probe_at = clock_timestamp() WHERE probe_at IS NOT NULL")
	case "wait for lease":
		p.ref.WaitForLease(s.job)
		p.must(p.store.WaitForLease(p.ctx, p.jobs[s.job], never, never))
	case "wake waiting":
		p.ref.WakeWaiting(s.export)
		p.must(p.store.WakeWaiting(p.ctx, p.exports[s.export], math.MaxInt64)) // as at the end of the newest attempt
	case "set sequence":
		p.ref.SetSequence(s.token)
		p.exec("SELECT setval('fenceline.fence_tokens', $1)", s.token)
	case "mark deleted":
		p.ref.MarkDeleted(s.export)
		p.exec(`UPDATE fenceline.exports SET deleted_at = clock_timestamp() WHERE id = $1 AND deleted_at IS NULL AND pinned_at IS NULL
			AND NOT fenceline.on_hold(tenant, kind, id)`, p.exports[s.export])
	case "day passes":
		p.dayPasses()
	case "save":
		p.save()
	default:
		p.t.Fatalf("no such step: %s", s.op)
	}
}

var anyNumber = regexp.MustCompile(`\d+`)

// answers counts what was answered to which step.
type answers struct {
	mu   sync.Mutex
	seen map[string]int
}

func (a *answers) add(op, answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answer != "" {
		a.seen[op+": "+anyNumber.ReplaceAllString(answer, "N")]++
	}
}

// run takes steps until they are through or the sides differ, and says how.
func (p *pair) run(next func(i int) (step, bool), seen *answers) (taken []step, difference string) {
	p.t.Helper()
	p.reset()
	for i := 0; ; i++ {
		s, ok := next(i)
		if !ok {
			return taken, ""
		}
		taken = append(taken, s)
		want, got, stop := p.take(s)
		seen.add(s.op, want)
		if want != got {
			return taken, fmt.Sprintf("the product answers %q, the reference %q", got, want)
		}
		if stop {
			return taken, ""
		}
		if d := p.difference(); d != "" {
			return taken, d
		}
	}
}

// replay takes the same steps again.
func (p *pair) replay(steps []step) (taken []step, difference string) {
	return p.run(func(i int) (step, bool) {
		if i == len(steps) {
			return step{}, false
		}
		return steps[i], true
	}, &answers{seen: map[string]int{}})
}

// shrink leaves out steps as long as the sides differ.
func (p *pair) shrink(steps []step, difference string) ([]step, string) {
	for i := len(steps) - 1; i >= 0; i-- {
		less := slices.Delete(slices.Clone(steps), i, i+1)
		if taken, d := p.replay(less); d != "" {
			steps, difference = taken, d
			i = min(i, len(steps))
		}
	}
	return steps, difference
}

// Whatever is asked in whatever order, PostgreSQL and the reference answer the same
// and hold the same rows and files.
func TestProductConforms(t *testing.T) {
	t.Parallel()
	const pairs = 4
	all := &answers{seen: map[string]int{}}
	t.Run("pairs", func(t *testing.T) {
		for i := range pairs {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				p := newPair(t)
				defer p.close()
				for seed := *firstFlag + uint64(i); seed < *firstFlag+uint64(*sequences); seed += pairs {
					p.conforms(seed, all)
				}
			})
		}
	})
	if *sequences < 200 || t.Failed() {
		return
	}
	for _, answer := range mustBeSeen() {
		if all.seen[answer] == 0 {
			t.Errorf("never happened: %s", answer)
		}
	}
	for _, answer := range slices.Sorted(maps.Keys(all.seen)) {
		t.Logf("%5d  %s", all.seen[answer], answer)
	}
}

func (p *pair) conforms(seed uint64, seen *answers) {
	p.t.Helper()
	random := plan{rand.New(rand.NewPCG(seed, 2)), p.ref, p}
	steps, difference := p.run(func(i int) (step, bool) {
		if i == sequenceSteps {
			return step{}, false
		}
		return random.next(), true
	}, seen)
	if difference == "" {
		return
	}
	steps, difference = p.shrink(steps, difference)
	var text strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&text, "  %s\n", s)
	}
	p.t.Fatalf("after these steps product and reference differ (again: go test ./storage/protocol -run TestProductConforms -args -sequence=%d -sequences=1):\n%s%s",
		seed, &text, difference)
}

// mustBeSeen are answers without which the sequences would have missed something.
func mustBeSeen() []string {
	return []string{
		"add job: gone", "begin: ok token N number N", "begin: not due", "begin: not found", "begin: gone", "begin: sequence behind",
		"heartbeat: ok", "heartbeat: cancelled", "heartbeat: condemned", "heartbeat: fenced handed_on by N", "heartbeat: not found",
		"snapshot: ok", "snapshot: fenced newer_token by N", "write: ok", "write: exists",
		"seal: ok", "seal: condemned", "seal: cancelled", "seal: fenced handed_on by N", "seal: is published", "seal: not found",
		"publish: ok", "publish: condemned", "publish: cancelled", "publish: gone", "publish: not found", "publish: is running", "publish: is failed",
		"publish: fenced handed_on by N", "publish: fenced newer_job by N", "publish: fenced newer_attempt by N",
		"end: queued", "end: failed", "end: cancelled", "end: stale", "end: condemned", "end: published", "end: unknown",
		"hand on: job N of attempt N token N: queued", "hand on: job N of attempt N token N: failed", "hand on: job N of attempt N token N: cancelled",
		"cancel: cancelled", "cancel: cancelling", "cancel: done", "cancel: not found", "condemn: true", "condemn: false",
		"delete export: ok", "delete export: not found", "delete export: pinned", "delete export: on hold",
		"restore export: ok", "restore export: not found", "restore export: cannot restore",
		"pin: ok", "pin: not found", "unpin: ok", "unpin: not found", "hold: ok", "hold: held already", "release: ok", "release: not found",
		"set rule: ok", "remove rule: ok", "remove rule: not found", "doom: true", "doom: false", "expire: true", "expire: false", "restore: done", "sweep: unsafe", "sweep: recovery needed",
		"begin: held", "publish: recovery needed", "condemn: recovery needed",
		"recover: {Done:true Condemned:N Pointers:N Lost:N Unknown:N Adopted:N Token:N}", "recover: {Done:false Condemned:N Pointers:N Lost:N Unknown:N Adopted:N Token:N}",
		"recover: {Done:true Condemned:N Pointers:N Lost:N Unknown:N Adopted:N Token:N} adopts",
		"manifest: ok", "manifest: exists",
		"sweep: {Planned:N Condemned:N Deleted:N Probed:N Expired:N Files:N Unknown:N}",
	}
}

// Sequences in which product and reference have differed once.
func TestProductConformsWhereItDidNot(t *testing.T) {
	t.Parallel()
	publish := []step{{op: "add job", key: 1}, {op: "begin", job: 1}, {op: "write", attempt: 1}, {op: "seal", attempt: 1}, {op: "publish", attempt: 1}}
	for name, steps := range map[string][]step{
		"a publish whose reply was lost is asked for again after the publication was replaced and cleaned up": append(slices.Clone(publish),
			step{op: "add job", key: 1}, step{op: "begin", job: 2}, step{op: "write", attempt: 2}, step{op: "seal", attempt: 2}, step{op: "publish", attempt: 2},
			step{op: "sweep", superseded: true}, step{op: "publish", attempt: 1}),
		"and after its export was deleted": append(slices.Clone(publish),
			step{op: "delete export", export: 1}, step{op: "sweep", superseded: true}, step{op: "publish", attempt: 1}),
		"a cancelled attempt is to be published after it was cleaned up": {
			{op: "add job", key: 1}, {op: "begin", job: 1}, {op: "write", attempt: 1}, {op: "seal", attempt: 1}, {op: "cancel", job: 1},
			{op: "publish", attempt: 1}, {op: "sweep", lost: true}, {op: "publish", attempt: 1},
		},
		"files of attempts that a restore has taken away keep nobody from cleaning up after the recovery": {
			{op: "add job", key: 1}, {op: "begin", job: 1}, {op: "end", attempt: 1, ending: protocol.Ending{State: protocol.AttemptFailed, Reason: "because", Error: "disk full", Final: true}}, {op: "save"},
			{op: "add job", key: 1}, {op: "begin", job: 2}, {op: "write", attempt: 2}, {op: "restore"}, {op: "recover"}, {op: "sweep", lost: true},
		},
		"the sequence was set back behind another export's token": {
			{op: "add job", key: 1}, {op: "add job", key: 2}, {op: "set sequence", token: 1}, {op: "begin", job: 1},
			{op: "set sequence", token: 1}, {op: "begin", job: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			defer p.close()
			if taken, difference := p.replay(steps); difference != "" {
				t.Errorf("after step %d, %s: %s", len(taken), taken[len(taken)-1], difference)
			}
		})
	}
}
