package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests are about these rules, wherever they run

	"github.com/fenceline/fenceline/jobs/calendar"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func parse(t testing.TB, expression string) calendar.Cron {
	t.Helper()
	c, err := calendar.Parse(expression)
	if err != nil {
		t.Fatalf("%q %v", expression, err)
	}
	return c
}

// fires lists what comes after from and before to, as the local time with its offset; a
// local time that was meant and did not exist stands behind it in parentheses.
func fires(c calendar.Cron, loc *time.Location, from, to time.Time) (list []string) {
	const show = "01-02T15:04:05-07:00"
	for f, ok := c.Next(from, loc); ok && f.At.Before(to); f, ok = c.Next(f.At, loc) {
		text := strings.TrimSuffix(f.At.Format(show), ":00")
		if meant := f.Local.Format("01-02T15:04:05"); meant != f.At.Format("01-02T15:04:05") {
			text += " (" + meant + ")"
		}
		list = append(list, text)
	}
	return list
}

func TestClockChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, zone, cron, from, to string // local times of which there is only one
		want                       string // the fires, with " | " between them
	}{
		{"fixed, skipped", "Europe/Berlin", "30 2 * * *", "2026-03-28T00:00", "2026-03-31T00:00", "03-28T02:30:00+01 | 03-29T03:00:00+02 (03-29T02:30:00) | 03-30T02:30:00+02"},
		{"fixed, several skipped by one gap", "Europe/Berlin", "0,15,30 2 * * *", "2026-03-29T00:00", "2026-03-30T00:00", "03-29T03:00:00+02 (03-29T02:30:00)"},
		{"fixed, skipped where it comes anyway", "Europe/Berlin", "0 1-4 * * *", "2026-03-29T00:00", "2026-03-30T00:00", "03-29T01:00:00+01 | 03-29T03:00:00+02 | 03-29T04:00:00+02"},
		{"fixed, beside the gap", "Europe/Berlin", "59 59 1 * * *", "2026-03-29T00:00", "2026-03-30T00:00", "03-29T01:59:59+01"},
		{"fixed, repeated", "Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", "2026-10-27T00:00", "10-25T02:30:00+02 | 10-26T02:30:00+01"},
		{"fixed, at the change itself", "Europe/Berlin", "0 3 * * *", "2026-10-25T00:00", "2026-10-26T00:00", "10-25T03:00:00+01"},
		{"every half hour, repeated", "Europe/Berlin", "*/30 * * * *", "2026-10-25T01:40", "2026-10-25T03:10", "10-25T02:00:00+02 | 10-25T02:30:00+02 | 10-25T02:00:00+01 | 10-25T02:30:00+01 | 10-25T03:00:00+01"},
		{"every hour, in the gap", "Europe/Berlin", "30 * * * *", "2026-03-29T01:00", "2026-03-29T05:00", "03-29T01:30:00+01 | 03-29T03:30:00+02 | 03-29T04:30:00+02"},
		{"every two hours, in the gap", "Europe/Berlin", "0 */2 * * *", "2026-03-28T23:00", "2026-03-29T07:00", "03-29T00:00:00+01 | 03-29T04:00:00+02 | 03-29T06:00:00+02"},
		{"fixed, skipped", "America/New_York", "30 2 * * *", "2026-03-08T00:00", "2026-03-09T00:00", "03-08T03:00:00-04 (03-08T02:30:00)"},
		{"fixed, repeated", "America/New_York", "30 1 * * *", "2026-11-01T00:00", "2026-11-02T00:00", "11-01T01:30:00-04"},
		{"every hour, repeated", "America/New_York", "30 * * * *", "2026-11-01T00:45", "2026-11-01T03:00", "11-01T01:30:00-04 | 11-01T01:30:00-05 | 11-01T02:30:00-05"},
		{"fixed, half an hour skipped", "Australia/Lord_Howe", "15,45 2 * * *", "2026-10-04T00:00", "2026-10-05T00:00", "10-04T02:30:00+11 (10-04T02:15:00) | 10-04T02:45:00+11"},
		{"fixed, half an hour repeated", "Australia/Lord_Howe", "45 1 * * *", "2026-04-05T00:00", "2026-04-06T00:00", "04-05T01:45:00+11"},
		{"every quarter, half an hour repeated", "Australia/Lord_Howe", "*/15 * * * *", "2026-04-05T01:20", "2026-04-05T02:20", "04-05T01:30:00+11 | 04-05T01:45:00+11 | 04-05T01:30:00+10:30 | 04-05T01:45:00+10:30 | 04-05T02:00:00+10:30 | 04-05T02:15:00+10:30"},
		{"no midnight", "America/Sao_Paulo", "@daily", "2018-11-03T12:00", "2018-11-05T12:00", "11-04T01:00:00-02 (11-04T00:00:00) | 11-05T00:00:00-02"},
		{"an hour of yesterday again", "America/Sao_Paulo", "30 23 * * *", "2018-02-17T12:00", "2018-02-18T12:00", "02-17T23:30:00-02"},
		{"midnight after an hour of yesterday again", "America/Sao_Paulo", "@daily", "2018-02-17T12:00", "2018-02-18T12:00", "02-18T00:00:00-03"},
		{"a whole day skipped", "Pacific/Apia", "0 9 * * *", "2011-12-29T00:00", "2012-01-01T00:00", "12-29T09:00:00-10 | 12-31T00:00:00+14 (12-30T09:00:00) | 12-31T09:00:00+14"},
		{"the day of the month skipped", "Pacific/Apia", "0 9 30 12 *", "2011-12-01T00:00", "2012-12-31T00:00", "12-31T00:00:00+14 (12-30T09:00:00) | 12-30T09:00:00+14"},
		{"every six hours, a whole day skipped", "Pacific/Apia", "0 */6 * * *", "2011-12-29T17:00", "2011-12-31T07:00", "12-29T18:00:00-10 | 12-31T00:00:00+14 | 12-31T06:00:00+14"},
		{"the fast begins", "Africa/Casablanca", "30 2 * * *", "2026-02-14T12:00", "2026-02-16T12:00", "02-15T02:30:00+01 | 02-16T02:30:00+00"},
		{"the fast ends", "Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00", "2026-03-23T12:00", "03-22T03:00:00+01 (03-22T02:30:00) | 03-23T02:30:00+01"},
		{"every second", "UTC", "* * * * * *", "2026-01-01T00:00", "2026-01-01T00:01", ""},
	} {
		loc := zone(t, tt.zone)
		from, err1 := time.ParseInLocation("2006-01-02T15:04", tt.from, loc)
		to, err2 := time.ParseInLocation("2006-01-02T15:04", tt.to, loc)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		got := fires(parse(t, tt.cron), loc, from, to)
		if tt.want == "" {
			if len(got) != 59 {
				t.Errorf("%s: %d fires", tt.name, len(got))
			}
		} else if text := strings.Join(got, " | "); text != tt.want {
			t.Errorf("%s in %s: %s\n got %s\nwant %s", tt.name, tt.zone, tt.cron, text, tt.want)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	for _, tt := range []struct{ cron, after, key string }{
		{"30 2 * * *", "2026-03-29T00:00:00Z", "2026-03-29T02:30:00[Europe/Berlin]"}, // does not exist
		{"30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00[Europe/Berlin]"},
		{"30 * * * *", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"}, // 02:30 in summer
		{"30 * * * *", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"}, // 02:30 in winter
	} {
		after, err := time.Parse(time.RFC3339, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := parse(t, tt.cron).Next(after, berlin); !ok || f.Key != tt.key {
			t.Errorf("%s after %s is %q, want %q", tt.cron, tt.after, f.Key, tt.key)
		}
	}
}

// shown is what a clock shows, to the minute.
type shown struct {
	month     time.Month
	day, h, m int
	weekday   time.Weekday
}

// grid is the step of the walk, in seconds: clocks change and the expressions come on it.
// What came beside it would be missed on it.
const grid = 300

// showing is what a clock shows that counts steps since 1970 and knows no zones.
func showing(step int64) shown {
	t := time.Unix(grid*step, 0).UTC()
	return shown{t.Month(), t.Day(), t.Hour(), t.Minute(), t.Weekday()}
}

// expectation is an expression with its meaning told a second time.
type expectation struct {
	cron    string
	fixed   bool
	matches func(shown) bool
}

func expectations() []expectation {
	at := func(h, m int) func(shown) bool {
		return func(l shown) bool { return l.h == h && l.m == m }
	}
	return []expectation{
		{"30 2 * * *", true, at(2, 30)},
		{"30 1 * * *", true, at(1, 30)},
		{"15,45 0-3 * * *", true, func(l shown) bool { return l.h <= 3 && (l.m == 15 || l.m == 45) }},
		{"@daily", true, at(0, 0)},
		{"0 3 1 * *", true, func(l shown) bool { return l.day == 1 && at(3, 0)(l) }},
		{"0 9 30 12 *", true, func(l shown) bool { return l.month == 12 && l.day == 30 && at(9, 0)(l) }},
		{"0 12 13 * FRI", true, func(l shown) bool { return (l.day == 13 || l.weekday == time.Friday) && at(12, 0)(l) }},
		{"0 2 */2 * SUN", true, func(l shown) bool { return l.day%2 == 1 && l.weekday == time.Sunday && at(2, 0)(l) }},
		{"0 0 29 2 *", true, func(l shown) bool { return l.month == 2 && l.day == 29 && at(0, 0)(l) }},
		{"*/10 * * * *", false, func(l shown) bool { return l.m%10 == 0 }},
		{"30 */2 * * *", false, func(l shown) bool { return l.h%2 == 0 && l.m == 30 }},
		{"45 * * * SUN", false, func(l shown) bool { return l.weekday == time.Sunday && l.m == 45 }},
	}
}

// No fire is lost, doubled or made up over ten years: every five minutes are looked at, and
// what the clock on the wall shows is compared with the meaning of each expression.
func TestTenYears(t *testing.T) {
	t.Parallel()
	for name, year := range map[string]int{
		"Europe/Berlin": 2020, "America/New_York": 2020, "Australia/Lord_Howe": 2020, "America/Sao_Paulo": 2010, "Pacific/Apia": 2009, "Africa/Casablanca": 2020,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+10, 1, 1, 0, 0, 0, 0, time.UTC)
			walkMinutes(t, zone(t, name), from, to)
		})
	}
}

// follower compares an expression with its meaning.
type follower struct {
	expectation
	parsed calendar.Cron
	next   calendar.Fire
	ok     bool
	n      int
}

// walkMinutes walks from step to step. A fixed expression comes when the clock
// has passed over a time that matches and that it had never reached before.
func walkMinutes(t *testing.T, loc *time.Location, from, to time.Time) {
	t.Helper()
	var all []*follower
	for _, e := range expectations() {
		f := &follower{expectation: e, parsed: parse(t, e.cron)}
		f.next, f.ok = f.parsed.Next(from, loc)
		all = append(all, f)
	}
	_, offset := from.In(loc).Zone()
	highest := (from.Unix() + int64(offset)) / grid
	for at := from.Unix() + grid; at < to.Unix(); at += grid {
		_, offset := time.Unix(at, 0).In(loc).Zone()
		minute := (at + int64(offset)) / grid
		var passed []shown
		for highest < minute {
			highest++
			passed = append(passed, showing(highest))
		}
		now := showing(minute)
		for _, f := range all {
			due := !f.fixed && f.matches(now)
			for _, p := range passed {
				due = due || f.fixed && f.matches(p)
			}
			f.look(t, loc, at, due)
		}
	}
	for _, f := range all {
		if f.n < 2 {
			t.Errorf("%s in %s came %d times", f.cron, loc, f.n)
		}
	}
}

// look compares at one step, and goes on when the expression has come.
func (f *follower) look(t *testing.T, loc *time.Location, at int64, due bool) {
	if came := f.ok && f.next.At.Unix() == at; came != due {
		t.Fatalf("%s in %s at %s: came %t, should %t (next is %s)", f.cron, loc, time.Unix(at, 0).In(loc), came, due, f.next.At)
	}
	if !due {
		return
	}
	f.n++
	if f.fixed || f.n%97 == 1 {
		if back, found := f.parsed.Prev(time.Unix(at, 1), loc); !found || back != f.next {
			t.Fatalf("%s in %s came %+v, looking back there is %+v", f.cron, loc, f.next, back)
		}
	}
	f.next, f.ok = f.parsed.Next(time.Unix(at, 0), loc)
}

// What holds for every expression, zone and instant.
func TestNextRises(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 42))
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "UTC", "America/St_Johns", "Asia/Kathmandu", "Antarctica/Troll"}
	for range 600 {
		name := zones[r.IntN(len(zones))]
		loc, expression := zone(t, name), randomExpression(r)
		c, err := calendar.Parse(expression)
		if err != nil {
			continue // such as 30 February
		}
		start := time.Date(2005+r.IntN(30), 1, 1+r.IntN(365), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(2)*r.IntN(1e9), time.UTC)
		at, keys := start, map[string]bool{}
		var before calendar.Fire
		for i := range 20 {
			next, ok := c.Next(at, loc)
			if !ok || !next.At.After(at) || next.At.Nanosecond() != 0 || keys[next.Key] {
				t.Fatalf("%q in %s after %s: %+v, %t", expression, name, at, next, ok)
			}
			keys[next.Key] = true
			if between, ok := c.Next(at.Add(next.At.Sub(at)/2), loc); !ok || between != next {
				t.Fatalf("%q in %s: from half-way to %+v comes %+v", expression, name, next, between)
			}
			if same, ok := c.Prev(next.At.Add(1), loc); !ok || same != next {
				t.Fatalf("%q in %s: %+v, and looking back from there %+v", expression, name, next, same)
			}
			if prev, ok := c.Prev(next.At, loc); ok && (i > 0 && prev != before || prev.At.After(at)) {
				t.Fatalf("%q in %s: before %+v was %+v, but looking back %+v", expression, name, next, before, prev)
			}
			at, before = next.At, next
		}
	}
}

func randomExpression(r *rand.Rand) string {
	field := func(low, high int) string {
		n := low + r.IntN(high-low+1)
		switch r.IntN(6) {
		case 0:
			return fmt.Sprint(n)
		case 1:
			return fmt.Sprintf("%d-%d", low, n)
		case 2:
			return fmt.Sprintf("*/%d", 1+r.IntN(high))
		case 3:
			return fmt.Sprintf("%d,%d", n, low+r.IntN(high-low+1))
		}
		return "*"
	}
	return strings.Join([]string{field(0, 59), field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)}, " ")
}
