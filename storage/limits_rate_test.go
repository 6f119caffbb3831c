package storage_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// later lets time pass for the rates, as if everything in them had been so much earlier.
func (w *world) later(d time.Duration) {
	w.t.Helper()
	w.exec(`WITH r AS (UPDATE fenceline.limit_rates SET next_at = next_at - make_interval(secs => $1), started_at = started_at - make_interval(secs => $1))
		UPDATE fenceline.limit_slots SET slot_at = slot_at - make_interval(secs => $1)`, d.Seconds())
}

func (w *world) turn(key storage.LimitKey, r storage.Rate, job uuid.UUID) storage.Turn {
	w.t.Helper()
	t, err := w.store.TakeRate(w.ctx, key, r, job)
	w.must(err)
	return t
}

// bucket is the simple thing that a rate must not be told from: a bucket of tokens that fills up.
type bucket struct {
	every time.Duration
	burst int
	// in token × every, so that all of it are whole microseconds
	level time.Duration
	at    time.Time
}

func (b *bucket) fill(to time.Time) {
	b.level = min(b.level+to.Sub(b.at), time.Duration(b.burst)*b.every)
	b.at = to
}

// A rate gives out its slots exactly as early as a bucket of tokens would, whatever its speed and
// its burst, and whatever pauses there are.
func TestARateIsABucketOfTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	random := rand.New(rand.NewPCG(7, 1))
	for world := range 6 {
		r := storage.Rate{Every: time.Duration(1+random.IntN(3_000_000)) * time.Microsecond, Burst: 1 + random.IntN(5)}
		key := acme(fmt.Sprint("p", world))
		var passed time.Duration // that later has let pass
		before, err := w.store.Now(w.ctx)
		w.must(err)
		b := bucket{every: r.Every, burst: r.Burst, level: time.Duration(r.Burst) * r.Every, at: before}
		for i := range 60 {
			if random.IntN(4) == 0 {
				pause := time.Duration(random.Int64N(int64(4*r.Every) / 1000 * 1000)).Truncate(time.Microsecond)
				w.later(pause)
				passed += pause
			}
			asked, err := w.store.Now(w.ctx)
			w.must(err)
			turn := w.turn(key, r, uuid.New())
			answered, err := w.store.Now(w.ctx)
			w.must(err)
			slot := turn.Slot.Add(passed)
			asked, answered = asked.Add(passed), answered.Add(passed)
			if slot.Before(asked) {
				t.Fatalf("%+v, turn %d: slot %s is before it was asked for, at %s", r, i, slot, asked)
			}
			b.fill(slot)
			if b.level < r.Every {
				t.Fatalf("%+v, turn %d: the slot is %s too early", r, i, r.Every-b.level)
			}
			if slot.After(answered) && b.level > r.Every {
				t.Fatalf("%+v, turn %d: the slot is %s later than need be", r, i, b.level-r.Every)
			}
			b.level -= r.Every
		}
	}
}

// crowd is jobs that all want to start under one rate, by way of several stores, and come back when they were told.
type crowd struct {
	w        *world
	stores   []*storage.Store
	rate     storage.Rate
	key      storage.LimitKey
	waiting  map[uuid.UUID]time.Time // until when, in the time that later lets pass
	releases map[uuid.UUID]int
	starts   []time.Time
	passed   time.Duration
}

