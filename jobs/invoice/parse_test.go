package invoice

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// problems are the lines of a refusal; it fails when raw is taken.
func problems(tb testing.TB, raw []byte) []invalid.Problem {
	tb.Helper()
	_, err := Parse(raw)
	refusal, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		tb.Fatalf("parse gave %v (%T), want an *invalid.Error", err, err)
	}
	return refusal.Problems
}

// oneProblem wants exactly one problem: its field, and words of its value and
// message.
func oneProblem(tb testing.TB, raw []byte, field string, words ...string) {
	tb.Helper()
	list := problems(tb, raw)
	if len(list) != 1 {
		tb.Fatalf("there are %d problems, want 1: %v", len(list), list)
	}
	if list[0].Field != field {
		tb.Errorf("the field is %q, want %q (%v)", list[0].Field, field, list[0])
	}
	for _, w := range words {
		if !strings.Contains(list[0].String(), w) {
			tb.Errorf("%q lacks %q", list[0], w)
		}
	}
}

func TestParseReadsEveryField(t *testing.T) {
	t.Parallel()
	d := parse(t, Example())
	first := d.Lines[0]
	got := []any{d.Key(), d.Type, d.IssueDate.Format("2006-01-02"), d.DueDate.Format("2006-01-02"), d.Currency, d.Issuer.Email,
		d.Issuer.TaxID, d.Customer.Name, len(d.Customer.Address), d.Prepaid, d.Payment.IBAN, d.Payment.BIC, d.Payment.Reference,
		d.Locale, d.Paper, len(d.Lines), first.Description, first.Quantity, first.Unit, first.UnitPrice, first.DiscountPercent,
		first.TaxRate, first.TaxCategory}
	want := "[2026-0042 invoice 2026-03-31 2026-04-14 {EUR 2} rechnung@nordlicht.example DE123456789 Καφέ Ακρόπολις & Fils SARL 4 1000 " +
		"DE89370400440532013000 COBADEFFXXX 2026-0042 en A4 6 Round table in oiled oak, 90 cm, with a base of blackened steel; " +
		"assembled on site, packaging taken back 4 pcs 389 10 19 S]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestParseFillsInDefaults(t *testing.T) {
	t.Parallel()
	d := parse(t, simple(t, object{"prepaid": nil, "notes": nil}))
	if d.Type != TypeInvoice || d.Locale != "en" || d.Paper != PaperA4 || d.Lines[0].TaxCategory != CategoryStandard {
		t.Errorf("defaults are %+v", d)
	}
	raw := strings.Replace(string(simple(t, nil)), `"currency"`, `"notes":null,"payment":null,"currency"`, 1)
	if d := parse(t, []byte("\ufeff"+raw)); d.Notes != "" {
		t.Errorf("null is not the same as nothing: %+v", d)
	}
}

