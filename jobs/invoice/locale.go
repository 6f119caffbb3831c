package invoice

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// locale is how one language writes an invoice. What is not a word is from the
// Unicode CLDR 46: number symbols, grouping, patterns of dates and currencies,
// names of months.
type locale struct {
	labels
	tag         string
	rightToLeft bool
	digits      string // default numbering system
	indian      bool   // groups of two digits above the thousand: 12,34,567
	sparse      bool   // no sign in numbers of four digits (minimumGroupingDigits 2)
	decimalSign string
	groupSign   string
	percentSign string
	months      [12]string
	date        string // {d}, {m} the name of the month, {y}
	moneyFirst  bool   // the currency stands before the number
	moneyGap    string // between the number and a currency's sign
	symbol      func(code string) string
	leading     float64 // distance of lines, as a multiple of the font size
}

// localeList is what a document may name; it is for messages.
func localeList() []string {
	return []string{"en", "en-GB", "en-IN", "en-US", "de", "fr", "es", "bn", "hi", "mr", "ar"}
}

// localeFor gives a locale. A new language is a new case here, its words, and
// its tag in localeList.
func localeFor(tag string) (*locale, bool) {
	switch tag {
	case "en", "en-US":
		return english(tag), true
	case "en-GB", "en-IN":
		l := english(tag)
		l.date = "{d} {m} {y}"
		l.indian = tag == "en-IN"
		return l, true
	case "de":
		return german(), true
	case "fr":
		return french(), true
	case "es":
		return spanish(), true
	case "bn":
		return bengali(), true
	case "hi":
		return hindi(), true
	case "mr":
		return marathi(), true
	case "ar":
		return arabic(), true
	}
	return nil, false
}

func localeOrEnglish(tag string) *locale {
	if l, ok := localeFor(tag); ok {
		return l
	}
	return english("en")
}

// locale is the document's, with the digits that it asks for.
func (d *Document) locale() *locale {
	l := localeOrEnglish(d.Locale)
	if d.Digits == "" || d.Digits == l.digits {
		return l
	}
	if l.digits == DigitsArabic { // its signs go with its digits
		l.decimalSign, l.groupSign = ".", ","
	}
	l.digits = d.Digits
	if l.digits == DigitsArabic {
		l.decimalSign, l.groupSign = "٫", "٬"
	}
	return l
}

// The numbering systems of a document, as CLDR names them.
const (
	DigitsLatin      = "latn" // 0 1 2
	DigitsBengali    = "beng" // ০ ১ ২
	DigitsDevanagari = "deva" // ० १ २
	DigitsArabic     = "arab" // ٠ ١ ٢
)

// zero is the first of the locale's digits.
func (l *locale) zero() rune {
	switch l.digits {
	case DigitsBengali:
		return '০'
	case DigitsDevanagari:
		return '०'
	case DigitsArabic:
		return '٠'
	}
	return '0'
}

// native writes the digits of s in the locale's own.
func (l *locale) native(s string) string {
	zero := l.zero()
	if zero == '0' {
		return s
	}
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return zero + c - '0'
		}
		return c
	}, s)
}

// isolated keeps a name or number in one piece among words that are read from
// right to left, where 2026-0042 would become 0042-2026 (UAX 9, rule W2).
func (l *locale) isolated(s string) string {
	if l.rightToLeft {
		return "\u2068" + s + "\u2069"
	}
	return s
}

func (l *locale) count(n int) string { return l.native(strconv.Itoa(n)) }

func (l *locale) page(number, of int) string {
	return fmt.Sprintf(l.pageOf, l.count(number), l.count(of))
}

// day writes the month as a word, so that no one reads the day for the month.
func (l *locale) day(t time.Time) string {
	return strings.NewReplacer("{d}", l.count(t.Day()), "{m}", l.months[t.Month()-1], "{y}", l.count(t.Year())).Replace(l.date)
}

// number is a number as it is printed, and the part of it that stands before
// the decimal sign, for setting numbers point below point.
type number struct{ text, whole string }

// fixed writes d with exactly places decimals.
func (l *locale) fixed(d decimal.Decimal, places int32) number {
	whole, fraction, _ := strings.Cut(d.Abs().StringFixed(places), ".")
	n := number{whole: l.native(l.grouped(whole))}
	if fraction != "" {
		fraction = l.decimalSign + l.native(fraction)
	}
	n.text = n.whole + fraction
	if d.Round(places).IsNegative() {
		n.text = l.minus() + n.text
		if l.digits != DigitsArabic { // there it is seen after the number
			n.whole = l.minus() + n.whole
		}
	}
	return n
}

// minus keeps its place before the digits in text from right to left by an
// invisible mark, as CLDR has it.
func (l *locale) minus() string {
	switch {
	case l.digits == DigitsArabic:
		return "\u061c-"
	case l.rightToLeft:
		return "\u200e-"
	}
	return "-"
}

// grouped puts the group sign between the digits of a whole number.
func (l *locale) grouped(digits string) string {
	if l.sparse && len(digits) < 5 {
		return digits
	}
	var b strings.Builder
	for i, c := range digits {
		left := len(digits) - i
		if i > 0 && (left == 3 || left > 3 && (l.indian && left%2 == 1 || !l.indian && left%3 == 0)) {
			b.WriteString(l.groupSign)
		}
		b.WriteRune(c)
	}
	return b.String()
}

// exact writes all decimals of d that are not trailing zeros, at least places.
func (l *locale) exact(d decimal.Decimal, places int32) number {
	_, fraction, _ := strings.Cut(d.String(), ".") // String drops trailing zeros
	return l.fixed(d, max(places, int32(len(fraction))))
}

// money writes an amount with the currency's sign or, where that is not known
// in every language, its code.
func (l *locale) money(d decimal.Decimal, c Currency) string {
	sign, gap := l.symbol(c.Code), l.moneyGap
	if sign == "" {
		sign, gap = c.Code, "\u00a0"
	}
	text := l.fixed(d.Abs(), c.Minor).text
	minus := ""
	if d.Round(c.Minor).IsNegative() {
		minus = l.minus()
	}
	switch {
	case l.moneyFirst:
		return minus + sign + gap + text
	case l.rightToLeft:
		return "\u200f" + minus + text + gap + sign
	}
	return minus + text + gap + sign
}

func (l *locale) percent(d decimal.Decimal) number {
	n := l.exact(d, 0)
	switch {
	case l.digits == DigitsArabic:
		n.text += "٪\u061c"
	case l.rightToLeft:
		n.text += "\u200e%\u200e"
	default:
		n.text += l.percentSign
	}
	return n
}

// taxName is the rate and, where the rate alone does not say it, why.
func (l *locale) taxName(c Category, rate decimal.Decimal) string {
	why := ""
	switch c {
	case CategoryZero:
		why = l.zeroRated
	case CategoryExempt:
		why = l.exempt
	case CategoryReverseCharge:
		why = l.reverse
	case CategoryIntraCommunity:
		why = l.intra
	case CategoryExport:
		why = l.export
	case CategoryOutside:
		return l.out
	case CategoryCanary:
		why = "IGIC"
	case CategoryCeuta:
		why = "IPSI"
	}
	return strings.TrimSpace(l.percent(rate).text + " " + why)
}
