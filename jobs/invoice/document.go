package invoice

import (
	"strings"
	"time"
	"unicode"

	"github.com/shopspring/decimal"
)

// Type says which way the money of a document moves.
type Type string

// The types of document.
const (
	TypeInvoice    Type = "invoice"     // the customer owes the amount
	TypeCreditNote Type = "credit_note" // the customer gets the amount back
)

// Paper is a page size.
type Paper string

// The paper sizes.
const (
	PaperA4     Paper = "A4"     // 210 × 297 mm
	PaperLetter Paper = "Letter" // 8.5 × 11 in
)

// Document is one invoice or credit note. [Parse] is what makes one: only then
// are its rules known to hold. Treat it as read only; it may then be used by
// several goroutines at once.
type Document struct {
	Number    string // 1–64 visible characters
	Type      Type
	Reference string // number of the invoice that a credit note credits
	IssueDate time.Time
	DueDate   time.Time // zero when there is none
	Currency  Currency
	Issuer    Party
	Customer  Party
	Lines     []Line
	Prepaid   decimal.Decimal // paid before this document was issued, never negative
	Notes     string          // may hold line breaks
	Payment   Payment
	Locale    string // language of the labels, a BCP 47 tag
	Digits    string // numbering system; "" is the locale's own
	Paper     Paper
	Logo      []byte // a PNG or JPEG file; nil when there is none
}

// Party is who issues or receives a document.
type Party struct {
	Name    string
	Address []string // as printed, from the street to the country
	TaxID   string
	Email   string
}

// Payment says where to pay. Every field may be empty.
type Payment struct {
	IBAN      string // without spaces
	BIC       string
	Reference string // what the payer should quote
}

// Line is one thing that is charged.
type Line struct {
	Description     string // may hold line breaks
	Quantity        decimal.Decimal
	Unit            string
	UnitPrice       decimal.Decimal // net of tax, never negative
	DiscountPercent decimal.Decimal // 0 to 100
	TaxRate         decimal.Decimal // percent, 0 to 100
	TaxCategory     Category
}

// Key names the document among its kind: the invoice number.
func (d *Document) Key() string { return d.Number }

// Title is the document's name for a person, in its own language, such as
// "Invoice 2026-0042".
func (d *Document) Title() string {
	l := localeOrEnglish(d.Locale)
	return documentLabel(l, d.Type) + " " + l.isolated(d.Number)
}

// Filename is a name to show when the PDF is saved: the number with the
// characters that some file system refuses replaced by "-". Two numbers can
// share a Filename ("A/1" and "A:1"); it is for display, not for identity.
func (d *Document) Filename() string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || unicode.IsControl(r) || unicode.IsSpace(r) {
			return '-'
		}
		return r
	}, d.Number)
	if strings.HasPrefix(name, ".") { // hidden on Unix, and ".." is a folder
		name = "-" + name[1:]
	}
	if name == "" || isDeviceName(name) {
		name = "-" + name
	}
	return name + ".pdf"
}

// isDeviceName reports whether Windows would open a device instead of a file
// of this name, whatever its extension.
func isDeviceName(name string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch stem {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "COM" || stem[:3] == "LPT") && stem[3] >= '0' && stem[3] <= '9'
}

// documentLabel is what the document calls itself.
func documentLabel(l *locale, t Type) string {
	if t == TypeCreditNote {
		return l.creditNote
	}
	return l.invoice
}
