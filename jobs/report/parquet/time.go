package parquet

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

var (
	errNoDate    = errors.New("is no date such as 2026-01-31")
	errNoInstant = errors.New("is no time with an offset such as 2026-01-31 09:30:00+01")
	errNoLocal   = errors.New("is no local time such as 2026-01-31 09:30:00")
	errNoTime    = errors.New("is no time of a day such as 09:30:00")
)

func isInfinite(v []byte) bool {
	s := string(v)
	return s == "infinity" || s == "-infinity"
}

// parseStamp also refuses what the shape of a stamp allows and no calendar has.
func parseStamp(v []byte) (tabular.Stamp, bool) {
	s, ok := tabular.ParseStamp(v)
	if !ok || s.Hour > 23 || s.Minute > 59 || s.Second > 59 {
		return s, false
	}
	return s, s.Day <= 28 || s.Day <= daysOf(s.Year, s.Month)
}

func daysOf(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// appendDate writes the days since 1970.
func appendDate(dst, v []byte) ([]byte, tabular.Note, error) {
	s, ok := parseStamp(v)
	if !ok || s.HasTime {
		if isInfinite(v) {
			return nil, tabular.NoteNoValue, nil
		}
		return nil, "", errNoDate
	}
	days := s.UnixDays()
	if days < math.MinInt32 || days > math.MaxInt32 {
		return nil, tabular.NoteNoValue, nil
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(days)), "", nil
}

// appendInstant writes the microseconds since 1970 in UTC.
func appendInstant(dst, v []byte) ([]byte, tabular.Note, error) {
	s, ok := parseStamp(v)
	if !ok || !s.HasZone {
		if isInfinite(v) {
			return nil, tabular.NoteNoValue, nil
		}
		return nil, "", errNoInstant
	}
	return appendMicros(dst, s, s.UnixMicros())
}

// appendLocalTime writes the microseconds between 1970 and the time, both as a clock shows them.
func appendLocalTime(dst, v []byte) ([]byte, tabular.Note, error) {
	s, ok := parseStamp(v)
	if !ok || !s.HasTime || s.HasZone {
		if isInfinite(v) {
			return nil, tabular.NoteNoValue, nil
		}
		return nil, "", errNoLocal
	}
	return appendMicros(dst, s, s.LocalMicros())
}

// appendMicros writes what 64 bits can count: PostgreSQL, which counts from 2000,
// goes on to the year 294276, 30 years further. There, micros has overflowed.
func appendMicros(dst []byte, s tabular.Stamp, micros int64) ([]byte, tabular.Note, error) {
	const lastYear = 294246
	if s.Year > lastYear || s.Year < -lastYear {
		return nil, tabular.NoteNoValue, nil
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(micros)), "", nil
}

// appendTime writes the microseconds since midnight. 24:00:00, which PostgreSQL
// has, is none of the day's times to readers.
func appendTime(dst, v []byte) ([]byte, tabular.Note, error) {
	if string(v) == "24:00:00" {
		return nil, tabular.NoteNoValue, nil
	}
	micros, ok := parseTime(v)
	if !ok {
		return nil, "", errNoTime
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(micros)), "", nil
}

// parseTime reads 09:30:00 or 09:30:00.123456.
func parseTime(v []byte) (micros int64, ok bool) {
	if len(v) < 8 || v[2] != ':' || v[5] != ':' || len(v) == 9 || len(v) > 15 || (len(v) > 8 && v[8] != '.') {
		return 0, false
	}
	for i := range v {
		if (v[i] < '0' || v[i] > '9') && i != 2 && i != 5 && i != 8 {
			return 0, false
		}
	}
	two := func(i int) int64 { return int64(v[i]-'0')*10 + int64(v[i+1]-'0') }
	hour, minute, second := two(0), two(3), two(6)
	unit := int64(100_000)
	for i := 9; i < len(v); i++ {
		micros += int64(v[i]-'0') * unit
		unit /= 10
	}
	return micros + (hour*3600+minute*60+second)*1_000_000, hour < 24 && minute < 60 && second < 60
}
