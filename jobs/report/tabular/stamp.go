package tabular

// Stamp is a date, or a date and time, taken apart. Years follow ISO 8601: 0 is
// 1 BC, as in the proleptic Gregorian calendar that PostgreSQL uses, too.
type Stamp struct {
	Year             int
	Month, Day       int
	Hour, Minute     int
	Second           int
	Micro            int // microseconds
	Offset           int // seconds east of UTC; of a timestamptz
	HasTime, HasZone bool
}

// ParseStamp reads PostgreSQL's text of a date, timestamp or timestamptz:
// 2026-01-31, 2026-01-31 09:30:00.123456+05:30, 0044-03-15 BC. It reports false
// for infinity and for everything of another shape.
func ParseStamp(v []byte) (Stamp, bool) {
	var s Stamp
	p := stampReader{v: v}
	s.Year = p.number(4, 7)
	s.Month = p.after('-', 2)
	s.Day = p.after('-', 2)
	if p.peek() == ' ' && p.at+1 < len(v) && isDigit(v[p.at+1]) {
		s.HasTime = true
		s.Hour = p.after(' ', 2)
		s.Minute = p.after(':', 2)
		s.Second = p.after(':', 2)
		s.Micro = p.fraction()
		s.HasZone = p.peek() == '+' || p.peek() == '-'
		s.Offset = p.offset()
	}
	if p.at+3 == len(v) && string(v[p.at:]) == " BC" {
		s.Year, p.at = 1-s.Year, len(v)
	}
	ok := !p.bad && p.at == len(v) && s.Month >= 1 && s.Month <= 12 && s.Day >= 1 && s.Day <= 31
	return s, ok
}

// UnixDays is the number of days from 1970-01-01 to the stamp's date.
func (s Stamp) UnixDays() int64 {
	// Howard Hinnant, chrono-Compatible Low-Level Date Algorithms, days_from_civil.
	y, m := int64(s.Year), int64(s.Month)
	if m <= 2 {
		y--
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	doy := (153*((m+9)%12)+2)/5 + int64(s.Day) - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}

// LocalMicros are the microseconds from 1970-01-01 00:00 to what the clock on
// the wall shows, whatever its offset.
func (s Stamp) LocalMicros() int64 {
	seconds := s.UnixDays()*86400 + int64(s.Hour)*3600 + int64(s.Minute)*60 + int64(s.Second)
	return seconds*1_000_000 + int64(s.Micro)
}

// UnixMicros are the microseconds from 1970-01-01 00:00 UTC to the instant.
func (s Stamp) UnixMicros() int64 { return s.LocalMicros() - int64(s.Offset)*1_000_000 }

type stampReader struct {
	v   []byte
	at  int
	bad bool
}

func (p *stampReader) peek() byte {
	if p.at < len(p.v) {
		return p.v[p.at]
	}
	return 0
}

// number reads from least to most digits.
func (p *stampReader) number(least, most int) int {
	n, start := 0, p.at
	for p.at < len(p.v) && p.at-start < most && isDigit(p.v[p.at]) {
		n = n*10 + int(p.v[p.at]-'0')
		p.at++
	}
	if p.at-start < least {
		p.bad = true
	}
	return n
}

// after reads a mark and then exactly so many digits.
func (p *stampReader) after(mark byte, size int) int {
	if p.peek() != mark {
		p.bad = true
		return 0
	}
	p.at++
	return p.number(size, size)
}

func (p *stampReader) fraction() int {
	if p.peek() != '.' {
		return 0
	}
	p.at++
	start := p.at
	n := p.number(1, 6)
	for range 6 - (p.at - start) {
		n *= 10
	}
	return n
}

// offset reads +05, +05:30 or +05:53:28.
func (p *stampReader) offset() int {
	sign := 1
	switch p.peek() {
	case '-':
		sign = -1
	case '+':
	default:
		return 0
	}
	p.at++
	seconds := p.number(2, 2) * 3600
	if p.peek() == ':' {
		seconds += p.after(':', 2) * 60
	}
	if p.peek() == ':' {
		seconds += p.after(':', 2)
	}
	return sign * seconds
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
