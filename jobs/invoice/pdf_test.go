package invoice

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// awkward is a document at the bounds of what Parse takes.
func awkward(tb testing.TB) []byte {
	tb.Helper()
	wide := strings.Repeat("W", maxAddressLine)
	party := object{
		"name": strings.Repeat("Wide ", 39) + "Wider", "address": []any{wide, wide, wide, "12, Any Street", wide, wide, wide, wide},
		"tax_id": strings.Repeat("9", maxTaxID), "email": strings.Repeat("a", 60) + "@" + strings.Repeat("b", 60) + ".example",
	}
	quantity := with(with(line(strings.Repeat("Wm ", 300), "888888888888.888888", "999.888888", "19.123456"),
		"unit", strings.Repeat("W", maxUnit)), "discount_percent", "12.345678")
	price := with(with(line(strings.Repeat("W", 300), "-1", "888888888888.888888", "0"), "tax_category", "K"), "unit", "pcs")
	return simple(tb, object{
		"number": strings.Repeat("W", maxNumber), "currency": "KWD", "issuer": party, "customer": party, "lines": []any{quantity, price},
		"notes": strings.Repeat("x\n", 100) + "end", "paper": "Letter", "prepaid": "100000000000000",
		"payment": object{"reference": strings.Repeat("W", maxReference), "iban": "MT84MALT011000012345MTLCAST001S"},
	})
}

// shapes are documents of many shapes, by name.
func shapes(tb testing.TB) map[string][]byte {
	tb.Helper()
	taxes := make([]any, 90)
	for i := range taxes {
		taxes[i] = line(fmt.Sprintf("Taxed %d", i), "1", "10", fmt.Sprintf("%d.5", i))
	}
	tall := strings.TrimSpace(strings.Repeat("long line "+strings.Repeat("m", 28)+"\n", 49)) + "\nits end"
	return map[string][]byte{
		"example": Example(),
		"letter":  simple(tb, object{"paper": "Letter"}),
		"case 35": simple(tb, object{"lines": []any{line("Software Development Services", "1", "1", "19"),
			line("Software Development Services, with a description that has to go on for more than one line of this column", "160.25", "95.00", "19")}}),
		"many":    manyLines(tb, 300),
		"awkward": awkward(tb),
		"taxes":   simple(tb, object{"lines": taxes}),
		"tall row": simple(tb, object{"lines": []any{line("first", "1", "1", "19"),
			line(tall, "1", "1", "19"), line("last", "1", "1", "19")}}),
		"credit note": simple(tb, object{"type": "credit_note", "reference": "A-0", "lines": []any{line("Returned chair", "1", "100", "19"),
			with(line("Advice", "2", "10", "0"), "tax_category", "AE")}}),
	}
}

func TestPDFGivesItsTextBack(t *testing.T) {
	t.Parallel()
	yen := object{"currency": "JPY", "lines": []any{with(line("Sticker", "1", "8", "0"), "tax_category", "Z")}}
	tests := []struct {
		name string
		raw  []byte
		want []string
	}{
		{"example", Example(), []string{
			"Invoice 2026-0042", "Due date April 14, 2026",
			"Nordlicht Werkstatt für Möbel GmbH", "Große Brunnenstraße 17", "Tax ID DE123456789", "rechnung@nordlicht.example",
			"Καφέ Ακρόπολις & Fils SARL", "Αναστασία Παπαδοπούλου", "12 bis, rue de l’Église", "Issue date March 31, 2026",
			"assembled on site, packaging taken back", "Chair “Ærø”, beech, natural 16 pcs 112.50 19% 1,800.00",
			"12.5 h 78.00 19% 975.00", "6 tins 14.2875 19% 85.73", "Delivery Hamburg – Strasbourg 1 145.00 19% 145.00",
			"19% 4,406.13 837.16", "7% 49.80 3.49", "Net total €4,455.93", "Tax €840.65", "Total €5,296.58",
			"Prepaid -€1,000.00", "Amount due €4,296.58", "IBAN DE89 3704 0044 0532 0130 00", "BIC COBADEFFXXX",
			"The oak is oiled once more after half a year; we will call you for a date.", "Page 1 of 1",
		}},
		{"case 39: yen", simple(t, yen), []string{"Sticker 1 8 0% Z 8", "0% zero rated 8 0", "Net total ¥8", "Amount due ¥8"}},
		{"case 39: dinars", simple(t, object{"currency": "KWD"}), []string{"1 100.000 19% 100.000", "Amount due KWD 119.000"}},
		{"case 40: credit note", shapes(t)["credit note"], []string{"Credit note A-1", "Credits invoice A-0",
			"Returned chair 1 100.00 19% 100.00", "Advice 2 10.00 0% AE 20.00", "0% reverse charge 20.00 0.00", "Amount credited €139.00"}},
		{"case 35", shapes(t)["case 35"], []string{"1 Software Development Services 1 1.00 19% 1.00", "160.25 95.00 19% 15,223.75"}},
		// pdftotext prints every kind of space as a plain one.
		{"characters that share a glyph", simple(t, object{"notes": "µ μ · 5\u202f000\u00a0m · co\u2011op co\u2010op co-op · ∆Δ"}),
			[]string{"µ μ · 5 000 m · co\u2011op co\u2010op co-op · ∆Δ"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path, _ := write(t, parse(t, tt.raw))
			mustHold(t, text(t, path), tt.want...)
		})
	}
}

