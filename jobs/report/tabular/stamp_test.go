package tabular_test

import (
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestParseStamp(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]tabular.Stamp{
		"2026-01-31":                       {Year: 2026, Month: 1, Day: 31},
		"2026-01-31 09:30:05":              {Year: 2026, Month: 1, Day: 31, Hour: 9, Minute: 30, Second: 5, HasTime: true},
		"2026-01-31 09:30:05.12+05:30":     {Year: 2026, Month: 1, Day: 31, Hour: 9, Minute: 30, Second: 5, Micro: 120000, Offset: 19800, HasTime: true, HasZone: true},
		"1800-01-01 00:53:28+00:53:28":     {Year: 1800, Month: 1, Day: 1, Minute: 53, Second: 28, Offset: 3208, HasTime: true, HasZone: true},
		"0044-03-15 BC":                    {Year: -43, Month: 3, Day: 15},
		"0001-12-31 23:59:59.999999-08 BC": {Year: 0, Month: 12, Day: 31, Hour: 23, Minute: 59, Second: 59, Micro: 999999, Offset: -28800, HasTime: true, HasZone: true},
		"294276-12-31 23:59:59":            {Year: 294276, Month: 12, Day: 31, Hour: 23, Minute: 59, Second: 59, HasTime: true},
	} {
		if got, ok := tabular.ParseStamp([]byte(text)); !ok || got != want {
			t.Errorf("%s: %+v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "infinity", "-infinity", "2026-01-31T09:30:05", "2026-1-31", "2026-01-31 09:30", "2026-13-01", "2026-01-31 09:30:05.", "2026-01-31 AD", "26-01-31", "2026-01-31 09:30:05+5"} {
		if got, ok := tabular.ParseStamp([]byte(text)); ok {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestStampArithmetic(t *testing.T) {
	t.Parallel()
	for _, day := range []time.Time{time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2000, 2, 29, 23, 59, 59, 0, time.UTC),
		time.Date(1600, 3, 1, 1, 2, 3, 4000, time.UTC), time.Date(-43, 3, 15, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} {
		s := tabular.Stamp{Year: day.Year(), Month: int(day.Month()), Day: day.Day(), Hour: day.Hour(), Minute: day.Minute(), Second: day.Second(), Micro: day.Nanosecond() / 1000, Offset: 3600}
		if s.LocalMicros() != day.UnixMicro() || s.UnixMicros() != day.UnixMicro()-3600e6 {
			t.Errorf("%s: %d and %d", day, s.LocalMicros(), s.UnixMicros())
		}
	}
}
