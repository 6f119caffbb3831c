package jobs

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func TestNextSlots(t *testing.T) {
	t.Parallel()
	const target = 5 * time.Second
	bounds := map[string]Bounds{"a": {2, 16}, "b": {1, 4}, "zero": {0, 2}}
	for _, tt := range []struct {
		name  string
		loads map[string]load
		total int
		want  map[string]int
	}{
		{"nothing to do", map[string]load{"a": {slots: 2}, "b": {slots: 1}}, 16, map[string]int{"a": 2, "b": 1}},
		{"a wait within the target is none", map[string]load{"a": {slots: 2, busy: 2, waiting: 9, wait: target}}, 16, map[string]int{"a": 2}},
		{"a long wait doubles", map[string]load{"a": {slots: 2, busy: 2, waiting: 90, wait: target + 1}}, 16, map[string]int{"a": 4}},
		{"up to the bound", map[string]load{"b": {slots: 3, busy: 3, waiting: 90, wait: time.Hour}}, 16, map[string]int{"b": 4}},
		{"not more than there are jobs", map[string]load{"a": {slots: 8, busy: 8, waiting: 1, wait: time.Hour}}, 16, map[string]int{"a": 9}},
		{"from nothing", map[string]load{"zero": {waiting: 5, wait: time.Hour}}, 16, map[string]int{"zero": 1}},
		{"idle ones go, a quarter at a time", map[string]load{"a": {slots: 16}}, 16, map[string]int{"a": 12}},
		{"to the lower bound", map[string]load{"a": {slots: 2}, "zero": {slots: 1}}, 16, map[string]int{"a": 2, "zero": 0}},
		{"never those at work", map[string]load{"a": {slots: 12, busy: 11}}, 16, map[string]int{"a": 11}},
		{"those that wait the least give", map[string]load{"a": {slots: 14, busy: 14, waiting: 9, wait: time.Second}, "b": {slots: 2, busy: 2, waiting: 9, wait: time.Minute}}, 16, map[string]int{"a": 12, "b": 4}},
		{"but keep their lower bound", map[string]load{"a": {slots: 2, busy: 2, waiting: 99, wait: time.Minute}, "b": {slots: 1, busy: 1, waiting: 9, wait: time.Second}}, 3, map[string]int{"a": 2, "b": 1}},
	} {
		if got := nextSlots(tt.loads, bounds, tt.total, target); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Whatever happens, each queue stays within its bounds and all within the total.
func TestSlotsStayWithinBounds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same cases each time
	bounds := map[string]Bounds{"a": {2, 16}, "b": {1, 4}, "c": {0, 9}}
	now := map[string]int{"a": 2, "b": 1, "c": 0}
	for range 20_000 {
		total := 3 + random.IntN(20)
		loads := map[string]load{}
		for name, n := range now {
			l := load{slots: n, busy: random.IntN(n + 2), waiting: int64(random.IntN(3) * random.IntN(50))}
			if l.waiting > 0 {
				l.wait = time.Duration(random.IntN(20)) * time.Second
			}
			loads[name] = l
		}
		now = nextSlots(loads, bounds, total, 5*time.Second)
		sum := 0
		for name, n := range now {
			if sum += n; n < bounds[name].Least || n > bounds[name].Most {
				t.Fatalf("%s has %d of %v, from %v", name, n, bounds[name], loads)
			}
		}
		if sum > total {
			t.Fatalf("%d of %d, from %v", sum, total, loads)
		}
	}
}

func TestFewQueues(t *testing.T) {
	t.Parallel()
	list := []storage.Queue{{Name: "a", Waiting: 1}, {Name: "b", Waiting: 2, Running: 1, OldestWaitSeconds: 3}, {Name: "c", Waiting: 4, OldestWaitSeconds: 1}}
	if got := fewQueues(list, 3); len(got) != 3 {
		t.Errorf("%+v", got)
	}
	got := fewQueues(list, 1)
	if len(got) != 2 || got[1].Name != otherQueues || got[1].Waiting != 6 || got[1].Running != 1 || got[1].OldestWaitSeconds != 3 {
		t.Errorf("%+v", got)
	}
	if CheckName("queue", otherQueues) == nil {
		t.Error("a queue can have the name of the rest")
	}
}

// A gate lets in as many as its queue has slots, and all gates as many as the worker has.
func TestGates(t *testing.T) {
	t.Parallel()
	now := make(chan struct{})
	close(now) // who would have to wait is turned away
	g := newGates(map[string]int{"a": 1, "b": 1}, map[string]Bounds{"a": {2, 4}}, 5)
	enters := func(queue string, want int) {
		t.Helper()
		n := 0
		for g.enter(now, queue) {
			n++
		}
		if n != want {
			t.Errorf("%d were let into %s, want %d", n, queue, want)
		}
	}
	enters("a", 2)
	enters("b", 1) // it has no bounds: one to all
	g.resize(map[string]int{"a": 4, "b": 5})
	enters("a", 2)
	enters("b", 0) // five are in
	g.resize(map[string]int{"a": 3, "b": 5})
	if !g.crowded("a") || g.crowded("b") {
		t.Error("a has four of three, b one of five")
	}
	g.leave("a")
	if g.crowded("a") {
		t.Error("a has three of three")
	}
	enters("a", 0)
	enters("b", 1)
	waited := make(chan bool)
	go func() { waited <- g.enter(nil, "a") }()
	g.leave("a")
	if !<-waited {
		t.Error("who waited was not let in when one left")
	}
}
