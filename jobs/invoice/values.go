package invoice

import (
	"encoding/json"
	"net/mail"
	"strings"
	"time"
	"unicode"

	"github.com/shopspring/decimal"
)

// Bounds of what a page can hold and a sum can mean.
const (
	maxDigits   = 12 // before the point of a quantity or a price
	maxDecimals = 6  // after it
)

// maxAmount bounds every sum: fifteen digits before the point.
func maxAmount() decimal.Decimal { return decimal.New(1, 15) }

// decimal reads a decimal amount, which must be text.
func (r *reader) decimal(path string, tok json.Token, digits, places int) (decimal.Decimal, bool) {
	var zero decimal.Decimal
	if n, ok := tok.(json.Number); ok {
		r.add(path, n.String(), "is a JSON number; write it in quotes, as text: programs in between may round a number")
		return zero, false
	}
	text, ok := tok.(string)
	if !ok {
		r.refuse(path, tok, `a decimal in quotes, such as "19.90"`)
		return zero, false
	}
	integer, fraction, ok := splitDecimal(text)
	switch {
	case !ok:
		r.add(path, text, `is not a decimal; write digits with a point for the decimals and nothing else, such as "1234.50"`)
	case len(integer) > digits:
		r.add(path, text, "has %d digits before the point; at most %d are taken", len(integer), digits)
	case len(fraction) > places:
		r.add(path, text, "has %d decimals; at most %d are taken", len(fraction), places)
	default:
		d, err := decimal.NewFromString(text)
		if err == nil {
			return d, true
		}
		r.add(path, text, "is not a decimal: %v", err)
	}
	return zero, false
}

// splitDecimal takes -?[0-9]+(\.[0-9]+)? apart; leading zeros do not count.
func splitDecimal(s string) (integer, fraction string, ok bool) {
	integer, fraction, point := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	if !onlyDigits(integer) || point && !onlyDigits(fraction) {
		return "", "", false
	}
	return strings.TrimLeft(integer, "0"), fraction, true
}

func onlyDigits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// positive reads a decimal that is not negative.
func (r *reader) positive(path string, tok json.Token, digits, places int, advice string) (decimal.Decimal, bool) {
	d, ok := r.decimal(path, tok, digits, places)
	if ok && d.IsNegative() {
		r.add(path, d.String(), "must not be negative%s", advice)
		return decimal.Decimal{}, false
	}
	return d, ok
}

// percent reads a decimal from 0 to 100.
func (r *reader) percent(path string, tok json.Token) (decimal.Decimal, bool) {
	d, ok := r.decimal(path, tok, maxDigits, maxDecimals)
	if ok && (d.IsNegative() || d.GreaterThan(decimal.New(100, 0))) {
		r.add(path, d.String(), "must be from 0 to 100: it is a percentage")
		return decimal.Decimal{}, false
	}
	return d, ok
}

// date reads a calendar date, as ISO 8601 writes it.
func (r *reader) date(path string, tok json.Token) time.Time {
	text, ok := tok.(string)
	if !ok {
		r.refuse(path, tok, `a date in quotes, such as "2026-04-14"`)
		return time.Time{}
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		r.add(path, text, `is not a date; write year, month and day, such as "2026-04-14"`)
		return time.Time{}
	}
	if t.Year() < 1900 {
		r.add(path, text, "is before 1900; check the year")
		return time.Time{}
	}
	return t
}

// choice reads one of a few words.
func (r *reader) choice(path string, tok json.Token, words ...string) string {
	text, ok := tok.(string)
	if !ok {
		r.refuse(path, tok, "one of "+strings.Join(words, ", "))
		return ""
	}
	for _, w := range words {
		if text == w {
			return w
		}
	}
	r.add(path, text, "is not known; it can be %s", strings.Join(words, ", "))
	return ""
}

// visible reads text without any space in it: a name that is handed on as one
// word.
func (r *reader) visible(path string, tok json.Token, limit int) string {
	text := r.text(path, tok, limit)
	if strings.ContainsFunc(text, unicode.IsSpace) {
		r.add(path, text, "must not hold spaces")
		return ""
	}
	return text
}

func (r *reader) currency(path string, tok json.Token) Currency {
	code, ok := tok.(string)
	if !ok {
		r.refuse(path, tok, `a currency code in quotes, such as "EUR"`)
		return Currency{}
	}
	c, ok := CurrencyByCode(code)
	if ok {
		return c
	}
	if upper := strings.ToUpper(code); upper != code {
		if _, known := CurrencyByCode(upper); known {
			r.add(path, code, "must be in capitals: %s", upper)
			return c
		}
	}
	r.add(path, code, `is not a current currency of ISO 4217; write its three letters, such as "EUR"`)
	return c
}

func (r *reader) email(path string, tok json.Token) string {
	text := r.text(path, tok, 254) // RFC 5321, section 4.5.3.1.3
	if text == "" {
		return ""
	}
	if a, err := mail.ParseAddress(text); err != nil || a.Address != text {
		r.add(path, text, `is not a mail address; write it alone, such as "billing@example.com"`)
		return ""
	}
	return text
}

// iban reads an account number and checks its digits (ISO 13616, ISO 7064 MOD
// 97-10): a slip of the pen would send the money elsewhere.
func (r *reader) iban(path string, tok json.Token) string {
	text := strings.ReplaceAll(r.text(path, tok, 50), " ", "")
	if text == "" {
		return ""
	}
	if len(text) < 15 || len(text) > 34 || !capitalsAndDigits(text) || !onlyLetters(text[:2]) || !onlyDigits(text[2:4]) {
		r.add(path, text, "is not an IBAN; it has two letters, two check digits and up to 30 capitals or digits")
		return ""
	}
	if mod97(text[4:]+text[:4]) != 1 {
		r.add(path, text, "has wrong check digits; compare it with the bank's letter")
		return ""
	}
	return text
}

func mod97(s string) int {
	n := 0
	for _, c := range s {
		if c >= 'A' {
			n = (n*100 + int(c-'A') + 10) % 97
			continue
		}
		n = (n*10 + int(c-'0')) % 97
	}
	return n
}

// bic reads a business identifier code of 8 or 11 characters (ISO 9362).
func (r *reader) bic(path string, tok json.Token) string {
	text := r.text(path, tok, 50)
	if text == "" {
		return ""
	}
	if len(text) != 8 && len(text) != 11 || !capitalsAndDigits(text) || !onlyLetters(text[4:6]) {
		r.add(path, text, "is not a BIC; it has 8 or 11 capitals and digits, with the country at the fifth")
		return ""
	}
	return text
}

func capitalsAndDigits(s string) bool {
	for _, c := range s {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func onlyLetters(s string) bool {
	for _, c := range s {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}
