package storage

import (
	"context"
	"fmt"
	"time"
)

// waitEdges bound the buckets in which waits are counted, in milliseconds, as
// fenceline.wait_edges does; the last bucket has no upper bound.
var waitEdges = [...]int64{10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000, 300_000, 1_800_000, 7_200_000, 43_200_000}

// closedAfter is how long after its end a minute counts as closed.
const closedAfter = 5 * time.Second

// RollStats counts what ended in the minutes that have closed since the last
// time, and answers whether more is left to do at once: an old database is
// counted six hours at a time. Any number of rollers may call it; one works.
func (s *Store) RollStats(ctx context.Context) (more bool, err error) {
	if err := s.pool.QueryRow(ctx, "SELECT fenceline.roll_stats(make_interval(secs => $1))", closedAfter.Seconds()).Scan(&more); err != nil {
		return false, fmt.Errorf("roll up the numbers: %w", err)
	}
	return more, nil
}

// StatsGrain is how finely numbers are kept.
type StatsGrain string

// The grains: minutes are kept for two days, hours for 400.
const (
	ByMinute StatsGrain = "minutes"
	ByHour   StatsGrain = "hours"
)

// Stat is what ended in a span of time.
type Stat struct {
	At                              time.Time // its beginning
	Published, Done, Failed, Fenced int64     // jobs of exports, other jobs, jobs out of attempts, attempts
	// Waits is of how many jobs the wait from due to begun is known: those that began once.
	Waits   int64
	WaitSum time.Duration
	buckets [len(waitEdges) + 1]int64
}

// add puts what another span holds into this one.
func (t *Stat) add(o Stat) {
	t.Published, t.Done, t.Failed, t.Fenced = t.Published+o.Published, t.Done+o.Done, t.Failed+o.Failed, t.Fenced+o.Fenced
	t.Waits, t.WaitSum = t.Waits+o.Waits, t.WaitSum+o.WaitSum
	for i, n := range o.buckets {
		t.buckets[i] += n
	}
}

// Wait is the wait that a share of the jobs did not exceed, such as 0.95 of them,
// as exact as the buckets are: it is interpolated within one. Zero when there are none.
func (t Stat) Wait(share float64) time.Duration {
	rank, below := share*float64(t.Waits), 0.0
	if t.Waits == 0 {
		return 0
	}
	for i, n := range t.buckets {
		if below+float64(n) < rank || n == 0 {
			below += float64(n)
			continue
		}
		low, high := int64(0), 2*waitEdges[len(waitEdges)-1]
		if i > 0 {
			low = waitEdges[i-1]
		}
		if i < len(waitEdges) {
			high = waitEdges[i]
		}
		ms := float64(low) + float64(high-low)*(rank-below)/float64(n)
		return time.Duration(ms * float64(time.Millisecond))
	}
	return time.Duration(waitEdges[len(waitEdges)-1]) * time.Millisecond
}

// History is what ended in a window of time, in equal spans from the oldest to the newest.
type History struct {
	From, To time.Time // To is up to when it was counted: it lags behind now by a minute or so
	Step     time.Duration
	Spans    []Stat
	Total    Stat
}

// Stats reads what ended in the window before now, in spans of step, which is a
// multiple of the grain. It reads one row for each minute or hour, however much ended.
func (s *Store) Stats(ctx context.Context, scope Scope, grain StatsGrain, window, step time.Duration) (History, error) {
	h := History{Step: step}
	var now time.Time
	if err := s.pool.QueryRow(ctx, "SELECT clock_timestamp(), rolled_to FROM fenceline.stats_roll").Scan(&now, &h.To); err != nil {
		return h, fmt.Errorf("look how far the numbers are: %w", err)
	}
	end := now.Truncate(step).Add(step) // the span that goes on is the last one
	h.From = end.Add(-window.Truncate(step) - step)
	h.Spans = make([]Stat, end.Sub(h.From)/step)
	for i := range h.Spans {
		h.Spans[i].At = h.From.Add(time.Duration(i) * step)
	}
	if !scope.All && scope.Tenant == "" { // the row of no tenant is that of all
		return h, nil
	}
	tenant := scope.Tenant
	if scope.All {
		tenant = ""
	}
	rows, err := s.pool.Query(ctx, `SELECT at, published, done, failed, fenced, waits, wait_ms, wait_buckets FROM fenceline.stats_`+string(grain)+`
		WHERE tenant = $1 AND at >= $2 AND at < $3`, tenant, h.From, end)
	if err != nil {
		return h, fmt.Errorf("read the numbers: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var t Stat
		var ms int64
		var buckets []int64
		if err := rows.Scan(&t.At, &t.Published, &t.Done, &t.Failed, &t.Fenced, &t.Waits, &ms, &buckets); err != nil {
			return h, fmt.Errorf("read the numbers: %w", err)
		}
		t.WaitSum = time.Duration(ms) * time.Millisecond
		copy(t.buckets[:], buckets)
		h.Spans[t.At.Sub(h.From)/step].add(t)
		h.Total.add(t)
	}
	if err := rows.Err(); err != nil {
		return h, fmt.Errorf("read the numbers: %w", err)
	}
	return h, nil
}
