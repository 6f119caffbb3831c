package einvoice

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
)

// element is an element of an e-invoice that was read back.
type element struct {
	name, text string
	attrs      map[string]string
	kids       []*element
}

// readBack reads XML with a reader that shares nothing with the writer.
func readBack(tb testing.TB, data []byte) *element {
	tb.Helper()
	dec := xml.NewDecoder(bytes.NewReader(data))
	root := &element{}
	stack := []*element{root}
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return root.kids[0]
		}
		if err != nil {
			tb.Fatalf("%v in %s", err, data)
		}
		top := stack[len(stack)-1]
		switch v := tok.(type) {
		case xml.StartElement:
			if v.Name.Space == "" {
				tb.Fatalf("%s has no namespace", v.Name.Local)
			}
			e := &element{name: v.Name.Local, attrs: map[string]string{}}
			for _, a := range v.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			top.kids, stack = append(top.kids, e), append(stack, e)
		case xml.CharData:
			top.text += string(v)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
}

// all are the elements at a path below e.
func (e *element) all(path string) []*element {
	name, rest, more := strings.Cut(path, "/")
	var out []*element
	for _, k := range e.kids {
		if k.name != name {
			continue
		}
		if !more {
			out = append(out, k)
			continue
		}
		out = append(out, k.all(rest)...)
	}
	return out
}

// sum adds what stands at a path below e; nothing is zero.
func (e *element) sum(tb testing.TB, path string) decimal.Decimal {
	tb.Helper()
	var sum decimal.Decimal
	for _, k := range e.all(path) {
		d, err := decimal.NewFromString(k.text)
		if err != nil {
			tb.Fatalf("%s is %q", path, k.text)
		}
		sum = sum.Add(d)
	}
	return sum
}

// syntax is where things stand in one of the two.
type syntax struct {
	line, lineNet, adjustment, charge, amount, group, groupNet, groupTax, groupRate, category string
	lines, allowances, charges, net, tax, gross, prepaid, rounding, due                       string
}

func syntaxes() map[string]syntax {
	const settlement = "SupplyChainTradeTransaction/ApplicableHeaderTradeSettlement/"
	const sums = settlement + "SpecifiedTradeSettlementHeaderMonetarySummation/"
	return map[string]syntax{
		"UBL": {
			line: "InvoiceLine", lineNet: "LineExtensionAmount", adjustment: "AllowanceCharge", charge: "ChargeIndicator", amount: "Amount",
			group: "TaxTotal/TaxSubtotal", groupNet: "TaxableAmount", groupTax: "TaxAmount", groupRate: "TaxCategory/Percent", category: "TaxCategory/ID",
			lines: "LegalMonetaryTotal/LineExtensionAmount", allowances: "LegalMonetaryTotal/AllowanceTotalAmount",
			charges: "LegalMonetaryTotal/ChargeTotalAmount", net: "LegalMonetaryTotal/TaxExclusiveAmount", tax: "TaxTotal/TaxAmount",
			gross: "LegalMonetaryTotal/TaxInclusiveAmount", prepaid: "LegalMonetaryTotal/PrepaidAmount",
			rounding: "LegalMonetaryTotal/PayableRoundingAmount", due: "LegalMonetaryTotal/PayableAmount",
		},
		"CII": {
			line: "SupplyChainTradeTransaction/IncludedSupplyChainTradeLineItem", adjustment: settlement + "SpecifiedTradeAllowanceCharge",
			lineNet: "SpecifiedLineTradeSettlement/SpecifiedTradeSettlementLineMonetarySummation/LineTotalAmount",
			charge:  "ChargeIndicator/Indicator", amount: "ActualAmount", group: settlement + "ApplicableTradeTax", groupNet: "BasisAmount",
			groupTax: "CalculatedAmount", groupRate: "RateApplicablePercent", category: "CategoryCode",
			lines: sums + "LineTotalAmount", allowances: sums + "AllowanceTotalAmount", charges: sums + "ChargeTotalAmount",
			net: sums + "TaxBasisTotalAmount", tax: sums + "TaxTotalAmount", gross: sums + "GrandTotalAmount",
			prepaid: sums + "TotalPrepaidAmount", rounding: sums + "RoundingAmount", due: sums + "DuePayableAmount",
		},
	}
}

