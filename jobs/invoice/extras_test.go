package invoice

import (
	"reflect"
	"strings"
	"testing"
)

func TestPagesShowAllowancesTermsAndRounding(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{LayoutClassic, LayoutModern} {
		path, report := writeWith(t, renderer(t, Options{Style: Style{Layout: layout}}), fullDocument(t))
		if report.Missing != 0 || len(report.Warnings) != 0 {
			t.Errorf("%s: %+v", layout, report)
		}
		mustHold(t, text(t, path), "Sum of lines", "€2,787.07", "Allowances", "-€84.61", "Charges", "€145.00", "Net total €2,847.46", "Rounding €0.02",
			"Amount due €2,291.45", "Loyalty (3%)", "Damaged cover", "Freight", "Scratched: -€5.00", "Packing (2.5%): €2.50", "Assembled on site", "RT-90",
			"Vocational training", "VAT ID DE123456788", "Reg. no. HRB 4711", "Silke Bruhn", "Your reference", "04011000-1234512345-35", "PO-778 & 779",
			"April 1, 2026 – April 30, 2026", "Delivered to", "Acropole, entrepôt 3", "FR14 2004 1010 0505 0001 3M02 606", "net within 14 days")
	}
}

func TestOtherTermsAreShown(t *testing.T) {
	t.Parallel()
	d := parse(t, simple(t, object{
		"tax_point_date": "2025-12-31", "delivery": object{"period": object{"to": "2025-12-30"}}, "period": object{"from": "2025-12-01"},
		"payment": object{"card": object{"number": "411111******1111", "holder": "B. Uyer"}, "accounts": []any{object{"number": "01-39139-1"}},
			"mandate": object{"reference": "M-7", "iban": "DE89370400440532013000"}},
		"charges": []any{object{"amount": "2", "reason_code": "FC", "tax_rate": "7"}},
	}))
	path, _ := write(t, d)
	mustHold(t, text(t, path), "Tax point December 31, 2025", "from December 1, 2025", "until December 30, 2025", "411111******1111 B. Uyer",
		"01-39139-1", "M-7", "DE89 3704", "Charges 7%")
}

func TestEveryLocaleHasTheWordsForTerms(t *testing.T) {
	t.Parallel()
	for _, tag := range localeList() {
		words := reflect.ValueOf(localeOrEnglish(tag).terms())
		for i := range words.NumField() {
			name, word := words.Type().Field(i).Name, words.Field(i).String()
			if word == "" || (name == "from" || name == "until") != strings.Contains(word, "%s") {
				t.Errorf("%s: %s is %q", tag, name, word)
			}
		}
		d := fullDocument(t)
		d.Locale = tag
		if _, report := write(t, d); report.Missing != 0 {
			t.Errorf("%s: %+v", tag, report)
		}
	}
}