// ask lets every job ask whose time has come.
func (c *crowd) ask() {
	c.w.t.Helper()
	now, err := c.w.store.Now(c.w.ctx)
	c.w.must(err)
	now = now.Add(c.passed)
	var due []uuid.UUID
	for job, until := range c.waiting {
		if !until.After(now) {
			due = append(due, job)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for part := range slices.Chunk(due, max(1, len(due)/8)) {
		store := c.stores[len(part)%len(c.stores)]
		wg.Go(func() {
			for _, job := range part {
				turn, err := store.TakeRate(c.w.ctx, c.key, c.rate, job)
				mu.Lock()
				switch {
				case err != nil:
					c.w.t.Error(err)
				case turn.Go:
					c.starts = append(c.starts, now)
					delete(c.waiting, job)
				default:
					c.releases[job]++
					c.waiting[job] = turn.Slot.Add(c.passed)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func (c *crowd) later(d time.Duration) { c.w.later(d); c.passed += d }

func newCrowd(w *world, n int, r storage.Rate) *crowd {
	c := &crowd{w: w, rate: r, key: acme("crowd"), waiting: map[uuid.UUID]time.Time{}, releases: map[uuid.UUID]int{}}
	c.stores = []*storage.Store{w.store, openStore(w.t, w.url)}
	for range n {
		c.waiting[uuid.New()] = time.Time{}
	}
	return c
}

// A thousand jobs at a hundred a second, looked for once a second: they are through in ten seconds, and hardly one
// is put back more than once.
func TestACrowdUnderARateComesBackWhenItsTurnHasCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newCrowd(w, 1000, storage.Rate{Every: 10 * time.Millisecond, Burst: 1})
	begun, err := w.store.Now(w.ctx)
	w.must(err)
	looks := 0
	for ; len(c.waiting) > 0 && looks < 30; looks++ {
		c.ask()
		c.later(time.Second)
	}
	total := 0
	for job, n := range c.releases {
		if total += n; n > 3 {
			t.Errorf("job %s was put back %d times", job, n)
		}
	}
	if total > 1200 {
		t.Errorf("%d releases of 1000 jobs", total)
	}
	last := c.starts[len(c.starts)-1].Sub(begun)
	if len(c.waiting) > 0 || last < 9*time.Second || last > 14*time.Second { // what the test itself takes comes on top
		t.Errorf("%d jobs still wait after %d looks; the last started after %s", len(c.waiting), looks, last)
	}
	for i := range c.starts { // in no second more than that second and two more have
		n := 0
		for _, s := range c.starts[i:] {
			if s.Before(c.starts[i].Add(time.Second)) {
				n++
			}
		}
		if n > 301 {
			t.Fatalf("%d jobs started in the second from %s", n, c.starts[i])
		}
	}
	t.Logf("%d looks, %s, %d releases", looks, last, total)
}

// Whose turns have passed while nobody worked do not all start at once.
func TestAfterAnOutageTheRateHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newCrowd(w, 500, storage.Rate{Every: 100 * time.Millisecond, Burst: 2})
	c.ask()
	c.later(time.Hour)
	before := len(c.starts)
	begun, err := w.store.Now(w.ctx)
	w.must(err)
	c.ask()
	ended, err := w.store.Now(w.ctx)
	w.must(err)
	if most, got := 2+20+1+int(ended.Sub(begun)/c.rate.Every), len(c.starts)-before; got > most || got < 20 {
		t.Errorf("%d jobs started at once, want about 22, at most %d", got, most)
	}
	for _, until := range c.waiting {
		if until.After(ended.Add(c.passed + time.Minute)) {
			t.Fatalf("a job waits until %s", until)
		}
	}
}

func TestASlotIsNotLostWithItsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := storage.Rate{Every: time.Hour, Burst: 1}
	job := w.plain(5)
	first := w.turn(acme("k"), r, job[0].Job)
	second, third := w.turn(acme("k"), r, job[1].Job), w.turn(acme("k"), r, job[2].Job)
	if !first.Go || first.Wait > 0 || second.Go || third.Go || third.Slot.Sub(second.Slot) != time.Hour {
		t.Fatalf("turns are %+v, %+v, %+v", first, second, third)
	}
	if again := w.turn(acme("k"), r, job[1].Job); again.Go || !again.Slot.Equal(second.Slot) {
		t.Errorf("who asks too early has slot %s, want %s", again.Slot, second.Slot)
	}
	if _, err := w.store.CancelJob(w.ctx, everything, job[1].Job); err != nil {
		t.Fatal(err)
	}
	if got := w.turn(acme("k"), r, job[3].Job); !got.Slot.Equal(second.Slot) {
		t.Errorf("after a waiting job was cancelled the next has slot %s, want its %s", got.Slot, second.Slot)
	}
	w.must(w.store.GiveBackRate(w.ctx, acme("k"), first.Slot))
	if got := w.turn(acme("k"), r, job[4].Job); !got.Go {
		t.Errorf("a turn that was given back is not given out: %+v", got)
	}
	if other := w.turn(storage.LimitKey{Tenant: "other", Key: "k"}, r, uuid.New()); !other.Go {
		t.Error("one tenant's jobs wait for those of another")
	}
}
