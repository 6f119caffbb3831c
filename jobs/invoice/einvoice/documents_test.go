package einvoice

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice"
)

// object is a JSON object that a test changes before it is parsed.
type object = map[string]any

func with(o object, change object) object {
	out := maps.Clone(o)
	for name, value := range change {
		if value == nil {
			delete(out, name)
			continue
		}
		out[name] = value
	}
	return out
}

func seller() object {
	return object{
		"name": "Seller", "vat_id": "DE123456788", "registration": object{"id": "HRB 1"},
		"electronic_address": object{"id": "s@example.com", "scheme": "EM"},
		"postal":             object{"street": []any{"Street 1"}, "city": "Town", "postal_code": "12345", "country": "DE"},
	}
}

func buyer() object {
	return object{
		"name": "Buyer", "vat_id": "FR40303265045", "electronic_address": object{"id": "b@example.com", "scheme": "EM"},
		"postal": object{"street": []any{"Road 2"}, "city": "City", "postal_code": "67000", "country": "FR"},
	}
}

func line(quantity, price, rate, category string) object {
	return object{"description": "Thing", "quantity": quantity, "unit_price": price, "tax_rate": rate, "tax_category": category}
}

// document is a small one in which change replaces fields.
func document(change object) object {
	return with(object{
		"number": "A-1", "issue_date": "2026-01-02", "due_date": "2026-01-16", "currency": "EUR",
		"issuer": seller(), "customer": buyer(), "lines": []any{line("1", "100.00", "19", "S")},
	}, change)
}

func marshal(tb testing.TB, o object) []byte {
	tb.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func parse(tb testing.TB, raw []byte) *invoice.Document {
	tb.Helper()
	d, err := invoice.Parse(raw)
	if err != nil {
		tb.Fatalf("parse %s: %v", raw, err)
	}
	return d
}

func ubl21(tb testing.TB, d *invoice.Document) []byte {
	tb.Helper()
	var out bytes.Buffer
	if err := WriteUBL(&out, d, d.Totals()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func cii16(tb testing.TB, d *invoice.Document) []byte {
	tb.Helper()
	var out bytes.Buffer
	if err := WriteCII(&out, d, d.Totals()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func full(tb testing.TB) []byte {
	tb.Helper()
	raw, err := os.ReadFile("testdata/full.json")
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// example is the example of the package, with addresses to send it to.
func example(tb testing.TB) []byte {
	tb.Helper()
	var doc map[string]any
	if err := json.Unmarshal(invoice.Example(), &doc); err != nil {
		tb.Fatal(err)
	}
	for _, name := range []string{"issuer", "customer"} { // the strangers want them; EN 16931 does not
		doc[name].(object)["electronic_address"] = object{"id": name + "@example.com", "scheme": "EM"}
	}
	return marshal(tb, doc)
}

func delivered() object {
	return object{"date": "2025-12-30", "postal": object{"city": "Lyon", "country": "FR"}}
}

// documents are one of each kind that a rule speaks about.
func documents(tb testing.TB) map[string]*invoice.Document {
	tb.Helper()
	unnamed := func(party object) object {
		return with(party, object{"vat_id": nil, "registration": object{"id": "7", "scheme": "0002"}})
	}
	all := map[string]object{
		"small": {},
		"credit": {"type": "credit_note", "reference": "A-0", "reference_date": "2025-12-01", "tax_point_date": "2025-12-31",
			"payment":    object{"iban": "DE89370400440532013000", "reference": "A-1", "terms": "We pay you"},
			"allowances": []any{object{"amount": "5.00", "reason": "Fee", "tax_rate": "19"}},
			"lines":      []any{with(line("2", "50", "19", "S"), object{"discount_percent": "10"}), line("1", "7.5", "7", "S")}},
		"credit without payment": {"type": "credit_note", "reference": "A-0"},
		"zero rated":             {"lines": []any{line("1", "100", "0", "Z"), line("1", "100", "19", "S")}},
		"exempt": {"lines": []any{line("3", "9.99", "0", "E")},
			"tax_exemptions": []any{object{"category": "E", "reason": "Small business"}}},
		"reverse charge": {"lines": []any{line("1", "100", "0", "AE")}},
		"within the EU":  {"lines": []any{line("1", "100", "0", "K")}, "delivery": delivered()},
		"export":         {"lines": []any{line("1", "100", "0", "G")}},
		"outside": {"issuer": unnamed(seller()), "customer": unnamed(buyer()), "charges": []any{
			object{"percent": "10", "reason_code": "FC", "tax_category": "O"}},
			"lines": []any{with(line("1", "100", "", "O"), object{"tax_rate": nil})}},
		"Canary Islands": {"lines": []any{line("1", "100", "7", "L")}},
		"Ceuta":          {"lines": []any{line("1", "100", "4", "M")}},
		"taken back":     {"lines": []any{line("1", "8500", "19", "S"), with(line("-1", "7500", "19", "S"), object{"discount_percent": "3"})}},
		"nothing":        {"lines": []any{with(line("3", "19.99", "19", "S"), object{"discount_percent": "100"})}},
		"halves":         {"lines": []any{line("1", "8180", "9.975", "S"), line("1", "0.005", "7.5", "S")}},
		"yen":            {"currency": "JPY", "lines": []any{line("3", "80", "10", "S")}},
		"francs": {"currency": "CHF", "cash_rounding": "0.05", "lines": []any{line("1", "10.03", "8.1", "S")}, "prepaid": "1.01",
			"payment": object{"accounts": []any{object{"number": "01-39139-1", "name": "Seller"}}}},
		"overpaid":     {"prepaid": "200"},
		"card":         {"payment": object{"card": object{"number": "411111******1111", "holder": "B. Uyer"}}},
		"direct debit": {"payment": object{"mandate": object{"reference": "M-7", "creditor_id": "DE98ZZZ09999999999", "iban": "FR1420041010050500013M02606"}}},
		"instalments":  {"due_date": nil, "payment": object{"terms": "Half now\nhalf later", "means": "10", "means_text": "Cash"}},
		"tax point":    {"tax_point_date": "2025-12-31", "delivery": object{"period": object{"from": "2025-12-01", "to": "2025-12-31"}}},
		"sales order":  {"sales_order_reference": "S-1", "tax_point": "payment"},
		"odd text":     {"notes": "a < b && \"c\" > 'd'\n]]>  two  spaces ", "number": "<&>"},
	}
	out := map[string]*invoice.Document{"full": parse(tb, full(tb)), "example": parse(tb, example(tb))}
	for name, change := range all {
		out[name] = parse(tb, marshal(tb, document(change)))
	}
	return out
}
