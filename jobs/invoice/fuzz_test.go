package invoice

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// FuzzParse: whatever comes in, Parse gives a document or a refusal, and every
// document can be written.
func FuzzParse(f *testing.F) {
	for _, raw := range shapes(f) {
		if len(raw) < 4096 { // larger ones only make the search slow
			f.Add(raw)
		}
	}
	f.Add([]byte(`{"number":"1","lines":[{"quantity":"-0.000"}],"x":[[{}]]}`))
	f.Add([]byte(`[{"a":1,"a":null}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := slices.Clone(raw)
		d, err := Parse(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("Parse changed its input")
		}
		if err != nil {
			problems(t, raw)
			return
		}
		mustWrite(t, d)
	})
}

// FuzzFields: the same for fields of any content in a document that is valid
// otherwise; what is read is what was given, composed.
func FuzzFields(f *testing.F) {
	f.Add("Chair “Ærø”", "Καφέ", "two\nlines", "A-1", "1.5", "0.005", "33.3", "19", "JPY")
	f.Add("wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", "x  y ", " ", "№7", "-0", "999999999999", "100", "0.000001", "KWD")
	f.Fuzz(func(t *testing.T, description, name, notes, number, quantity, price, discount, rate, currency string) {
		raw := simple(t, object{
			"number": number, "notes": notes, "currency": currency, "customer": object{"name": name, "address": []any{"City"}},
			"lines": []any{with(line(description, quantity, price, rate), "discount_percent", discount), line("Thing", "1", "1", "19")},
		})
		d, err := Parse(raw)
		if err != nil {
			problems(t, raw)
			return
		}
		if d.Customer.Name != norm.NFC.String(name) || d.Number != norm.NFC.String(number) {
			t.Errorf("read %q and %q from %q and %q", d.Customer.Name, d.Number, name, number)
		}
		mustWrite(t, d)
	})
}

func mustWrite(t *testing.T, d *Document) {
	t.Helper()
	report, err := d.WritePDF(io.Discard)
	if err != nil || report.Pages < 1 || d.Key() == "" {
		t.Fatalf("wrote %+v of %q: %v", report, d.Key(), err)
	}
}
