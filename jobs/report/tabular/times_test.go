package tabular_test

import (
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestTimesOfPrograms(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{ // RFC 3339, and the clock on the wall
		"2026-01-01 10:00:00.123+00":    {"2026-01-01T10:00:00.123+00:00", "2026-01-01 10:00:00.123"},
		"2026-01-01 10:00:00+07":        {"2026-01-01T10:00:00+07:00", "2026-01-01 10:00:00"},
		"2026-01-01 10:00:00+05:30":     {"2026-01-01T10:00:00+05:30", "2026-01-01 10:00:00"},
		"2026-01-01 10:00:00.123456-03": {"2026-01-01T10:00:00.123456-03:00", "2026-01-01 10:00:00.123456"},
		"0001-01-01 00:00:00+00":        {"0001-01-01T00:00:00+00:00", "0001-01-01 00:00:00"},
	} {
		got, ok := tabular.AppendRFC3339([]byte("x"), []byte(in))
		clock, ok2 := tabular.CutOffset([]byte(in))
		if !ok || !ok2 || string(got) != "x"+want[0] || string(clock) != want[1] {
			t.Errorf("%s: got %s, %t and %s, %t", in, got, ok, clock, ok2)
		}
		if _, err := time.Parse(time.RFC3339Nano, want[0]); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range []string{"", "infinity", "-infinity", "0044-03-15 10:00:00+00 BC", "12026-01-01 10:00:00+00", "1890-01-01 00:00:00-00:01:15", "2026-01-01T10:00:00Z",
		"2026-01-01 10:00:00", "2026-01-01 10:00:00.+00", "2026-01-01 10:00:00+0x", "2026-01-01 10:00:00+", "2026-01-01 10:00:00+05:3", "2026-01-01 10:00:00+05-30", "2026-01-01 10:00:00 00", "2026-0a-01 10:00:00+00"} {
		got, ok := tabular.AppendRFC3339([]byte("x"), []byte(in))
		clock, ok2 := tabular.CutOffset([]byte(in))
		if ok || ok2 || string(got) != "x" || clock != nil {
			t.Errorf("%q: got %s, %t and %s, %t", in, got, ok, clock, ok2)
		}
	}
}

func TestAppendLocalTime(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"2026-01-31 09:30:00": "2026-01-31T09:30:00", "2026-01-31 09:30:00.5": "2026-01-31T09:30:00.5", "infinity": "", "2026-01-31 09:30:00+00": "", "2026-01-31": "", "0044-03-15 10:00:00 BC": ""} {
		if got, ok := tabular.AppendLocalTime(nil, []byte(in)); ok != (want != "") || string(got) != want {
			t.Errorf("%s: got %s, %t", in, got, ok)
		}
	}
}

func TestAmbiguous(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	watch := tabular.NewClockWatch(berlin)
	for _, tt := range []struct {
		in   string
		want bool
	}{
		{"2024-10-27 01:59:59.999999+02", false}, {"2024-10-27 02:00:00+02", true}, {"2024-10-27 02:30:00+02", true}, {"2024-10-27 02:59:59+02", true},
		{"2024-10-27 02:00:00+01", true}, {"2024-10-27 02:59:59.9+01", true}, {"2024-10-27 03:00:00+01", false}, {"2024-03-31 01:59:59+01", false}, {"2024-03-31 03:00:00+02", false},
		{"2024-10-27 02:30:00+02", true}, {"1960-01-01 02:30:00+01", false}, {"2400-10-29 02:30:00+02", true},
	} {
		s, ok := tabular.ParseStamp([]byte(tt.in))
		if got := watch.Ambiguous(s); !ok || got != tt.want {
			t.Errorf("%s: got %t", tt.in, got)
		}
	}
}

// TestAmbiguousIsWhatTheClocksShow compares with a search for instants that show
// the same time.
func TestAmbiguousIsWhatTheClocksShow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca"} {
		z, found := zone(t, name), 0
		watch := tabular.NewClockWatch(z)
		for at := time.Date(2011, 1, 1, 0, 15, 0, 0, time.UTC); at.Year() < 2012; at = at.Add(30 * time.Minute) {
			want := shownTwice(at, z)
			if want {
				found++
			}
			if got := watch.Ambiguous(stampOf(at.In(z))); got != want {
				t.Fatalf("%s: got %t", at.In(z), got)
			}
		}
		if changes := name != "UTC" && name != "Asia/Kolkata"; changes != (found > 0) {
			t.Errorf("%s: %d ambiguous times", name, found)
		}
	}
	if tabular.NewClockWatch(nil).Ambiguous(stampOf(time.Unix(0, 0).UTC())) {
		t.Error("UTC is never set back")
	}
}

// shownTwice looks for another instant with the same local time.
func shownTwice(at time.Time, z *time.Location) bool {
	for shift := -2 * time.Hour; shift <= 2*time.Hour; shift += 30 * time.Minute {
		if other := at.Add(shift); shift != 0 && wallClock(other, z) == wallClock(at, z) {
			return true
		}
	}
	return false
}

func wallClock(at time.Time, z *time.Location) int64 {
	_, offset := at.In(z).Zone()
	return at.Unix() + int64(offset)
}

func stampOf(at time.Time) tabular.Stamp {
	_, offset := at.Zone()
	return tabular.Stamp{Year: at.Year(), Month: int(at.Month()), Day: at.Day(), Hour: at.Hour(), Minute: at.Minute(), Second: at.Second(), Offset: offset, HasTime: true, HasZone: true}
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
