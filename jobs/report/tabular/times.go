package tabular

import (
	"math"
	"time"
)

// clockLen is the length of 2026-01-31 09:30:00.
const clockLen = len("2026-01-31 09:30:00")

// AppendRFC3339 adds a timestamptz of PostgreSQL as RFC 3339 with all its digits
// and its offset: 2026-01-31 09:30:00.123+07 is 2026-01-31T09:30:00.123+07:00. It
// reports false, and adds nothing, for all that RFC 3339 cannot hold: infinity,
// years before 1 and after 9999, and offsets with seconds.
func AppendRFC3339(dst, v []byte) ([]byte, bool) {
	end := clockEnd(v)
	if end == 0 {
		return dst, false
	}
	zone := v[end:]
	if !isOffset(zone) {
		return dst, false
	}
	dst = append(dst, v[:10]...)
	dst = append(dst, 'T')
	dst = append(dst, v[11:]...)
	if len(zone) == 3 {
		dst = append(dst, ":00"...)
	}
	return dst, true
}

// AppendLocalTime adds a timestamp of PostgreSQL as ISO 8601 writes it:
// 2026-01-31 09:30:00.5 is 2026-01-31T09:30:00.5. It reports false, and adds
// nothing, for infinity and years before 1 and after 9999.
func AppendLocalTime(dst, v []byte) ([]byte, bool) {
	if end := clockEnd(v); end == 0 || end != len(v) {
		return dst, false
	}
	dst = append(dst, v[:10]...)
	dst = append(dst, 'T')
	return append(dst, v[11:]...), true
}

// CutOffset is what the clock on the wall shows, 2026-01-31 09:30:00.123, for a
// timestamptz of PostgreSQL. It reports false where [AppendRFC3339] does. The
// result is a part of v.
func CutOffset(v []byte) ([]byte, bool) {
	end := clockEnd(v)
	if end == 0 || !isOffset(v[end:]) {
		return nil, false
	}
	return v[:end], true
}

// isOffset accepts +07 and +05:30.
func isOffset(v []byte) bool {
	if len(v) != 3 && len(v) != 6 || v[0] != '+' && v[0] != '-' || digits(v[1:]) != 2 {
		return false
	}
	return len(v) == 3 || v[3] == ':' && digits(v[4:]) == 2
}

// clockEnd is the length of 2026-01-31 09:30:00.123 at the start of v, or 0.
func clockEnd(v []byte) int {
	if len(v) < clockLen {
		return 0
	}
	if v[4] != '-' || v[7] != '-' || v[10] != ' ' || v[13] != ':' || v[16] != ':' {
		return 0
	}
	for _, i := range [...]int{0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18} {
		if !isDigit(v[i]) {
			return 0
		}
	}
	if len(v) == clockLen || v[clockLen] != '.' {
		return clockLen
	}
	n := digits(v[clockLen+1:])
	if n == 0 {
		return 0
	}
	return clockLen + 1 + n
}

// ClockWatch finds the local times of a zone that its clocks showed twice,
// because they were set back in between. It is not safe for concurrent use.
type ClockWatch struct {
	zone *time.Location
	// Instants from start to before end have the same offset; in seconds of Unix
	// time.
	start, end int64
	// Local times before first were shown already before start, and those from
	// second on are shown again after end; in seconds as of LocalMicros.
	first, second int64
}

// NewClockWatch begins to watch the clocks of a zone; nil is UTC.
func NewClockWatch(zone *time.Location) *ClockWatch {
	if zone == nil {
		zone = time.UTC
	}
	return &ClockWatch{zone: zone}
}

// Ambiguous reports whether the local time that a timestamptz in the zone shows
// is shown twice there, so that it says nothing certain without its offset.
func (c *ClockWatch) Ambiguous(s Stamp) bool {
	local := s.UnixDays()*86400 + int64(s.Hour)*3600 + int64(s.Minute)*60 + int64(s.Second)
	instant := local - int64(s.Offset)
	if instant < c.start || instant >= c.end {
		c.move(instant)
	}
	return local < c.first || local >= c.second
}

// move takes over the bounds around an instant.
func (c *ClockWatch) move(instant int64) {
	at := time.Unix(instant, 0).In(c.zone)
	offset := offsetOf(at)
	start, end := at.ZoneBounds()
	c.start, c.first = math.MinInt64, math.MinInt64
	c.end, c.second = math.MaxInt64, math.MaxInt64
	if !start.IsZero() {
		c.start = start.Unix()
		if before := offsetOf(start.Add(-time.Second)); before > offset {
			c.first = c.start + before
		}
	}
	if !end.IsZero() {
		c.end = end.Unix()
		if after := offsetOf(end); after < offset {
			c.second = c.end + after
		}
	}
}

func offsetOf(t time.Time) int64 {
	_, offset := t.Zone()
	return int64(offset)
}