func TestParseRefusesOneField(t *testing.T) {
	t.Parallel()
	lines := func(l ...any) object { return object{"lines": l} }
	one := func(name string, value any) object { return lines(with(line("Thing", "1", "100", "19"), name, value)) }
	party := func(name string, value any) object {
		return object{"issuer": with(object{"name": "Seller", "address": []any{"Street"}}, name, value)}
	}
	tests := []struct {
		name   string
		change object
		field  string
		words  []string
	}{
		{"amount as a JSON number", one("unit_price", 19.9), "lines[0].unit_price", []string{`"19.9" is a JSON number`, "quotes"}},
		{"exponent", one("quantity", "1e3"), "lines[0].quantity", []string{`"1e3" is not a decimal`}},
		{"decimal comma", one("unit_price", "1,50"), "lines[0].unit_price", []string{"is not a decimal"}},
		{"plus sign", one("unit_price", "+1"), "lines[0].unit_price", []string{"is not a decimal"}},
		{"space", one("unit_price", " 1"), "lines[0].unit_price", []string{"is not a decimal"}},
		{"no digit after the point", one("unit_price", "1."), "lines[0].unit_price", []string{"is not a decimal"}},
		{"Arabic digits", one("unit_price", "١"), "lines[0].unit_price", []string{"is not a decimal"}},
		{"boolean", one("quantity", true), "lines[0].quantity", []string{`"true" must be a decimal in quotes`}},
		{"object for an amount", one("quantity", object{"a": []any{1}}), "lines[0].quantity", []string{"is an object"}},
		{"too many digits", one("quantity", "1234567890123"), "lines[0].quantity", []string{"13 digits", "at most 12"}},
		{"too many decimals", one("unit_price", "0.1234567"), "lines[0].unit_price", []string{"7 decimals", "at most 6"}},
		{"negative price", one("unit_price", "-100"), "lines[0].unit_price", []string{`"-100"`, "credit note", "BR-27"}},
		{"discount above 100", one("discount_percent", "100.01"), "lines[0].discount_percent", []string{"0 to 100"}},
		{"rate above 100", one("tax_rate", "190"), "lines[0].tax_rate", []string{"0 to 100"}},
		{"unknown category", one("tax_category", "X"), "lines[0].tax_category", []string{`"X"`, "S standard", "AE reverse"}},
		{"rate in a category without", one("tax_category", "AE"), "lines[0].tax_rate", []string{`"19" must be 0`, "BR-AE-05"}},
		{"intra-community", one("tax_category", "K"), "lines[0].tax_rate", []string{"BR-IC-05"}},
		{"standard without a rate", lines(with(line("x", "1", "1", "0"), "tax_category", "S")), "lines[0].tax_rate", []string{"BR-S-05"}},
		{"no tax without a reason", lines(line("x", "1", "1", "0")), "lines[0].tax_category", []string{"needs the reason"}},
		{"neither rate nor category", lines(object{"description": "x", "quantity": "1", "unit_price": "1"}), "lines[0].tax_rate", []string{"is missing"}},
		{"category without its rate", lines(object{"description": "x", "quantity": "1", "unit_price": "1", "tax_category": "Z"}),
			"lines[0].tax_rate", []string{"is missing", "BR-48"}},
		{"outside beside taxed", lines(line("x", "1", "1", "19"), with(line("y", "1", "1", "0"), "tax_category", "O")),
			"lines[1].tax_category", []string{"BR-O-11", "lines[0]"}},
		{"unknown field", one("colour", "red"), "lines[0].colour", []string{"not a field", "unit_price"}},
		{"unknown field at the top", object{"total": "1"}, "total", []string{"known are number, type"}},
		{"strange field name", object{"a b\n": "1"}, `document["a b\n"]`, []string{"not a field"}},
		{"missing", object{"number": nil}, "number", []string{"is missing"}},
		{"missing within", party("name", nil), "issuer.name", []string{"is missing"}},
		{"empty text", party("name", " "), "issuer.name", []string{"is empty"}},
		{"no address", party("address", []any{}), "issuer.address", []string{"at least one"}},
		{"address as text", party("address", "Street"), "issuer.address", []string{"must be a list"}},
		{"address too long", party("address", []any{"1", "2", "3", "4", "5", "6", "7", "8", "9"}), "issuer.address", []string{"has 9 items; at most 8"}},
		{"item of an address", party("address", []any{"ok", 7}), "issuer.address[1]", []string{"must be text"}},
		{"null in a list", party("address", []any{"ok", nil}), "issuer.address[1]", []string{"is null"}},
		{"line break in a name", party("name", "a\nb"), "issuer.name", []string{"single line"}},
		{"mail address", party("email", "Bob <bob@example.com>"), "issuer.email", []string{"billing@example.com"}},
		{"no lines", object{"lines": []any{}}, "lines", []string{"at least one"}},
		{"number with a space", object{"number": "A 1"}, "number", []string{"must not hold spaces"}},
		{"number too long", object{"number": strings.Repeat("9", 65)}, "number", []string{"65 characters; at most 64"}},
		{"number as a number", object{"number": 42}, "number", []string{"must be text in quotes"}},
		{"date", object{"issue_date": "02.01.2026"}, "issue_date", []string{"2026-04-14"}},
		{"day that is not", object{"due_date": "2026-02-30"}, "due_date", []string{"is not a date"}},
		{"year slip", object{"issue_date": "0226-01-02"}, "issue_date", []string{"before 1900"}},
		{"due before issue", object{"due_date": "2026-01-01"}, "due_date", []string{`"2026-01-01" is before issue_date 2026-01-02`}},
		{"nothing says when to pay", object{"due_date": nil}, "due_date", []string{"119.00 EUR", "BR-CO-25"}},
		{"currency that ended", object{"currency": "HRK"}, "currency", []string{"ISO 4217"}},
		{"currency in small letters", object{"currency": "eur"}, "currency", []string{"EUR"}},
		{"gold", object{"currency": "XAU"}, "currency", []string{"ISO 4217"}},
		{"type", object{"type": "proforma"}, "type", []string{"invoice, credit_note"}},
		{"credit note of nothing", object{"type": "credit_note"}, "reference", []string{"is missing", "credits"}},
		{"invoice with a reference", object{"reference": "A-0"}, "reference", []string{"credit notes only"}},
		{"credit note with a minus", object{"type": "credit_note", "reference": "A-0", "lines": []any{line("x", "-1", "100", "19")}},
			"lines", []string{"-119.00", "credit note are positive"}},
		{"locale", object{"locale": "tlh"}, "locale", []string{`"tlh" is not known; it can be en, en-GB`}},
		{"digits", object{"digits": "roman"}, "digits", []string{`"roman" is not known; it can be latn, beng, deva, arab`}},
		{"paper", object{"paper": "a4"}, "paper", []string{"A4, Letter"}},
		{"prepaid with too many decimals", object{"prepaid": "1.005"}, "prepaid", []string{"more decimals than the 2 of EUR"}},
		{"prepaid negative", object{"prepaid": "-1"}, "prepaid", []string{"must not be negative"}},
		{"wrong net", object{"totals": object{"net": "99.99"}}, "totals.net", []string{`"99.99"`, "100.00 EUR"}},
		{"wrong tax", object{"totals": object{"net": "100", "tax": "19.01"}}, "totals.tax", []string{`"19.01"`, "19.00 EUR"}},
		{"wrong gross", object{"totals": object{"gross": "118"}}, "totals.gross", []string{`"118"`, "119.00 EUR"}},
		{"wrong due", object{"totals": object{"due": "119"}, "prepaid": "19"}, "totals.due", []string{`"119"`, "100.00 EUR"}},
		{"iban", object{"payment": object{"iban": "DE89370400440532013001"}}, "payment.iban", []string{"check digits"}},
		{"not an iban", object{"payment": object{"iban": "12345"}}, "payment.iban", []string{"is not an IBAN"}},
		{"bic", object{"payment": object{"bic": "COBADEFFXX"}}, "payment.bic", []string{"8 or 11"}},
		{"line too large", lines(line("x", "999999999999", "9999", "19")), "lines[0]", []string{"15 digits"}},
		{"sum too large", lines(line("x", "900000000000", "1000", "19")), "lines", []string{"1071000000000000", "15 digits"}},
		{"too many line breaks", one("description", strings.Repeat("\n", 50)+"x"), "lines[0].description", []string{"51 lines; at most 50"}},
		{"issuer as text", object{"issuer": "Seller"}, "issuer", []string{"must be an object"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			oneProblem(t, simple(t, tt.change), tt.field, tt.words...)
		})
	}
}

