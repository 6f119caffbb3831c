package protocol

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	interleavings = flag.Int("interleavings", 100_000, "how many random interleavings the simulation goes through")
	seedFlag      = flag.Uint64("seed", 0, "the first seed of the simulation; 0 takes a new one")
)

// failure is a story that breaks a law, in the fewest steps that we find.
type failure struct {
	seed uint64
	script
	law *Violation
}

// search plays n stories, and answers the first that it finds to break a law, shrunk.
func search(first uint64, n int, m missing) (failure, bool) {
	workers := runtime.GOMAXPROCS(0)
	var next atomic.Int64
	var once sync.Once
	var found failure
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			var s story
			var of script
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				seed := first + uint64(i)
				of.write(seed)
				if steps, v := s.play(of, m); v != nil {
					next.Store(int64(n))
					of.rolls = of.rolls[:min(steps, len(of.rolls))]
					once.Do(func() { found = shrink(failure{seed, of, v}, m) })
					return
				}
			}
		})
	}
	group.Wait()
	return found, found.law != nil
}

// shrink leaves out steps as long as the rest still breaks the same law.
func shrink(f failure, m missing) failure {
	var s story
	for again := true; again; {
		again = false
		for i := len(f.rolls) - 1; i >= 0; i-- {
			less := script{f.absent, slices.Delete(slices.Clone(f.rolls), i, i+1)}
			if steps, v := s.play(less, m); v != nil && v.Law == f.law.Law {
				f.rolls, f.law, again = less.rolls[:min(steps, len(less.rolls))], v, true
				i = min(i, len(f.rolls))
			}
		}
	}
	return f
}

// text tells the story.
func (f failure) text(m missing) string {
	s := story{told: new(strings.Builder)}
	_, v := s.play(f.script, m)
	return s.told.String() + v.Error()
}

// The laws hold in every interleaving.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%d interleavings from seed %d on", *interleavings, seed)
	if f, found := search(seed, *interleavings, missing{}); found {
		t.Errorf("seed %d breaks a law; replay it with: go test ./storage/protocol -run TestSimulation -args -seed=%d -interleavings=1\n%s",
			f.seed, f.seed, f.text(missing{}))
	}
}

// Each guard is needed: without it a law breaks, and soon.
func TestSimulationCatchesEveryMissingGuard(t *testing.T) {
	t.Parallel()
	laws := map[Guard][]int{
		RowLock: {1}, TokenCheck: {2, 3}, JobFence: {4, 6}, EndFence: {6}, LateSnapshot: {3}, SnapshotCheck: {3},
		Condemn: {1, 7}, Verdict: {1, 7}, RowCheck: {1, 2}, CondemnAll: {1}, Raise: {2}, HoldCheck: {7}, PinCheck: {7}, RuleCheck: {7}, RestoreCheck: {1}, EpochCheck: {1, 2}, Keep: {1}, Idle: {1, 7},
	}
	for _, g := range Guards() {
		if len(laws[g.Guard]) == 0 {
			t.Errorf("which law breaks without %s?", g.Name)
		}
		for _, law := range laws[g.Guard] {
			t.Run(fmt.Sprintf("%s L%d", g.Name, law), func(t *testing.T) {
				t.Parallel()
				m := missing{g.Guard, law}
				f, found := search(1, 100_000, m)
				if !found {
					t.Fatalf("without %s L%d holds in 100,000 interleavings", g.Name, law)
				}
				t.Logf("without %s, seed %d, %d steps:\n%s", g.Name, f.seed, len(f.rolls), f.text(m))
			})
		}
	}
}
