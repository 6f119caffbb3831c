package invoice

import (
	"reflect"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"golang.org/x/text/unicode/norm"

	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

func TestMoneyIsWritten(t *testing.T) {
	t.Parallel()
	tests := []struct{ amount, code, want string }{
		{"8", "JPY", "¥8"}, // case 39
		{"8", "KWD", "KWD\u00a08.000"},
		{"0", "EUR", "€0.00"},
		{"1234567.891", "EUR", "€1,234,567.89"},
		{"-1234.5", "USD", "-$1,234.50"},
		{"-0.004", "USD", "$0.00"},
		{"-0.5", "KWD", "-KWD\u00a00.500"},
		{"999.995", "GBP", "£1,000.00"},
		{"12", "INR", "₹12.00"},
	}
	words := english("en")
	for _, tt := range tests {
		c, ok := CurrencyByCode(tt.code)
		if got := words.money(decimal.RequireFromString(tt.amount), c); !ok || got != tt.want {
			t.Errorf("%s %s is written %q, want %q", tt.amount, tt.code, got, tt.want)
		}
	}
}

func TestNumbersKeepTheirDecimals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		number string
		places int32
		want   string
	}{
		{"10", 2, "10.00"}, {"10.000", 2, "10.00"}, {"0.0125", 2, "0.0125"}, {"8.50", 0, "8.5"}, {"123456", 0, "123,456"}, {"-1000", 0, "-1,000"},
	}
	for _, tt := range tests {
		if got := english("en").exact(decimal.RequireFromString(tt.number), tt.places).text; got != tt.want {
			t.Errorf("%s is written %q, want %q", tt.number, got, tt.want)
		}
	}
}

// Every word and sign that a page can hold must be one that the fonts show, and
// composed as all text is.
func TestFontsShowEveryLabelAndSign(t *testing.T) {
	t.Parallel()
	setter := typeset.NewSetter(builtin(t))
	for _, tag := range localeList() {
		l, ok := localeFor(tag)
		if !ok || l.tag != tag {
			t.Fatalf("the locale %s is %v, %v", tag, l, ok)
		}
		setter.SetLanguage(tag)
		check := func(what, text string) {
			for _, bold := range []bool{false, true} {
				if missing := setter.Line(text, bold).Missing; text == "" || len(missing) > 0 {
					t.Errorf("%s: %s is %q, in which %q are in no font", tag, what, text, missing)
				}
			}
			if !norm.NFC.IsNormalString(text) {
				t.Errorf("%s: %s %q is not composed", tag, what, text)
			}
		}
		words := reflect.ValueOf(l.labels)
		for i := range words.NumField() {
			check(words.Type().Field(i).Name, words.Field(i).String())
		}
		for _, m := range l.months {
			check("month", m)
		}
		signs := 0
		for code := range allCurrencies() {
			if sign := l.symbol(code); sign != "" {
				check(code, sign)
				signs++
			}
			check("money", l.money(decimal.New(-123456789, -2), Currency{code, 2}))
		}
		if signs < 2 {
			t.Errorf("%s has %d currency signs", tag, signs)
		}
	}
	if _, ok := localeFor("tlh"); ok {
		t.Error("tlh is a locale")
	}
}

// allCurrencies yields every code that is a currency.
func allCurrencies() map[string]Currency {
	all := map[string]Currency{}
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			for c := 'A'; c <= 'Z'; c++ {
				if currency, ok := CurrencyByCode(string([]rune{a, b, c})); ok {
					all[currency.Code] = currency
				}
			}
		}
	}
	return all
}

func TestCurrenciesOfISO4217(t *testing.T) {
	t.Parallel()
	count := map[int32]int{}
	for _, currency := range allCurrencies() {
		count[currency.Minor]++
	}
	// List one of 2026-01-01: 178 codes, 13 of them without minor units.
	if count[0] != 17 || count[2] != 139 || count[3] != 7 || count[4] != 2 {
		t.Errorf("currencies by minor units: %v", count)
	}
	for code, minor := range map[string]int32{"EUR": 2, "JPY": 0, "KWD": 3, "BHD": 3, "TND": 3, "ISK": 0, "HUF": 2, "CLF": 4, "XCG": 2, "ZWG": 2} {
		if c, ok := CurrencyByCode(code); !ok || c.Minor != minor || c.Code != code {
			t.Errorf("%s is %+v, %v; want %d minor units", code, c, ok, minor)
		}
	}
	for _, code := range []string{"", "eur", "EU", "EURO", "BGN", "HRK", "ANG", "ZWL", "XAU", "XXX", "XTS"} {
		if _, ok := CurrencyByCode(code); ok {
			t.Errorf("%q is a currency", code)
		}
	}
}

