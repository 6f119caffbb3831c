package xlsx

import (
	"math/bits"
	"strconv"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Days of Excel's calendar, as serial numbers. It has a 29 February 1900, so that
// earlier days are not what other programs take them for.
const (
	unixEpoch = 25_569    // 1970-01-01
	firstDay  = 61        // 1900-03-01
	lastDay   = 2_958_465 // 9999-12-31
)

// addMoment adds a date or a time as what clocks in the run's zone show.
func (e *encoder) addMoment(i int, row int64, v []byte) error {
	c := &e.columns[i]
	s, ok := tabular.ParseStamp(v)
	if isInfinity(v) {
		return e.addInstead(i, row, v, tabular.NoteTimeAsText)
	}
	if !ok || !exists(s) || s.HasTime != (c.kind == timeCell) || s.HasZone != c.zoned {
		return e.notes.Refuse(i, row, v, "is not what PostgreSQL writes for a "+c.moment())
	}
	day := s.UnixDays() + unixEpoch
	if day < firstDay || day > lastDay {
		e.scratch = c.appendISO(e.scratch[:0], v)
		return e.addInstead(i, row, e.scratch, tabular.NoteTimeAsText)
	}
	style := c.style
	if s.Micro != 0 {
		style = c.fraction
	}
	e.begin(i, style)
	e.buf = append(e.buf, `><v>`...)
	e.buf = appendSerial(e.buf, day, s)
	e.buf = append(e.buf, `</v></c>`...)
	if c.zoned && e.watch.Ambiguous(s) {
		return e.notes.Add(i, tabular.NoteAmbiguousTime, row)
	}
	return nil
}

func isInfinity(v []byte) bool {
	return string(v) == "infinity" || string(v) == "-infinity"
}

func (c *column) moment() string {
	switch {
	case c.kind == dateCell:
		return "date"
	case c.zoned:
		return "timestamptz"
	}
	return "timestamp"
}

// exists reports whether there is such a day and such a time of a day.
func exists(s tabular.Stamp) bool {
	return s.Day <= daysIn(s.Year, s.Month) && s.Hour < 24 && s.Minute < 60 && s.Second < 60
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// dyadic is the shortest time, in microseconds, of which all multiples are
// exact as binary fractions of a day: 86,400,000,000 without its factors of two.
const dyadic = 27 * 390_625

// appendSerial adds a moment as days since 1899-12-30. Readers make a double of
// them, which can hold few moments exactly. The decimals, of integer arithmetic,
// are those of the next double that is not before the moment: programs that cut
// off what they do not show (LibreOffice did so in 172 of 4,000 times of 1945 to
// 1989) would else show the second before it. It is still the same day.
func appendSerial(dst []byte, day int64, s tabular.Stamp) []byte {
	dst = strconv.AppendInt(dst, day, 10)
	micros := (int64(s.Hour)*3600+int64(s.Minute)*60+int64(s.Second))*1_000_000 + int64(s.Micro)
	if micros == 0 {
		return dst
	}
	const one = 1_000_000_000_000
	n := (micros*10_000 + 863) / 864 // micros / 86,400,000,000 in units of 10⁻¹², rounded up
	if micros%dyadic != 0 {
		exponent := bits.Len64(uint64(day)) - 1
		half, whole := int64(one)>>(53-exponent)+1, int64(one)>>(52-exponent)+1 // steps between doubles
		n = min(n+half, one-whole)
	}
	var digits [13]byte
	digits[0] = '.'
	last := 0
	for k := len(digits) - 1; k > 0; k-- {
		digits[k] = byte('0' + n%10)
		if last == 0 && n%10 != 0 {
			last = k
		}
		n /= 10
	}
	return append(dst, digits[:last+1]...)
}

// appendISO adds a moment that is no cell as ISO 8601, or as PostgreSQL has it
// where that standard has no form: years before 1 and after 9999.
func (c *column) appendISO(dst, v []byte) []byte {
	switch {
	case c.zoned:
		if out, ok := tabular.AppendRFC3339(dst, v); ok {
			return out
		}
	case c.kind == timeCell:
		if out, ok := tabular.AppendLocalTime(dst, v); ok {
			return out
		}
	}
	return append(dst, v...)
}
