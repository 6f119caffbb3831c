package tabular

// IsNumber reports whether v is digits with an optional sign, fraction and
// exponent: 42, -0.50, +.5, 1e-05. NaN and the infinities are none, see
// [IsNoNumber].
func IsNumber(v []byte) bool {
	if len(v) > 0 && (v[0] == '+' || v[0] == '-') {
		v = v[1:]
	}
	return isUnsigned(v, '.')
}

// isUnsigned accepts digits with an optional fraction behind mark and exponent.
func isUnsigned(v []byte, mark byte) bool {
	n := digits(v)
	found := n > 0
	if n < len(v) && v[n] == mark {
		fraction := digits(v[n+1:])
		found = found || fraction > 0
		n += 1 + fraction
	}
	if found && n < len(v) && v[n]|0x20 == 'e' {
		n++
		if n < len(v) && (v[n] == '+' || v[n] == '-') {
			n++
		}
		exponent := digits(v[n:])
		found = exponent > 0
		n += exponent
	}
	return found && n == len(v)
}

// SignificantDigits counts the digits of a number's text from the first that is
// not 0 to the last that is not 0; an exponent does not count. It is how many
// digits a program must keep to show the same number: Excel keeps 15 of them and
// puts zeros in the place of further ones, so that 352776136104522888 (18) and
// 0.12345678901234567 (17) change, while 00012, 12000000000000000000 and 12.00 (2
// each) do not. 0 and text that begins with neither digit, sign nor point have none.
func SignificantDigits(v []byte) int {
	if len(v) > 0 && (v[0] == '+' || v[0] == '-') {
		v = v[1:]
	}
	seen, significant := 0, 0
	for _, c := range v {
		switch {
		case c == '.':
		case !isDigit(c):
			return significant
		case c != '0':
			seen++
			significant = seen
		case seen > 0:
			seen++
		}
	}
	return significant
}

// LooksLikeFormula reports whether a spreadsheet may run the text when it opens
// a file that holds it as it is: it begins with = + - @ (also the full-width ones
// that East Asian keyboards give), a TAB, CR or LF. Numbers with a sign never do
// anything, with either decimal mark, and neither does one of these characters
// alone, such as the dash that stands for nothing.
func LooksLikeFormula(v []byte) bool {
	if len(v) < 2 {
		return false
	}
	switch v[0] {
	case '=', '@', '\t', '\r', '\n':
		return true
	case '+', '-':
		return !isUnsigned(v[1:], '.') && !isUnsigned(v[1:], ',')
	case 0xEF: // U+FF0B + U+FF0D - U+FF1D = U+FF20 @ in UTF-8
		return len(v) > 3 && v[1] == 0xBC && (v[2] == 0x8B || v[2] == 0x8D || v[2] == 0x9D || v[2] == 0xA0)
	}
	return false
}
