package calendar

import (
	"math/bits"
	"time"
)

// A wall is what a clock on the wall shows, without saying where: the seconds
// since 1970 of a clock that knows no zones. UTC's calendar serves to reckon with it.
type wall = int64

const day = 24 * 60 * 60

// farthest is for how many days a matching one is looked for. Of those that there
// are the rarest, such as 1 August on a Tuesday, stay away for twelve years.
const farthest = 13 * 366

// ceil is the first matching wall from w on.
func (c Cron) ceil(w wall) (wall, bool) {
	d, clock := floorDiv(w, day)
	for end := d + farthest; d < end; clock = 0 {
		matches, _, after := c.dayMatches(d)
		if matches {
			if at, ok := c.clockCeil(clock); ok {
				return d*day + at, true
			}
		}
		d = after
	}
	return 0, false
}

// floor is the last matching wall up to w.
func (c Cron) floor(w wall) (wall, bool) {
	d, clock := floorDiv(w, day)
	for end := d - farthest; d > end; clock = day - 1 {
		matches, before, _ := c.dayMatches(d)
		if matches {
			if at, ok := c.clockFloor(clock); ok {
				return d*day + at, true
			}
		}
		d = before
	}
	return 0, false
}

// dayMatches reports whether a day matches, and which days before and after it are
// worth a look: its neighbours, or those of its month.
func (c Cron) dayMatches(d int64) (matches bool, before, after int64) {
	t := time.Unix(d*day, 0).UTC()
	year, month, n := t.Date()
	if !has(c.month, int64(month)) {
		return false, d - int64(n), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Unix() / day
	}
	dom, dow := has(c.dom, int64(n)), has(c.dow, int64(t.Weekday()))
	return c.eitherDay && (dom || dow) || dom && dow, d - 1, d + 1
}

// clockCeil is the first matching time of day from s seconds after midnight on.
func (c Cron) clockCeil(s int64) (int64, bool) {
	h, m, sec := s/3600, s/60%60, s%60
	if has(c.hour, h) {
		if has(c.minute, m) {
			if at, ok := next(c.second, sec); ok {
				return h*3600 + m*60 + at, true
			}
		}
		if at, ok := next(c.minute, m+1); ok {
			return h*3600 + at*60 + first(c.second), true
		}
	}
	if at, ok := next(c.hour, h+1); ok {
		return at*3600 + first(c.minute)*60 + first(c.second), true
	}
	return 0, false
}

// clockFloor is the last matching time of day up to s seconds after midnight.
func (c Cron) clockFloor(s int64) (int64, bool) {
	h, m, sec := s/3600, s/60%60, s%60
	if has(c.hour, h) {
		if has(c.minute, m) {
			if at, ok := prev(c.second, sec); ok {
				return h*3600 + m*60 + at, true
			}
		}
		if at, ok := prev(c.minute, m-1); ok {
			return h*3600 + at*60 + last(c.second), true
		}
	}
	if at, ok := prev(c.hour, h-1); ok {
		return at*3600 + last(c.minute)*60 + last(c.second), true
	}
	return 0, false
}

// values are the bits of a field without the parser's mark for a star.
const values = 1<<60 - 1

func has(field uint64, n int64) bool { return field>>uint(n)&1 == 1 }

// next is the least value of a field from n on, prev the greatest up to n.
func next(field uint64, n int64) (int64, bool) {
	left := field & values >> uint(n) << uint(n)
	return int64(bits.TrailingZeros64(left)), left != 0
}

func prev(field uint64, n int64) (int64, bool) {
	if n < 0 {
		return 0, false
	}
	left := field & values & (1<<uint(n+1) - 1)
	return int64(bits.Len64(left)) - 1, left != 0
}

func first(field uint64) int64 { return int64(bits.TrailingZeros64(field & values)) }
func last(field uint64) int64  { return int64(bits.Len64(field&values)) - 1 }

func floorDiv(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		return quotient - 1, rest + b
	}
	return quotient, rest
}
