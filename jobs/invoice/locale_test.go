package invoice

import (
	"reflect"
	"testing"

	"github.com/shopspring/decimal"
)

func TestMoneyIsWritten(t *testing.T) {
	t.Parallel()
	tests := []struct{ amount, code, want string }{
		{"8", "JPY", "¥8"}, // case 39
		{"8", "KWD", "KWD 8.000"},
		{"0", "EUR", "€0.00"},
		{"1234567.891", "EUR", "€1,234,567.89"},
		{"-1234.5", "USD", "-$1,234.50"},
		{"-0.004", "USD", "$0.00"},
		{"-0.5", "KWD", "-KWD 0.500"},
		{"999.995", "GBP", "£1,000.00"},
		{"12", "INR", "INR 12.00"},
	}
	words := english()
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
		if got := english().exact(decimal.RequireFromString(tt.number), tt.places); got != tt.want {
			t.Errorf("%s is written %q, want %q", tt.number, got, tt.want)
		}
	}
}

// Every word and sign that a page can hold must be one that the fonts show:
// nothing checks them when a document is written.
func TestFontsShowEveryLabelAndSign(t *testing.T) {
	t.Parallel()
	fonts, err := builtinTypefaces()
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, text string) {
		if text == "" {
			t.Errorf("%s is empty", what)
		}
		if complaint := fonts.unshowable(text); complaint != "" {
			t.Errorf("%s %q %s", what, text, complaint)
		}
	}
	words := reflect.ValueOf(*english())
	for i := range words.NumField() {
		switch f := words.Field(i); f.Kind() {
		case reflect.String:
			check(words.Type().Field(i).Name, f.String())
		case reflect.Array:
			for m := range f.Len() {
				check("month", f.Index(m).String())
			}
		}
	}
	signs := 0
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			for c := 'A'; c <= 'Z'; c++ {
				if currency, ok := CurrencyByCode(string([]rune{a, b, c})); ok && currency.symbol() != "" {
					check(currency.Code, currency.symbol())
					signs++
				}
			}
		}
	}
	if signs != 13 {
		t.Errorf("there are %d currency signs, want 13", signs)
	}
}

func TestCurrenciesOfISO4217(t *testing.T) {
	t.Parallel()
	count := map[int32]int{}
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			for c := 'A'; c <= 'Z'; c++ {
				if currency, ok := CurrencyByCode(string([]rune{a, b, c})); ok {
					count[currency.Minor]++
				}
			}
		}
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
