package jobstest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// Dispatcher is a [jobs.Dispatcher] that keeps jobs in memory, and what a test asks
// it about them. Give code under test the field Dispatcher: it is the real one,
// with another place to put what it has checked, so it refuses what the real one
// refuses and answers for unique and idempotency keys as the database does.
//
// Nothing runs. A job that was dispatched in a transaction counts at once, also
// when that is rolled back; its [Sent] says so. It is safe for concurrent use.
type Dispatcher struct {
	*jobs.Dispatcher

	t        testing.TB
	memory   *memory
	registry *jobs.Registry
}

// NewDispatcher makes a fake for kinds. Kinds that ask a database when they check a
// request, such as reports, do that here too.
func NewDispatcher(t testing.TB, kinds ...jobs.Kind) *Dispatcher {
	t.Helper()
	registry := registryOf(t, nil, kinds...)
	m := new(memory)
	return &Dispatcher{Dispatcher: jobs.NewDispatcherInto(m, registry), t: t, memory: m, registry: registry}
}

// registryOf is a registry of kinds whose secrets can be sealed: with a key of its
// own, unless there are keys.
func registryOf(t testing.TB, keys *secret.Keyring, kinds ...jobs.Kind) *jobs.Registry {
	t.Helper()
	registry, err := jobs.NewRegistry(kinds...)
	if err == nil && keys == nil {
		var entry string
		if entry, err = secret.NewEntry("jobstest"); err == nil {
			keys, err = secret.Parse(entry)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return registry.WithKeys(keys)
}

// All are the jobs, in the order in which they were dispatched.
func (d *Dispatcher) All() []Sent {
	d.t.Helper()
	d.memory.mu.Lock()
	all := slices.Clone(d.memory.sent)
	d.memory.mu.Unlock()
	for i := range all {
		job := &all[i].Job
		opened, err := d.registry.Opened(*job)
		if err != nil {
			d.t.Fatal(err)
		}
		all[i].Payload, job.Payload = opened, secret.Mask(job.Payload)
	}
	return all
}

// Due are the jobs that could run by now. In a bubble of testing/synctest a test
// sleeps until a delayed one is among them.
func (d *Dispatcher) Due() []Sent {
	return slices.DeleteFunc(d.All(), func(s Sent) bool { return s.Job.AfterJob != nil || s.Job.DueAt.After(time.Now()) })
}

// Forget drops all jobs and batches.
func (d *Dispatcher) Forget() {
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	d.memory.sent, d.memory.batches = nil, nil
}

// Find answers the jobs of a kind that meet all conditions.
func (d *Dispatcher) Find(kind string, is ...Matcher) []Sent {
	return slices.DeleteFunc(d.All(), func(s Sent) bool { return !matches(s, kind, is) })
}

func matches(s Sent, kind string, is []Matcher) bool {
	return s.Job.Kind == kind && !slices.ContainsFunc(is, func(m Matcher) bool { return !m.is(s) })
}

// Dispatched wants at least one job of a kind that meets all conditions, answers
// them, and ends the test when there is none.
func (d *Dispatcher) Dispatched(kind string, is ...Matcher) []Sent {
	d.t.Helper()
	found := d.Find(kind, is...)
	if len(found) == 0 {
		d.t.Fatalf("no job %s was dispatched; %s", want(kind, is), d.instead(kind, is))
	}
	return found
}

// Count wants exactly n jobs of a kind that meet all conditions.
func (d *Dispatcher) Count(n int, kind string, is ...Matcher) {
	d.t.Helper()
	if got := len(d.Find(kind, is...)); got != n {
		d.t.Errorf("%d jobs %s were dispatched, want %d; %s", got, want(kind, is), n, d.instead(kind, is))
	}
}

// NotDispatched wants no job of a kind that meets all conditions.
func (d *Dispatcher) NotDispatched(kind string, is ...Matcher) {
	d.t.Helper()
	if found := d.Find(kind, is...); len(found) > 0 {
		d.t.Errorf("%d jobs %s were dispatched, want none:%s", len(found), want(kind, is), lines(found, nil))
	}
}

// NothingDispatched wants no job at all.
func (d *Dispatcher) NothingDispatched() {
	d.t.Helper()
	if all := d.All(); len(all) > 0 {
		d.t.Errorf("%d jobs were dispatched, want none:%s", len(all), lines(all, nil))
	}
}

// Step is one job that a chain or a batch should hold.
type Step struct {
	kind string
	is   []Matcher
}

// Job is a [Step]: a job of a kind that meets all conditions.
func Job(kind string, is ...Matcher) Step { return Step{kind, is} }

// Chains are the chains, those of batches included, each in its order.
func (d *Dispatcher) Chains() [][]Sent { return chainsOf(d.All()) }

func chainsOf(list []Sent) (chains [][]Sent) {
	at := map[uuid.UUID]int{}
	for _, s := range list {
		if s.Job.ChainID == nil {
			continue
		}
		i, there := at[*s.Job.ChainID]
		if !there {
			i = len(chains)
			at[*s.Job.ChainID], chains = i, append(chains, nil)
		}
		chains[i] = append(chains[i], s)
	}
	return chains
}

// Chained wants a chain of exactly these jobs in this order, answers them, and ends
// the test when there is none.
func (d *Dispatcher) Chained(steps ...Step) []Sent {
	d.t.Helper()
	for _, c := range d.Chains() {
		if len(c) == len(steps) && inOrder(c, steps) {
			return c
		}
	}
	var b strings.Builder
	for i, c := range d.Chains() {
		fmt.Fprintf(&b, "\nchain %d:%s", i+1, lines(c, nil))
	}
	if b.Len() == 0 {
		b.WriteString("there is no chain; " + d.instead("", nil))
	}
	d.t.Fatalf("no chain of %s was dispatched: %s", wantSteps(steps, ", then "), b.String())
	return nil
}

func inOrder(chain []Sent, steps []Step) bool {
	for i, s := range steps {
		if !matches(chain[i], s.kind, s.is) {
			return false
		}
	}
	return true
}

// SentBatch is a batch that was dispatched.
type SentBatch struct {
	Batch storage.Batch
	Jobs  []Sent // all of them, those of chains included
	// Chains are its chains, each in its order.
	Chains [][]Sent
	// Then, Catch and Finally are what it calls; nil for nothing.
	Then, Catch, Finally *storage.NewJob
}

// Batches are the batches, in the order in which they were dispatched.
func (d *Dispatcher) Batches() []SentBatch {
	d.memory.mu.Lock()
	batches := slices.Clone(d.memory.batches)
	d.memory.mu.Unlock()
	out := make([]SentBatch, len(batches))
	for i, b := range batches {
		list := slices.DeleteFunc(d.All(), func(s Sent) bool { return !InBatch(b.ID).is(s) })
		out[i] = SentBatch{Batch: b, Jobs: list, Chains: chainsOf(list), Then: callOf(b.OnSuccess), Catch: callOf(b.OnFailure), Finally: callOf(b.OnEnd)}
	}
	return out
}

func callOf(raw json.RawMessage) *storage.NewJob {
	var n storage.NewJob
	if raw == nil || json.Unmarshal(raw, &n) != nil {
		return nil
	}
	return &n
}

// Batched wants a batch with this title (any, when it is empty) that holds a job
// for each step, in any order, and as many jobs as there are steps, unless there are
// none. It answers the first, and ends the test when there is none.
func (d *Dispatcher) Batched(title string, steps ...Step) SentBatch {
	d.t.Helper()
	var b strings.Builder
	for _, batch := range d.Batches() {
		if (title == "" || batch.Batch.Title == title) && (len(steps) == 0 || pairs(batch.Jobs, steps)) {
			return batch
		}
		fmt.Fprintf(&b, "\nbatch %q:%s", batch.Batch.Title, lines(batch.Jobs, nil))
	}
	if b.Len() == 0 {
		b.WriteString(" there is no batch; " + d.instead("", nil))
	}
	d.t.Fatalf("no batch %q of %s was dispatched:%s", title, wantSteps(steps, " and "), b.String())
	return SentBatch{}
}

// pairs reports whether each step has a job of its own, and none is left over: a
// perfect matching, found by augmenting paths.
func pairs(list []Sent, steps []Step) bool {
	if len(list) != len(steps) {
		return false
	}
	stepOf := make([]int, len(list)) // by job, from 1; 0 for none yet
	for i := range steps {
		if !place(i, list, steps, stepOf, make([]bool, len(list))) {
			return false
		}
	}
	return true
}

func place(step int, list []Sent, steps []Step, stepOf []int, seen []bool) bool {
	for j := range list {
		if seen[j] || !matches(list[j], steps[step].kind, steps[step].is) {
			continue
		}
		seen[j] = true
		if stepOf[j] == 0 || place(stepOf[j]-1, list, steps, stepOf, seen) {
			stepOf[j] = step + 1
			return true
		}
	}
	return false
}

// want says what was wanted.
func want(kind string, is []Matcher) string {
	words := []string{kind}
	for _, m := range is {
		words = append(words, m.says)
	}
	return strings.Join(words, " ")
}

func wantSteps(steps []Step, between string) string {
	words := make([]string, len(steps))
	for i, s := range steps {
		words[i] = want(s.kind, s.is)
	}
	return strings.Join(words, between)
}

// instead says what was dispatched: of the kind, when there is some of it.
func (d *Dispatcher) instead(kind string, is []Matcher) string {
	all := d.All()
	if len(all) == 0 {
		return "nothing was"
	}
	if of := d.Find(kind); len(of) > 0 {
		return "of this kind there are:" + lines(of, is)
	}
	return "instead there are:" + lines(all, nil)
}

// mostLines bounds what a failure prints.
const mostLines = 20

// lines is a list of jobs, each with the conditions that it does not meet.
func lines(list []Sent, is []Matcher) string {
	var b strings.Builder
	for i, s := range list {
		if i == mostLines {
			fmt.Fprintf(&b, "\n  … and %d more", len(list)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %d. %s", i+1, s)
		for _, m := range is {
			if !m.is(s) {
				fmt.Fprintf(&b, "\n     not %s", m.says)
			}
		}
	}
	return b.String()
}