// agree holds the rules of EN 16931 about sums against the XML alone.
func agree(tb testing.TB, name string, root *element, at syntax, minor int32) {
	tb.Helper()
	if root.name == "CreditNote" {
		at.line = "CreditNoteLine"
	}
	var lines, allowances, charges, tax, groups decimal.Decimal
	for _, l := range root.all(at.line) {
		lines = lines.Add(l.sum(tb, at.lineNet))
	}
	for _, a := range root.all(at.adjustment) {
		if a.all(at.charge)[0].text == "true" {
			charges = charges.Add(a.sum(tb, at.amount))
		} else {
			allowances = allowances.Add(a.sum(tb, at.amount))
		}
	}
	var categories []string
	for _, g := range root.all(at.group) {
		want := g.sum(tb, at.groupNet).Mul(g.sum(tb, at.groupRate)).Shift(-2).Round(minor)
		if got := g.sum(tb, at.groupTax); !got.Equal(want) {
			tb.Errorf("%s BR-CO-17: tax is %s, want %s", name, got, want)
		}
		tax, groups = tax.Add(g.sum(tb, at.groupTax)), groups.Add(g.sum(tb, at.groupNet))
		categories = append(categories, g.all(at.category)[0].text)
	}
	sum := func(path string) decimal.Decimal { return root.sum(tb, path) }
	for rule, pair := range map[string][2]decimal.Decimal{
		"BR-CO-10": {sum(at.lines), lines},
		"BR-CO-11": {sum(at.allowances), allowances},
		"BR-CO-12": {sum(at.charges), charges},
		"BR-CO-13": {sum(at.net), lines.Sub(allowances).Add(charges)},
		"BR-CO-14": {sum(at.tax), tax},
		"BR-CO-15": {sum(at.gross), sum(at.net).Add(sum(at.tax))},
		"BR-CO-16": {sum(at.due), sum(at.gross).Sub(sum(at.prepaid)).Add(sum(at.rounding))},
		"BR-CO-18": {groups, sum(at.net)},
	} {
		if !pair[0].Equal(pair[1]) {
			tb.Errorf("%s %s: is %s, want %s", name, rule, pair[0], pair[1])
		}
	}
	for _, c := range []string{"Z", "E", "AE", "K", "G", "O"} { // BR-Z-01, BR-E-01 … BR-O-01
		if n := len(slices.DeleteFunc(slices.Clone(categories), func(have string) bool { return have != c })); n > 1 {
			tb.Errorf("%s: there are %d groups of category %s", name, n, c)
		}
	}
}

// lineParts holds the parts of every line against its net.
func lineParts(tb testing.TB, name string, root *element, minor int32) {
	tb.Helper()
	for _, l := range slices.Concat(root.all("InvoiceLine"), root.all("CreditNoteLine")) {
		quantity := l.sum(tb, "InvoicedQuantity").Add(l.sum(tb, "CreditedQuantity"))
		net := quantity.Mul(l.sum(tb, "Price/PriceAmount")).Round(minor)
		for _, a := range l.all("AllowanceCharge") {
			if a.all("ChargeIndicator")[0].text == "true" {
				net = net.Add(a.sum(tb, "Amount"))
			} else {
				net = net.Sub(a.sum(tb, "Amount"))
			}
		}
		if got := l.sum(tb, "LineExtensionAmount"); !got.Equal(net) {
			tb.Errorf("%s: the net of a line is %s, its parts give %s", name, got, net)
		}
	}
}

// amountsAreShort holds every amount against BR-DEC; prices may be longer.
func amountsAreShort(tb testing.TB, name string, e *element) {
	tb.Helper()
	for _, k := range e.kids {
		if strings.HasSuffix(k.name, "Amount") && k.name != "PriceAmount" && k.name != "ChargeAmount" {
			if _, fraction, _ := strings.Cut(k.text, "."); len(fraction) > 2 {
				tb.Errorf("%s BR-DEC: %s is %s", name, k.name, k.text)
			}
		}
		amountsAreShort(tb, name, k)
	}
}

func holds(tb testing.TB, name string, d *invoice.Document) {
	tb.Helper()
	for kind, data := range map[string][]byte{"UBL": ubl21(tb, d), "CII": cii16(tb, d)} {
		root := readBack(tb, data)
		agree(tb, name+" "+kind, root, syntaxes()[kind], d.Currency.Minor)
		amountsAreShort(tb, name+" "+kind, root)
		at := syntaxes()[kind]
		if due := root.sum(tb, at.due); !due.Equal(d.Totals().Due) {
			tb.Errorf("%s %s: due is %s, the page says %s", name, kind, due, d.Totals().Due)
		}
		if kind == "UBL" {
			lineParts(tb, name, root, d.Currency.Minor)
		}
	}
}

func TestSumsAgreeInBothSyntaxes(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		holds(t, name, docs[name])
	}
}

