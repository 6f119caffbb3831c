package invoice

import (
	"encoding/json"
	"slices"

	"github.com/shopspring/decimal"
)

// Limits on a document, so that one cannot fill a disk.
const (
	maxLines            = 1000
	maxNumber           = 64
	maxName             = 200
	maxAddressLines     = 8
	maxAddressLine      = 120
	maxTaxID            = 50
	maxDescription      = 2000
	maxDescriptionLines = 50
	maxUnit             = 20
	maxNotes            = 10000
	maxNoteLines        = 300
	maxReference        = 140 // SEPA remittance information
	maxAdjustments      = 50
	maxAccounts         = 10
	maxExemptions       = 9 // one per category
	maxReason           = 500
	maxTerms            = 2000
)

// claims are the sums that the sender computed; nil where none was given.
type claims struct {
	lines, allowances, charges, net, tax, gross, rounding, due *decimal.Decimal
	amounts                                                    []*decimal.Decimal // of the lines
}

// Parse reads an invoice document: one JSON object of at most 1 MiB and 1,000
// lines, amounts as decimal text. It is strict: a field that it does not know,
// a field given twice, a JSON number for an amount, text that cannot be printed
// and sums that do not add up are all refused. The error is then an
// [*invalid.Error] with every problem by its path, such as "lines[2].tax_rate".
//
// Text comes out in Unicode normal form C. Parse may be called by several
// goroutines at once and keeps nothing of raw.
func Parse(raw []byte) (*Document, error) {
	r, err := newReader(raw)
	if err != nil {
		return nil, err
	}
	d := &Document{Type: TypeInvoice, Locale: "en", Paper: PaperA4}
	var sums claims
	r.object("", r.next(), r.documentFields(d, &sums))
	r.checkDocument(d, sums)
	if err := r.err(); err != nil {
		return nil, err
	}
	for _, p := range []*Party{&d.Issuer, &d.Customer} {
		p.Address = printed(p.Address, p.Postal, d.Locale)
	}
	d.Delivery.Address = printed(d.Delivery.Address, d.Delivery.Postal, d.Locale)
	return d, nil
}

func (r *reader) documentFields(d *Document, sums *claims) []field {
	return slices.Concat([]field{
		{"number", true, func(p string, t json.Token) { d.Number = r.visible(p, t, maxNumber) }},
		{"type", false, func(p string, t json.Token) {
			d.Type = Type(r.choice(p, t, string(TypeInvoice), string(TypeCreditNote)))
		}},
		{"reference", false, func(p string, t json.Token) { d.Reference = r.visible(p, t, maxNumber) }},
		{"issue_date", true, func(p string, t json.Token) { d.IssueDate = r.date(p, t) }},
		{"due_date", false, func(p string, t json.Token) { d.DueDate = r.date(p, t) }},
		{"currency", true, func(p string, t json.Token) { d.Currency = r.currency(p, t) }},
		{"issuer", true, func(p string, t json.Token) { r.party(p, t, &d.Issuer) }},
		{"customer", true, func(p string, t json.Token) { r.party(p, t, &d.Customer) }},
		{"lines", true, func(p string, t json.Token) {
			r.list(p, t, maxLines, func(p string, t json.Token) { d.Lines = append(d.Lines, r.line(p, t, sums)) })
		}},
		{"prepaid", false, func(p string, t json.Token) {
			d.Prepaid, _ = r.positive(p, t, 15, maxDecimals, "")
		}},
		{"totals", false, func(p string, t json.Token) { r.object(p, t, r.claimFields(sums)) }},
		{"payment", false, func(p string, t json.Token) { r.object(p, t, r.paymentFields(&d.Payment)) }},
		{"notes", false, func(p string, t json.Token) { d.Notes = r.prose(p, t, maxNotes, maxNoteLines) }},
		{"locale", false, func(p string, t json.Token) { d.Locale = r.choice(p, t, localeList()...) }},
		{"digits", false, func(p string, t json.Token) {
			d.Digits = r.choice(p, t, DigitsLatin, DigitsBengali, DigitsDevanagari, DigitsArabic)
		}},
		{"paper", false, func(p string, t json.Token) {
			d.Paper = Paper(r.choice(p, t, string(PaperA4), string(PaperLetter)))
		}},
		{"logo", false, func(p string, t json.Token) { d.Logo, _ = r.picture(p, t) }},
	}, r.termsFields(d), r.orderFields(&d.Orders))
}

func (r *reader) claimFields(c *claims) []field {
	claim := func(name string, into **decimal.Decimal) field {
		return field{name, false, func(p string, t json.Token) {
			if d, ok := r.decimal(p, t, 15, maxDecimals); ok {
				*into = &d
			}
		}}
	}
	return []field{
		claim("lines", &c.lines), claim("allowances", &c.allowances), claim("charges", &c.charges), claim("net", &c.net),
		claim("tax", &c.tax), claim("gross", &c.gross), claim("rounding", &c.rounding), claim("due", &c.due),
	}
}

func (r *reader) category(path string, tok json.Token) Category {
	text, ok := tok.(string)
	if !ok {
		r.refuse(path, tok, "one of "+categoryList)
		return ""
	}
	if !Category(text).known() {
		r.add(path, text, "is not a tax category; it can be %s", categoryList)
		return ""
	}
	return Category(text)
}
