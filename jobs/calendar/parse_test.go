package calendar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/calendar"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for expression, fixed := range map[string]bool{
		"0 6 * * 1": true, "30 0 6 * * 1": true, "0 8-18/2 * * MON-FRI": true, "* 0-23 * * *": true, "@daily": true, "@Weekly": true, "@midnight": true,
		"@yearly": true, "@annually": true, "@monthly": true, " 0  6 * * 1 ": true, "0 0 29 2 *": true, "0 0 31 2 1": true,
		"* * * * *": false, "*/10 * * * * *": false, "0 */2 * * *": false, "15 ? * * ?": false, "@hourly": false, "0 1,*/6 * * *": false,
	} {
		c, err := calendar.Parse(expression)
		if err != nil || c.Fixed() != fixed {
			t.Errorf("%q: fixed %t, %v", expression, c.Fixed(), err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for expression, why := range map[string]string{
		"": "is empty", "  ": "is empty", "0 6 * *": "has 4 fields", "0 0 0 6 * * 1": "has 7 fields", "61 * * * *": "minute field", "0 24 * * *": "hour field",
		"60 * * * * *": "seconds field", "0 0 0 * *": "day of month field", "0 0 * 13 *": "month field", "0 0 * * 7": "Sunday is 0", "0 0 * * FUNDAY": "day of week field",
		"0 0 31 2 *": "never comes", "0 0 31 4,6,9,11 *": "never comes", ", * * * *": "beside a comma", "1, * * * *": "beside a comma", "1,,2 * * * *": "beside a comma",
		"*/0 * * * *": "minute field", "5-1 * * * *": "minute field", "0 0 L * *": "day of month field", "@every 5m": "no time of day", "@everything": "no time of day",
		"@fortnightly": "is not one of", "@reboot": "no time of day", "TZ=UTC 0 6 * * *": "zone", "CRON_TZ=UTC 0 6 * * *": "zone", "TZ=": "zone",
		strings.Repeat("1,", 200) + "1 * * * *": "characters",
	} {
		if _, err := calendar.Parse(expression); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", expression, err, why)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0 6 * * 1", "*/5 * * * * *", "@daily", "0 0 29 2 *", "TZ=", "@every 1s", "1-2-3 * * * *"} {
		f.Add(seed, int64(1_774_745_999))
	}
	berlin := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, expression string, seconds int64) {
		c, err := calendar.Parse(expression)
		if err != nil {
			return
		}
		at := time.Unix(seconds%(1<<33), 0)
		next, ok := c.Next(at, berlin)
		if !ok || !next.At.After(at) {
			t.Fatalf("%q after %s comes %+v, %t", expression, at, next, ok)
		}
		if prev, ok := c.Prev(next.At.Add(1), berlin); !ok || prev != next {
			t.Fatalf("%q: %+v, and looking back %+v", expression, next, prev)
		}
	})
}
