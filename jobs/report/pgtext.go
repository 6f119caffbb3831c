package report

// columnKind is how the values of a column are written.
type columnKind uint8

const (
	kindText    columnKind = iota // what a person may have typed
	kindPlain                     // numbers, dates and the like: never a formula
	kindBoolean                   //
	kindInstant                   // timestamptz
)

// kindOf knows the OIDs of PostgreSQL's pg_type.dat; they never change. Types of
// an installation (enums, extensions) and unknown ones are text.
func kindOf(oid uint32) columnKind {
	switch oid {
	case 16: // bool
		return kindBoolean
	case 1184: // timestamptz
		return kindInstant
	case 20, 21, 23, 26, 28, 700, 701, 790, 1700, // int8 int2 int4 oid xid float4 float8 money numeric
		1082, 1083, 1114, 1186, 1266, // date time timestamp interval timetz
		22, 30, 114, 3802: // int2vector oidvector json jsonb
		return kindPlain
	}
	return kindText
}

// looksLikeFormula reports whether a spreadsheet may run the text when it opens
// a file: it starts with = + - @ TAB or CR, and is not just a number or a sign.
func looksLikeFormula(v []byte) bool {
	if len(v) < 2 {
		return false
	}
	switch v[0] {
	case '=', '@', '\t', '\r':
		return true
	case '+', '-':
		return !isNumber(v[1:])
	}
	return false
}

// isNumber accepts digits with an optional fraction and exponent.
func isNumber(v []byte) bool {
	whole := digits(v)
	n, fraction := whole, 0
	if n < len(v) && v[n] == '.' {
		fraction = digits(v[n+1:])
		n += 1 + fraction
	}
	if whole+fraction == 0 {
		return false
	}
	if n < len(v) && v[n]|0x20 == 'e' {
		n++
		if n < len(v) && (v[n] == '+' || v[n] == '-') {
			n++
		}
		exponent := digits(v[n:])
		if exponent == 0 {
			return false
		}
		n += exponent
	}
	return n == len(v)
}

func digits(v []byte) int {
	for i, c := range v {
		if !isDigit(c) {
			return i
		}
	}
	return len(v)
}

// appendRFC3339 adds a timestamptz as RFC 3339: PostgreSQL prints
// 2026-01-01 10:00:00.123+00 or …+05:30. It reports false, and adds nothing, for
// everything that has another shape.
func appendRFC3339(dst, v []byte) ([]byte, bool) {
	const stamp = len("2026-01-01 10:00:00")
	if len(v) < stamp+3 || !hasShape(v[:stamp], "0000-00-00 00:00:00") {
		return dst, false
	}
	end := stamp
	if v[end] == '.' {
		n := digits(v[end+1:])
		if n == 0 {
			return dst, false
		}
		end += 1 + n
	}
	offset := v[end:]
	if len(offset) == 0 || offset[0] != '+' && offset[0] != '-' {
		return dst, false
	}
	hours := hasShape(offset[1:], "00")
	if !hours && !hasShape(offset[1:], "00:00") {
		return dst, false
	}
	dst = append(dst, v[:10]...)
	dst = append(dst, 'T')
	dst = append(dst, v[11:]...)
	if hours {
		dst = append(dst, ":00"...)
	}
	return dst, true
}

// hasShape compares v with a pattern where 0 stands for any digit.
func hasShape(v []byte, pattern string) bool {
	if len(v) != len(pattern) {
		return false
	}
	for i, c := range v {
		if pattern[i] == '0' && isDigit(c) || pattern[i] == c && c != '0' {
			continue
		}
		return false
	}
	return true
}