func TestPDFIsSound(t *testing.T) {
	t.Parallel()
	for name, raw := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, raw)
			path, report := write(t, d)
			mustHold(t, run(t, "qpdf", "--check", path), "PDF Version: 1.7", "No syntax or stream encoding errors found")
			mustHold(t, flat(run(t, "pdfinfo", path)), "Title: "+d.Title(), "Author: "+d.Issuer.Name, "Producer: Fenceline",
				fmt.Sprintf("Pages: %d", report.Pages))
			fonts := strings.Split(strings.TrimSpace(run(t, "pdffonts", path)), "\n")[2:]
			for _, f := range fonts { // embedded, a subset, with a map to Unicode
				if !strings.Contains(flat(f), "CID TrueType Identity-H yes yes yes") {
					t.Errorf("the font %s", f)
				}
			}
			if len(fonts) != 2 {
				t.Errorf("fonts are %q", fonts)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			mustHold(t, string(data), "/Lang(en)", `<rdf:li xml:lang="x-default">`+d.Title()+"</rdf:li>")
		})
	}
}

// A row has a cell for every column, also where nothing is printed.
func TestPDFHasTheStructureOfItsTable(t *testing.T) {
	t.Parallel()
	raw := simple(t, object{"lines": []any{with(line("One", "1", "10", "19"), "discount_percent", "5"), line("Two", "2", "10", "19")}})
	path, _ := write(t, parse(t, raw))
	got := flat(run(t, "pdfinfo", "-struct-text", path))
	header := `TH: /Scope /Column "`
	mustHold(t, got, `H1 (block) "Invoice A-1" Table (block) TR `+header+`Description" `+header+`Quantity" `+header+`Unit price" `+header+`Discount" `+
		header+`Tax" `+header+`Amount" TR TD "1" "One" TD "1" TD "10.00" TD "5%" TD "19%" TD "9.50" TR TD "2" "Two" TD "2" TD "10.00" TD TD "19%" TD "20.00" Table`,
		`TR TH: /Scope /Row "Amount due" TD "€35.11"`)
}

func TestPDFMetadataIsEscaped(t *testing.T) {
	t.Parallel()
	path, _ := write(t, parse(t, simple(t, object{"number": `<A&B>("\)`})))
	mustHold(t, run(t, "pdfinfo", path), `Invoice <A&B>("\)`)
	mustHold(t, run(t, "pdfinfo", "-meta", path), "Invoice &lt;A&amp;B&gt;(&#34;\\)")
}

func TestPDFIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	for name, raw := range shapes(t) {
		var group sync.WaitGroup
		shared := parse(t, raw)
		results := make([]bytes.Buffer, 4)
		for i := range results {
			group.Go(func() {
				d := shared
				if i%2 == 1 {
					d = parse(t, raw)
				}
				if _, err := d.WritePDF(&results[i]); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		for i := range results {
			if !bytes.Equal(results[i].Bytes(), results[0].Bytes()) {
				t.Errorf("%s: writing %d differs from the first", name, i)
			}
		}
	}
}

// pages is the text of every page.
func pages(tb testing.TB, path string) []string {
	tb.Helper()
	list := strings.Split(run(tb, "pdftotext", "-raw", path, "-"), "\f")
	list = list[:len(list)-1] // nothing follows the last form feed
	for i := range list {
		list[i] = flat(list[i])
	}
	return list
}

const tableHead = "Description Quantity Unit price Tax Amount"

func TestManyLinesGoOnOverPages(t *testing.T) {
	t.Parallel()
	d := parse(t, manyLines(t, 300))
	path, report := write(t, d)
	list := pages(t, path)
	if report.Pages != len(list) || len(list) < 8 {
		t.Fatalf("the report says %d pages, the file has %d", report.Pages, len(list))
	}
	whole := strings.Join(list, " ")
	for i := range d.Lines {
		want := fmt.Sprintf("%d %s %d pcs", i+1, description(i), i%7+1)
		if n := strings.Count(whole, want); n != 1 {
			t.Errorf("%q is there %d times", want, n)
		}
	}
	for i, page := range list {
		mustHold(t, page, fmt.Sprintf("Page %d of %d", i+1, len(list)), "Invoice A-1")
		if rows := strings.Count(page, "planed and oiled"); rows > 0 != strings.Contains(page, tableHead) {
			t.Errorf("page %d has %d rows and a head: %v", i+1, rows, strings.Contains(page, tableHead))
		}
	}
	mustHold(t, list[len(list)-1], "Tax rate Net Tax", "Net total", "Amount due")
}

// The end of a page falls everywhere: sums stay together, no head stands alone
// and none is missing.
func TestPageBreaksFallWell(t *testing.T) {
	t.Parallel()
	layouts := map[string]*Renderer{}
	for _, name := range []string{LayoutClassic, LayoutModern} {
		layouts[name] = renderer(t, Options{Style: Style{Layout: name}})
	}
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		for n := 22; n < 43; n++ {
			checkBreaks(t, layouts, fmt.Sprintf("%d lines", n), manyLines(t, n), true)
		}
	})
	t.Run("addresses", func(t *testing.T) {
		t.Parallel()
		for n := 38; n < 51; n++ { // the height of the addresses in printed lines
			address := make([]any, maxAddressLines)
			for i := range address {
				address[i] = strings.TrimSpace(strings.Repeat(strings.Repeat("W", 12)+" ", (n+i)/maxAddressLines))
			}
			raw := simple(t, object{"lines": []any{line("planed and oiled", "1", "1", "19")},
				"issuer": object{"name": "Seller", "address": address}})
			checkBreaks(t, layouts, fmt.Sprintf("an address of %d lines", n), raw, true)
		}
	})
	t.Run("more taxes than a page", func(t *testing.T) {
		t.Parallel()
		for n := 60; n < 96; n += 4 {
			lines := make([]any, n)
			for i := range lines {
				lines[i] = line("planed and oiled", "1", "10", fmt.Sprintf("%d.5", i))
			}
			checkBreaks(t, layouts, fmt.Sprintf("%d taxes", n), simple(t, object{"lines": lines}), false)
		}
	})
}

