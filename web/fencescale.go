package web

import (
	"cmp"
	"slices"
	"time"
)

// interval is a piece of time, to not before from.
type interval struct{ from, to time.Time }

func (i interval) length() time.Duration { return i.to.Sub(i.from) }

// stretch is a piece of time that is drawn to scale.
type stretch struct {
	interval
	x0, x1 float64
}

// timeScale maps times to places. Between its stretches nothing happened; such
// a gap takes the same small width however long it was.
type timeScale struct{ stretches []stretch }

// gapShare is how long a gap may be against the busy time before it is compressed.
const gapShare = 0.4

// newTimeScale fits busy times between left and right, with breaks of width gap.
// There is at least one interval.
func newTimeScale(busy []interval, left, right, gap float64) timeScale {
	merged := mergeIntervals(busy, 0)
	var sum time.Duration
	for _, i := range merged {
		sum += i.length()
	}
	merged = mergeIntervals(merged, time.Duration(gapShare*float64(sum)))
	sum = 0
	for _, i := range merged {
		sum += i.length()
	}
	n := float64(len(merged))
	room := right - left - (n-1)*gap
	least := min(64, room/n/2)
	scale, x := timeScale{}, left
	for _, i := range merged {
		width := room / n
		if sum > 0 {
			width = least + (room-n*least)*float64(i.length())/float64(sum)
		}
		scale.stretches = append(scale.stretches, stretch{i, x, x + width})
		x += width + gap
	}
	return scale
}

// mergeIntervals joins what overlaps or is at most gap apart.
func mergeIntervals(list []interval, gap time.Duration) []interval {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b interval) int {
		return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to))
	})
	merged := list[:1]
	for _, i := range list[1:] {
		last := &merged[len(merged)-1]
		if i.from.Sub(last.to) > gap {
			merged = append(merged, i)
		} else if i.to.After(last.to) {
			last.to = i.to
		}
	}
	return merged
}

// x is the place of a time. It never falls as time goes on.
func (s timeScale) x(t time.Time) float64 {
	before := s.stretches[0].x0
	for _, st := range s.stretches {
		if t.Before(st.from) {
			return (before + st.x0) / 2 // in a gap; before everything both are the same
		}
		if !t.After(st.to) {
			if st.length() == 0 {
				return st.x0
			}
			return st.x0 + (st.x1-st.x0)*float64(t.Sub(st.from))/float64(st.length())
		}
		before = st.x1
	}
	return before
}

// tickSteps are the distances that ticks may have.
var tickSteps = [...]time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// ticks are round times in a stretch, at least apart from each other.
func (st stretch) ticks(apart float64) (step time.Duration, times []time.Time) {
	if st.length() <= 0 {
		return 0, nil
	}
	perSecond := (st.x1 - st.x0) / st.length().Seconds()
	for _, step = range tickSteps {
		if step.Seconds()*perSecond >= apart {
			break
		}
	}
	if step.Seconds()*perSecond < apart {
		return step, nil
	}
	for t := st.from.UTC().Truncate(step); !t.After(st.to); t = t.Add(step) {
		if !t.Before(st.from) {
			times = append(times, t)
		}
	}
	return step, times
}