func TestTextComesBackAsItWas(t *testing.T) {
	t.Parallel()
	d := documents(t)["odd text"]
	if got := readBack(t, ubl21(t, d)); got.all("Note")[0].text != d.Notes || got.all("ID")[0].text != d.Number {
		t.Errorf("UBL gives %q and %q", got.all("Note")[0].text, got.all("ID")[0].text)
	}
	if got := readBack(t, cii16(t, d)).all("ExchangedDocument/IncludedNote/Content")[0].text; got != d.Notes {
		t.Errorf("CII gives %q", got)
	}
}

func TestCreditNotesAreOfTheirOwnType(t *testing.T) {
	t.Parallel()
	d := documents(t)["credit"]
	root := readBack(t, ubl21(t, d))
	text := func(path string) string {
		if found := root.all(path); len(found) > 0 {
			return found[0].text
		}
		return ""
	}
	for path, want := range map[string]string{
		"CreditNoteTypeCode": "381", "BillingReference/InvoiceDocumentReference/ID": "A-0",
		"BillingReference/InvoiceDocumentReference/IssueDate": "2025-12-01", "PaymentMeans/PaymentDueDate": "2026-01-16",
		"LegalMonetaryTotal/PayableAmount": "109.18", "CreditNoteLine/CreditedQuantity": "2",
	} {
		if root.name != "CreditNote" || text(path) != want {
			t.Errorf("%s: %s is %q, want %q", root.name, path, text(path), want)
		}
	}
	// The order in which UBL 2.1 has the head of a credit note.
	var order []string
	for _, k := range root.kids {
		if n := len(order); n == 0 || order[n-1] != k.name {
			order = append(order, k.name)
		}
	}
	want := "CustomizationID ID IssueDate TaxPointDate CreditNoteTypeCode DocumentCurrencyCode BillingReference AccountingSupplierParty " +
		"AccountingCustomerParty PaymentMeans PaymentTerms AllowanceCharge TaxTotal LegalMonetaryTotal CreditNoteLine"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("the order is\n%s, want\n%s", got, want)
	}
	if got := readBack(t, cii16(t, d)).all("ExchangedDocument/TypeCode")[0].text; got != "381" {
		t.Errorf("the type in CII is %s", got)
	}
}

// FuzzWrite: any JSON gives a refusal or a document; a document gives a refusal
// or two e-invoices that can be read and whose sums agree.
func FuzzWrite(f *testing.F) {
	f.Add(full(f))
	for _, change := range []object{
		nil, {"type": "credit_note", "reference": "A-0"}, {"currency": "JPY", "cash_rounding": "10"}, {"notes": "<&>\u2028"},
		{"lines": []any{line("-0.5", "0.000001", "0", "Z"), line("1", "2", "99.999999", "S")}, "prepaid": "7"},
		{"allowances": []any{object{"percent": "33.3", "reason": "x", "tax_rate": "7"}}},
	} {
		f.Add(marshal(f, document(change)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := invoice.Parse(raw)
		if err != nil {
			return
		}
		if err := Check(d); err != nil {
			if _, ok := errors.AsType[*invalid.Error](err); !ok {
				t.Fatal(err)
			}
			return
		}
		holds(t, "fuzzed", d)
	})
}

// FuzzAmounts: the same for amounts and texts of any kind in a document that is
// valid otherwise.
func FuzzAmounts(f *testing.F) {
	f.Add("4", "389.00", "10", "19", "5", "2.50", "0.05", "EUR", "Scratched")
	f.Add("-1.5", "0.005", "33.333", "9.975", "100", "0", "1", "JPY", "]]>")
	f.Add("999999999999", "0.000001", "0", "0.000001", "0.5", "99.99", "10", "CHF", "\ufffe")
	f.Fuzz(func(t *testing.T, quantity, price, discount, rate, percent, amount, coin, currency, text string) {
		d, err := invoice.Parse(marshal(t, document(object{
			"currency": currency, "cash_rounding": coin, "prepaid": amount, "notes": text,
			"lines": []any{with(line(quantity, price, rate, "S"), object{
				"discount_percent": discount, "description": text, "allowances": []any{object{"percent": percent, "reason": text}},
				"charges": []any{object{"amount": amount, "reason": text}},
			}), line("1", "100", "19", "S")},
			"allowances": []any{object{"percent": percent, "reason": text, "tax_rate": rate}},
			"charges":    []any{object{"amount": amount, "reason_code": "FC", "tax_rate": "19"}},
		})))
		if err != nil {
			return
		}
		if err := Check(d); err != nil {
			if _, ok := errors.AsType[*invalid.Error](err); !ok {
				t.Fatal(err)
			}
			return
		}
		holds(t, "fuzzed", d)
	})
}
