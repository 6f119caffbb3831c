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
	Reference string // number of the invoice that a credit note credits (BT-25)
	// ReferenceDate is when that invoice was issued (BT-26); zero when not given.
	ReferenceDate time.Time
	IssueDate     time.Time
	DueDate       time.Time // zero when there is none
	TaxPointDate  time.Time // when the tax became due, if not by TaxPoint (BT-7); zero when not given
	TaxPoint      TaxPoint  // which event makes the tax due (BT-8); may be empty
	Period        Period    // what the document charges for (BG-14)
	Currency      Currency
	Orders        Orders
	Issuer        Party
	Customer      Party
	Delivery      Delivery
	Lines         []Line
	Allowances    []Adjustment    // taken off the sum of the lines (BG-20)
	Charges       []Adjustment    // added to it (BG-21)
	Exemptions    []Exemption     // why a tax category is not taxed, at most one per category
	Prepaid       decimal.Decimal // paid before this document was issued, never negative
	// CashRounding is the smallest coin that the amount due is rounded to, such
	// as 0.05; zero when it is not rounded.
	CashRounding decimal.Decimal
	Notes        string // may hold line breaks
	Payment      Payment
	Locale       string // language of the labels, a BCP 47 tag
	Digits       string // numbering system; "" is the locale's own
	Paper        Paper
	Logo         []byte // a PNG or JPEG file; nil when there is none
}

// Party is who issues or receives a document.
type Party struct {
	Name        string   // BT-27, BT-44
	TradingName string   // BT-28, BT-45
	Address     []string // as printed, from the street to the country
	Postal      Postal   // the same in parts; Postal.Country is "" when not given
	// TaxID is printed as it is; VATID is the one for trade between countries,
	// with the country before it (BT-31, BT-48).
	TaxID        string
	VATID        string
	Identifier   Identifier // BT-29, BT-46
	Registration Identifier // in the register of companies (BT-30, BT-47)
	Electronic   Identifier // where e-invoices go to (BT-34, BT-49)
	Contact      Contact    // BG-6, BG-9
	Email        string
}

// Payment says where to pay. Every field may be empty.
type Payment struct {
	IBAN      string // of the first account, without spaces
	BIC       string // of the first account
	Reference string // what the payer should quote (BT-83)
	Means     string // code of UNTDID 4461 (BT-81)
	MeansText string // the same in words (BT-82)
	Accounts  []Account
	Card      Card
	Mandate   Mandate
	Terms     string // when and how to pay, in words (BT-20); may hold line breaks
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
	ID              string       // BT-126; when empty the line's place counts
	Note            string       // BT-127; may hold line breaks
	ItemCode        string       // the issuer's for the item (BT-155)
	BuyerItemCode   string       // the customer's for it (BT-156)
	StandardItem    Identifier   // such as a GTIN, scheme 0160 (BT-157)
	UnitCode        string       // of UN/ECE Recommendation 20 or 21 (BT-130)
	Allowances      []Adjustment // BG-27, beside DiscountPercent
	Charges         []Adjustment // BG-28
	Period          Period       // BG-26
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
