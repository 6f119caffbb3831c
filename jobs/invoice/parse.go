package invoice

import (
	"encoding/json"

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
)

// claims are the sums that the sender computed; nil where none was given.
type claims struct {
	net, tax, gross, due *decimal.Decimal
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
	return d, nil
}

func (r *reader) documentFields(d *Document, sums *claims) []field {
	return []field{
		{"number", true, func(p string, t json.Token) { d.Number = r.visible(p, t, maxNumber) }},
		{"type", false, func(p string, t json.Token) {
			d.Type = Type(r.choice(p, t, string(TypeInvoice), string(TypeCreditNote)))
		}},
		{"reference", false, func(p string, t json.Token) { d.Reference = r.visible(p, t, maxNumber) }},
		{"issue_date", true, func(p string, t json.Token) { d.IssueDate = r.date(p, t) }},
		{"due_date", false, func(p string, t json.Token) { d.DueDate = r.date(p, t) }},
		{"currency", true, func(p string, t json.Token) { d.Currency = r.currency(p, t) }},
		{"issuer", true, func(p string, t json.Token) { r.object(p, t, r.partyFields(&d.Issuer)) }},
		{"customer", true, func(p string, t json.Token) { r.object(p, t, r.partyFields(&d.Customer)) }},
		{"lines", true, func(p string, t json.Token) {
			r.list(p, t, maxLines, func(p string, t json.Token) { d.Lines = append(d.Lines, r.line(p, t)) })
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
	}
}

func (r *reader) partyFields(p *Party) []field {
	return []field{
		{"name", true, func(path string, t json.Token) { p.Name = r.text(path, t, maxName) }},
		{"address", true, func(path string, t json.Token) {
			r.list(path, t, maxAddressLines, func(path string, t json.Token) {
				p.Address = append(p.Address, r.text(path, t, maxAddressLine))
			})
		}},
		{"tax_id", false, func(path string, t json.Token) { p.TaxID = r.text(path, t, maxTaxID) }},
		{"email", false, func(path string, t json.Token) { p.Email = r.email(path, t) }},
	}
}

func (r *reader) paymentFields(p *Payment) []field {
	return []field{
		{"iban", false, func(path string, t json.Token) { p.IBAN = r.iban(path, t) }},
		{"bic", false, func(path string, t json.Token) { p.BIC = r.bic(path, t) }},
		{"reference", false, func(path string, t json.Token) { p.Reference = r.text(path, t, maxReference) }},
	}
}

func (r *reader) claimFields(c *claims) []field {
	claim := func(name string, into **decimal.Decimal) field {
		return field{name, false, func(p string, t json.Token) {
			if d, ok := r.decimal(p, t, 15, maxDecimals); ok {
				*into = &d
			}
		}}
	}
	return []field{claim("net", &c.net), claim("tax", &c.tax), claim("gross", &c.gross), claim("due", &c.due)}
}

// line reads one line and, when all of it could be read, how its tax rate and
// category go together.
func (r *reader) line(path string, tok json.Token) Line {
	var l Line
	before, rateGiven := r.count(), false
	r.object(path, tok, []field{
		{"description", true, func(p string, t json.Token) {
			l.Description = r.prose(p, t, maxDescription, maxDescriptionLines)
		}},
		{"quantity", true, func(p string, t json.Token) { l.Quantity, _ = r.decimal(p, t, maxDigits, maxDecimals) }},
		{"unit", false, func(p string, t json.Token) { l.Unit = r.text(p, t, maxUnit) }},
		{"unit_price", true, func(p string, t json.Token) {
			l.UnitPrice, _ = r.positive(p, t, maxDigits, maxDecimals,
				": use a negative quantity for what is taken back, or a credit note (EN 16931 BR-27)")
		}},
		{"discount_percent", false, func(p string, t json.Token) { l.DiscountPercent, _ = r.percent(p, t) }},
		{"tax_rate", false, func(p string, t json.Token) {
			rateGiven = true
			l.TaxRate, _ = r.percent(p, t)
		}},
		{"tax_category", false, func(p string, t json.Token) { l.TaxCategory = r.category(p, t) }},
	})
	if r.count() == before {
		r.checkTax(path, &l, rateGiven)
	}
	return l
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