// checkBreaks looks at every page of a document whose lines are all "planed and
// oiled"; all its taxes stand on the page of the sums when together says so.
func checkBreaks(t *testing.T, layouts map[string]*Renderer, name string, raw []byte, together bool) {
	t.Helper()
	for layout, r := range layouts {
		path, _ := writeWith(t, r, parse(t, raw))
		checkBreaksOf(t, name+", "+layout, pages(t, path), together)
	}
}

func checkBreaksOf(t *testing.T, name string, list []string, together bool) {
	t.Helper()
	for i, page := range list {
		if strings.Contains(page, tableHead) != strings.Contains(page, "planed and oiled") {
			t.Errorf("%s: page %d has a head without lines, or lines without a head", name, i+1)
		}
		sums := strings.Contains(page, "Net total €")
		if together && sums && !strings.Contains(page, "planed and oiled") {
			t.Errorf("%s: page %d has the sums and no line", name, i+1)
		}
		if sums != strings.Contains(page, "Total €") {
			t.Errorf("%s: page %d has a part of the sums only", name, i+1)
		}
		taxes := strings.Contains(page, "Tax rate Net Tax")
		if sums && !taxes || together && taxes != sums || !sums && !taxes && !strings.Contains(page, tableHead) && i > 0 {
			t.Errorf("%s: page %d has taxes: %v, sums: %v", name, i+1, taxes, sums)
		}
	}
}

func TestNothingIsCut(t *testing.T) {
	t.Parallel()
	all := shapes(t)
	tests := []struct {
		shape string
		wants []string
		count string
		n     int
	}{
		{"tall row", []string{"1 first 1", "3 last 1", "its end"}, "long line", 49},
		{"taxes", []string{"90 Taxed 89", "89.5% 10.00 8.95", "0.5% 10.00 0.05", "Amount due €1,305.00"}, "Taxed", 90},
		{"awkward", []string{"x end", "888,888,888,888.888888", "-888,888,888,888.889", "12.345678%", "19.123456%", "0% K",
			"12, Any Street", "MT84 MALT 0110 0001 2345 MTLC AST0 01S"}, "Wm", 300},
	}
	for _, tt := range tests {
		t.Run(tt.shape, func(t *testing.T) {
			t.Parallel()
			for _, layout := range []string{LayoutClassic, LayoutModern} {
				path, report := writeWith(t, renderer(t, Options{Style: Style{Layout: layout}}), parse(t, all[tt.shape]))
				got := text(t, path)
				mustHold(t, got, tt.wants...)
				if n := strings.Count(got, tt.count); n != tt.n {
					t.Errorf("%s: %q is there %d times, want %d", layout, tt.count, n, tt.n)
				}
				if report.Pages < 2 {
					t.Errorf("%s: it has %d pages", layout, report.Pages)
				}
			}
		})
	}
}

func TestReportWarns(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change object
		want   string
	}{
		{"nothing to say", nil, "[]"},
		{"negative", object{"lines": []any{line("x", "-1", "100", "19")}}, "[the total is negative (-119.00 EUR): a credit note is the usual document for that]"},
		{"paid too much", object{"prepaid": "120"}, "[more was prepaid (120.00 EUR) than the document is for]"},
	}
	for _, tt := range tests {
		if _, report := write(t, parse(t, simple(t, tt.change))); fmt.Sprint(report.Warnings) != tt.want {
			t.Errorf("%s: warnings are %v, want %s", tt.name, report.Warnings, tt.want)
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWritePDFTellsOfAFailedWrite(t *testing.T) {
	t.Parallel()
	if _, err := parse(t, simple(t, nil)).WritePDF(fullDisk{}); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "A-1") {
		t.Errorf("the error is %v", err)
	}
}