func TestParseRefusesWhatIsNoDocument(t *testing.T) {
	t.Parallel()
	good := string(simple(t, nil))
	tests := []struct{ name, raw, field, words string }{
		{"nothing", " \n", "document", "is empty"},
		{"half", good[:len(good)-1], "document", "is not JSON: line 1, column"},
		{"comma", "{\n  \"number\": \"1\",\n}", "document", "line 3, column 1"},
		{"two documents", good + "{}", "document", "after top-level value"},
		{"list", "[1,{\"a\":[]}]", "document", "is a list; it must be an object"},
		{"text", `"x"`, "document", "must be an object"},
		{"Latin-1", strings.Replace(good, "Seller", "Caf\xe9", 1), "document", "is not UTF-8"},
		{"too large", good[:len(good)-1] + strings.Repeat(" ", 1<<20) + "}", "document", "at most 1048576 (1 MiB)"},
		{"field twice", strings.Replace(good, `"currency"`, `"currency":"USD","currency"`, 1), "currency", "is given twice"},
		{"field twice within", strings.Replace(good, `"quantity"`, `"unit_price":"1","quantity"`, 1), "lines[0].unit_price", "is given twice"},
		{"null for what is needed", strings.Replace(good, `"currency":"EUR"`, `"currency":null`, 1), "currency", "is missing"},
		{"field in capitals", strings.Replace(good, `"currency"`, `"Currency":"EUR","currency"`, 1), "Currency", "not a field"},
		{"half a surrogate pair", strings.Replace(good, "Seller", `\ud83d`, 1), "issuer.name", "U+FFFD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			oneProblem(t, []byte(tt.raw), tt.field, tt.words)
		})
	}
}

func TestParseTellsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	list := problems(t, simple(t, object{
		"currency": "XYZ", "paper": "A3", "customer": object{"name": "\u202e"}, "due_date": "1999-01-01",
		"lines": []any{line("ok", "1", "1", "19"), line("x", "a", "1", "19"), object{"tax_rate": "-1"}},
	}))
	var fields []string
	for _, p := range list {
		fields = append(fields, p.Field)
	}
	want := "currency customer.name customer.address lines[1].quantity lines[2].tax_rate lines[2].description " +
		"lines[2].quantity lines[2].unit_price paper due_date"
	if got := strings.Join(fields, " "); !sameWords(got, want) {
		t.Errorf("problems are with\n%s, want\n%s", got, want)
	}
}

func sameWords(a, b string) bool {
	count := map[string]int{}
	for _, w := range strings.Fields(a) {
		count[w]++
	}
	for _, w := range strings.Fields(b) {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestParseCountsProblemsBeyondTheList(t *testing.T) {
	t.Parallel()
	lines := make([]any, 150)
	for i := range lines {
		lines[i] = line("x", "one", "1", "19")
	}
	list := problems(t, simple(t, object{"lines": lines}))
	last := list[len(list)-1]
	if len(list) != maxProblems+1 || last.Field != "document" || !strings.Contains(last.Message, "50 more problems") {
		t.Errorf("%d problems, the last %v", len(list), last)
	}
}

func TestParseTakesAThousandLinesAndNoMore(t *testing.T) {
	t.Parallel()
	if d := parse(t, manyLines(t, 1000)); len(d.Lines) != 1000 {
		t.Errorf("read %d lines", len(d.Lines))
	}
	oneProblem(t, manyLines(t, 1001), "lines", "has 1001 items; at most 1000")
}

func TestParseTakesNoTaxAtAll(t *testing.T) {
	t.Parallel()
	outside := object{"description": "x", "quantity": "1", "unit_price": "1", "tax_category": "O"}
	d := parse(t, simple(t, object{"lines": []any{outside}}))
	if got := d.Lines[0]; got.TaxCategory != CategoryOutside || !got.TaxRate.IsZero() {
		t.Errorf("read %+v", got)
	}
	parse(t, simple(t, object{"lines": []any{with(line("x", "1", "1", "0"), "tax_category", "L")}}))
}

func TestNames(t *testing.T) {
	t.Parallel()
	tests := []struct{ number, filename string }{
		{"2026-0042", "2026-0042.pdf"},
		{"INV/2026\\7:a*b?\"<>|", "INV-2026-7-a-b-----.pdf"},
		{"..", "-..pdf"},
		{".hidden", "-hidden.pdf"},
		{"con", "-con.pdf"},
		{"LPT1.x", "-LPT1.x.pdf"},
		{"Rč-№7", "Rč-№7.pdf"},
	}
	for _, tt := range tests {
		d := parse(t, simple(t, object{"number": tt.number}))
		if d.Key() != tt.number || d.Title() != "Invoice "+tt.number || d.Filename() != tt.filename {
			t.Errorf("%q: key %q, title %q, file %q, want file %q", tt.number, d.Key(), d.Title(), d.Filename(), tt.filename)
		}
	}
	credit := parse(t, simple(t, object{"type": "credit_note", "reference": "A-0"}))
	if credit.Title() != "Credit note A-1" {
		t.Errorf("title is %q", credit.Title())
	}
}
