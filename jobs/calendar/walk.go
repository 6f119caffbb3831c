package calendar

import "time"

// Fire is a time at which an expression comes.
type Fire struct {
	// At is the instant, in the zone.
	At time.Time
	// Local is the local time that was meant, as a time in UTC that shows it: days and
	// months are to be reckoned from it. It differs from what At shows when a gap
	// skipped it; of several that one gap skipped it is the last.
	Local time.Time
	// Key names the fire among all those of its expression, whoever works them out and
	// whatever rules of time zones they have: the local time and zone for a fixed hour
	// (2026-03-29T02:30:00[Europe/Berlin], in the form of RFC 9557), the instant
	// otherwise (2026-10-25T00:30:00Z).
	Key string
}

// Next is the first fire after an instant, false when there is none within twelve years.
func (c Cron) Next(after time.Time, zone *time.Location) (Fire, bool) {
	if c.elapsed {
		return c.nextElapsed(after, zone)
	}
	w, ok := c.ceil(reached(after, zone))
	if !ok {
		return Fire{}, false
	}
	return c.fixed(comes(w, zone), zone)
}

// Prev is the last fire before an instant, false when there is none within twelve years.
func (c Cron) Prev(before time.Time, zone *time.Location) (Fire, bool) {
	if c.elapsed {
		return c.prevElapsed(before, zone)
	}
	// What the clock had reached a nanosecond before has come.
	w, ok := c.floor(reached(before.Add(-1), zone) - 1)
	if !ok {
		return Fire{}, false
	}
	return c.fixed(comes(w, zone), zone)
}

// fixed is the fire at an instant at which a local time comes.
func (c Cron) fixed(at time.Time, zone *time.Location) (Fire, bool) {
	w, ok := c.floor(show(at))
	local := time.Unix(w, 0).UTC()
	return Fire{At: at, Local: local, Key: local.Format("2006-01-02T15:04:05") + "[" + zone.String() + "]"}, ok
}

func (c Cron) nextElapsed(after time.Time, zone *time.Location) (Fire, bool) {
	limit := after.AddDate(12, 0, 0)
	for from := after.Truncate(0).In(zone).Add(time.Second - time.Duration(after.Nanosecond())); from.Before(limit); {
		w, ok := c.ceil(show(from))
		if !ok {
			return Fire{}, false
		}
		at := from.Add(time.Duration(w-show(from)) * time.Second)
		end := until(from)
		if end.IsZero() || at.Before(end) {
			return elapsed(at, w), true
		}
		from = end
	}
	return Fire{}, false
}

func (c Cron) prevElapsed(before time.Time, zone *time.Location) (Fire, bool) {
	limit := before.AddDate(-12, 0, 0)
	from := before.Add(-1).In(zone)
	for from = from.Add(-time.Duration(from.Nanosecond())); from.After(limit); {
		w, ok := c.floor(show(from))
		if !ok {
			return Fire{}, false
		}
		at := from.Add(-time.Duration(show(from)-w) * time.Second)
		start, _ := from.ZoneBounds()
		if start.IsZero() || !at.Before(start) {
			return elapsed(at, w), true
		}
		from = start.Add(-time.Second)
	}
	return Fire{}, false
}

func elapsed(at time.Time, w wall) Fire {
	return Fire{At: at, Local: time.Unix(w, 0).UTC(), Key: at.UTC().Format(time.RFC3339)}
}

// show is what the clock on the wall shows at an instant in its zone.
func show(t time.Time) wall {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}

// until is an instant after t up to which the zone's offset stays as it is; zero when
// it stays for ever. Past the end of a zone's table, ZoneBounds counts 365 days for
// every year, so that on the last day of a leap year the end lies behind t.
func until(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		return t.Add(time.Hour)
	}
	return end
}

// memory is for how long a clock that was put back is remembered to have been
// ahead: no zone has repeated more than a day.
const memory = 48 * time.Hour

// reached is the first wall that the clock of a zone has not reached yet at an
// instant, wherever it was put back before.
func reached(t time.Time, zone *time.Location) wall {
	t = t.In(zone)
	ahead := show(t) + 1
	for start, _ := t.ZoneBounds(); !start.IsZero() && t.Sub(start) < memory; {
		before := start.Add(-time.Second).In(zone)
		// The second before the change was shown to its end, the next was not.
		ahead = max(ahead, show(before)+1)
		start, _ = before.ZoneBounds()
	}
	return ahead
}

// comes is the first instant at which the clock of a zone has reached a wall.
func comes(w wall, zone *time.Location) time.Time {
	t := time.Unix(w, 0).Add(-memory).In(zone) // no clock is so far ahead that it shows w here
	for {
		_, offset := t.Zone()
		at := time.Unix(w-int64(offset), 0).In(zone)
		if at.Before(t) { // the clock was put forward over it: here it has it behind
			return t
		}
		end := until(t)
		if end.IsZero() || at.Before(end) {
			return at
		}
		t = end.In(zone)
	}
}
