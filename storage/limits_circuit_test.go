package storage_test

import (
	"sync"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func (w *world) enter(key string, h storage.Holder) storage.Entry {
	w.t.Helper()
	e, err := w.store.EnterCircuit(w.ctx, acme(key), h)
	w.must(err)
	return e
}

func (w *world) leave(key string, h storage.Holder, v storage.CircuitVerdict) bool {
	w.t.Helper()
	opened, err := w.store.LeaveCircuit(w.ctx, acme(key), h, v, storage.Breaker{Failures: 3, Within: time.Minute, CoolDown: time.Hour})
	w.must(err)
	return opened
}

// coolDown lets the cool-down of every circuit be over.
func (w *world) coolDown() {
	w.exec("UPDATE fenceline.limit_circuits SET open_until = clock_timestamp()")
}

func TestACircuitOpensAndCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.running(4)
	want := func(i int, outcome string) {
		t.Helper()
		if got := w.enter("c", run[i]); got.Outcome != outcome {
			t.Fatalf("run %d finds the circuit %q, want %q", i, got.Outcome, outcome)
		}
	}
	fails := func(i int, opens bool) {
		t.Helper()
		if w.leave("c", run[i], storage.CircuitFailed) != opens {
			t.Fatalf("the failure of run %d should open the circuit: %v", i, opens)
		}
	}
	want(0, "closed")
	fails(0, false)
	w.exec("UPDATE fenceline.limit_circuits SET failures = ARRAY[failures[1] - interval '59.9 seconds']") // about to be forgotten
	fails(1, false)
	w.exec("UPDATE fenceline.limit_circuits SET failures = ARRAY[failures[1], failures[2] - interval '1 second']")
	fails(2, false) // the first is more than a minute ago
	w.leave("c", run[3], storage.CircuitPassed)
	want(3, "closed")
	fails(3, true)
	if e := w.enter("c", run[0]); e.Outcome != "open" || e.Wait <= 59*time.Minute || e.Wait > time.Hour {
		t.Fatalf("%+v", e)
	}
	fails(1, false)                             // began before it opened
	w.leave("c", run[1], storage.CircuitPassed) // and so did this: it closes nothing
	want(0, "open")

	w.coolDown()
	want(0, "probe")
	want(1, "probing")
	w.leave("c", run[0], storage.CircuitNeither)
	want(1, "probe")
	w.leave("c", run[0], storage.CircuitPassed) // is not the one that tries any more
	want(2, "probing")
	fails(1, true) // one failure is enough
	want(2, "open")

	w.coolDown()
	want(2, "probe")
	w.end(run[2]) // or killed: a run that lives no more tries nothing
	want(3, "probe")
	w.leave("c", run[3], storage.CircuitPassed)
	want(0, "closed")
	fails(0, false) // counted anew
}

// Of many that come at the end of the cool-down, by two workers, one tries.
func TestOneRunProbes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.running(31)
	for range 3 {
		w.leave("c", run[30], storage.CircuitFailed)
	}
	w.coolDown()
	stores := []*storage.Store{w.store, openStore(t, w.url)}
	probes := make(chan int, len(run))
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			e, err := stores[i%2].EnterCircuit(w.ctx, acme("c"), run[i])
			if err != nil {
				t.Error(err)
			}
			if e.Outcome == "probe" {
				probes <- i
			}
		})
	}
	wg.Wait()
	if len(probes) != 1 {
		t.Errorf("%d runs probe", len(probes))
	}
}

// Who comes while another becomes the one that tries does not try.
func TestProbesDoNotMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.running(2)
	for range 3 {
		w.leave("c", run[0], storage.CircuitFailed)
	}
	w.coolDown()
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	defer func() { _ = tx.Rollback(w.ctx) }()
	var first string
	w.must(tx.QueryRow(w.ctx, "SELECT outcome FROM fenceline.enter_circuit('acme', 'c', $1, $2, $3)", run[0].Job, run[0].Generation, run[0].Run).Scan(&first))
	second := make(chan string)
	go func() { second <- w.enter("c", run[1]).Outcome }()
	w.locked()
	w.must(tx.Commit(w.ctx))
	if got := <-second; first != "probe" || got != "probing" {
		t.Errorf("%s, then %s", first, got)
	}
}
