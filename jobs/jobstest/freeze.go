package jobstest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/fenceline/fenceline/jobs"
)

// Moment is where a run freezes.
type Moment struct {
	says  string
	is    func(event) bool
	times int // it freezes at this one, from 1
}

// event is something that a run is about to do, or did.
type event struct {
	sql      string // about to be sent
	progress bool   // was reported
	here     string // [Here] was called
	point    jobs.Point
}

// BeforeFence is before the run draws the n-th token of a fence, from 1.
func BeforeFence(n int) Moment {
	return Moment{fmt.Sprintf("before token %d of a fence is drawn", n), sends("fenceline.fence_token("), n}
}

// BeforeWrite is before the n-th write under a fence, from 1: the token is drawn,
// everything was read and computed, the check of the token is about to be sent. It
// is the worst moment, and the usual choice.
func BeforeWrite(n int) Moment {
	return Moment{fmt.Sprintf("before write %d under a fence", n), sends("fenceline.fence_write("), n}
}

// BeforeSQL is before the run sends the n-th statement that holds this text, from 1,
// through the store of the [Fenceline].
func BeforeSQL(text string, n int) Moment {
	return Moment{fmt.Sprintf("before statement %d that holds %q", n, text), sends(text), n}
}

// AfterProgress is when a plain job has reported progress for the n-th time, from 1.
func AfterProgress(n int) Moment {
	return Moment{fmt.Sprintf("after progress was reported %d times", n), func(e event) bool { return e.progress }, n}
}

// AtHere is where [Here] is called with this name: by a fake that the test has put
// in the place of what the handler calls, for instance.
func AtHere(name string) Moment {
	return Moment{fmt.Sprintf("where Here(ctx, %q) is called", name), func(e event) bool { return e.here == name && name != "" }, 1}
}

// AtPoint is between two steps of an export, such as [jobs.PointRead] or [jobs.PointSealed].
func AtPoint(p jobs.Point) Moment {
	return Moment{fmt.Sprintf("at point %q of an export", p), func(e event) bool { return e.point == p && p != "" }, 1}
}

func sends(text string) func(event) bool {
	return func(e event) bool { return e.sql != "" && strings.Contains(e.sql, text) }
}

// Here is where a run freezes that is to be overtaken [AtHere], when ctx is its
// context or one made from it. Everywhere else it does nothing.
func Here(ctx context.Context, name string) {
	if f, ok := ctx.Value(freezeKey{}).(*freeze); ok {
		f.pass(event{here: name})
	}
}

// freeze stops one run once, wherever in its code it is: whoever carries its context and
// comes to the moment waits until it thaws. Nothing tells it that it waited.
type freeze struct {
	moment  Moment
	reached chan struct{}
	thaw    chan struct{}

	mu     sync.Mutex
	seen   int
	thawed bool
	errs   []error
}

type freezeKey struct{}

func newFreeze(m Moment) *freeze {
	return &freeze{moment: m, reached: make(chan struct{}), thaw: make(chan struct{})}
}

func (f *freeze) carriedBy(ctx context.Context) context.Context {
	return context.WithValue(ctx, freezeKey{}, f)
}

func (f *freeze) pass(e event) {
	if !f.moment.is(e) {
		return
	}
	f.mu.Lock()
	f.seen++
	now := f.seen == f.moment.times
	f.mu.Unlock()
	if now {
		close(f.reached)
		<-f.thaw
	}
}

// melt lets the run go on; it may be called again.
func (f *freeze) melt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.thawed {
		f.thawed = true
		close(f.thaw)
	}
}

// At passes the points of an export; it makes a freeze [jobs.Faults].
func (f *freeze) At(_ context.Context, p jobs.Point) error {
	f.pass(event{point: p})
	return nil
}

// watch freezes runs by what they send, and keeps how their writes under a fence came out.
func watch(ctx context.Context, sql string) (done func(error)) {
	f, ok := ctx.Value(freezeKey{}).(*freeze)
	if !ok {
		return nil
	}
	f.pass(event{sql: sql})
	if !strings.Contains(sql, "fenceline.fence_write(") {
		return nil
	}
	return func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.errs = append(f.errs, err)
	}
}

// writes are the outcomes of the writes under a fence so far.
func (f *freeze) writes() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]error(nil), f.errs...)
}

// reporting freezes a run when it reports progress, after others have heard of it.
func (f *freeze) reporting(others func(json.RawMessage)) func(json.RawMessage) {
	return func(progress json.RawMessage) {
		others(progress)
		f.pass(event{progress: true})
	}
}