// The facts of CLDR 46: how a day, an amount and a rate are written.
func TestLocales(t *testing.T) {
	t.Parallel()
	const nb, thin = "\u00a0", "\u202f"
	tests := []struct{ tag, digits, currency, day, money, small, minus, percent string }{
		{"en", "", "USD", "April 5, 2026", "$1,234,567.80", "$1,234.50", "-1,234.50", "9.5%"},
		{"en-US", "", "USD", "April 5, 2026", "$1,234,567.80", "$1,234.50", "-1,234.50", "9.5%"},
		{"en-GB", "", "GBP", "5 April 2026", "£1,234,567.80", "£1,234.50", "-1,234.50", "9.5%"},
		{"en-IN", "", "INR", "5 April 2026", "₹12,34,567.80", "₹1,234.50", "-1,234.50", "9.5%"},
		{"de", "", "EUR", "5. April 2026", "1.234.567,80" + nb + "€", "1.234,50" + nb + "€", "-1.234,50", "9,5" + nb + "%"},
		{"fr", "", "EUR", "5 avril 2026", "1" + thin + "234" + thin + "567,80" + nb + "€", "1" + thin + "234,50" + nb + "€", "-1" + thin + "234,50", "9,5" + thin + "%"},
		{"es", "", "EUR", "5 de abril de 2026", "1.234.567,80" + nb + "€", "1234,50" + nb + "€", "-1234,50", "9,5" + nb + "%"},
		{"bn", "", "BDT", "৫ এপ্রিল, ২০২৬", "১২,৩৪,৫৬৭.৮০৳", "১,২৩৪.৫০৳", "-১,২৩৪.৫০", "৯.৫%"},
		{"bn", "latn", "BDT", "5 এপ্রিল, 2026", "12,34,567.80৳", "1,234.50৳", "-1,234.50", "9.5%"},
		{"hi", "", "INR", "5 अप्रैल 2026", "₹12,34,567.80", "₹1,234.50", "-1,234.50", "9.5%"},
		{"hi", "deva", "INR", "५ अप्रैल २०२६", "₹१२,३४,५६७.८०", "₹१,२३४.५०", "-१,२३४.५०", "९.५%"},
		{"mr", "", "INR", "५ एप्रिल, २०२६", "₹१२,३४,५६७.८०", "₹१,२३४.५०", "-१,२३४.५०", "९.५%"},
		{"ar", "", "SAR", "٥ أبريل ٢٠٢٦", "\u200f١٬٢٣٤٬٥٦٧٫٨٠" + nb + "ر.س.", "\u200f١٬٢٣٤٫٥٠" + nb + "ر.س.", "\u061c-١٬٢٣٤٫٥٠", "٩٫٥٪\u061c"},
		{"ar", "latn", "EUR", "5 أبريل 2026", "\u200f1,234,567.80" + nb + "€", "\u200f1,234.50" + nb + "€", "\u200e-1,234.50", "9.5\u200e%\u200e"},
	}
	for _, tt := range tests {
		l := (&Document{Locale: tt.tag, Digits: tt.digits}).locale()
		c, _ := CurrencyByCode(tt.currency)
		got := []string{l.day(time.Date(2026, 4, 5, 0, 0, 0, 0, time.UTC)), l.money(decimal.RequireFromString("1234567.8"), c),
			l.money(decimal.RequireFromString("1234.5"), c), l.fixed(decimal.RequireFromString("-1234.5"), 2).text,
			l.percent(decimal.RequireFromString("9.50")).text}
		if want := []string{tt.day, tt.money, tt.small, tt.minus, tt.percent}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s:\ngot  %q\nwant %q", tt.tag, tt.digits, got, want)
		}
	}
}
