package invoice

import (
	"time"

	"github.com/shopspring/decimal"
)

// TaxPoint is the event that makes the tax of a document due (BT-8).
type TaxPoint string

// The events.
const (
	TaxPointIssue    TaxPoint = "issue"    // the document was issued
	TaxPointDelivery TaxPoint = "delivery" // the goods were delivered
	TaxPointPayment  TaxPoint = "payment"  // the money came
)

// Period is a span of days, both ends included. An end that is zero is open;
// both are zero when there is no period.
type Period struct {
	From, To time.Time
}

// IsZero reports whether there is no period.
func (p Period) IsZero() bool { return p.From.IsZero() && p.To.IsZero() }

// Orders are the names that the customer and the issuer have for what this
// document belongs to. Each may be empty.
type Orders struct {
	Buyer    string // who or what pays, in the customer's words (BT-10)
	Order    string // number of the customer's order (BT-13)
	Sales    string // number of that order in the issuer's books (BT-14)
	Contract string // BT-12
}

// Identifier is a name under which registers know something.
type Identifier struct {
	ID     string // empty when there is none
	Scheme string // code of the register: of ISO 6523, or of the EAS list for an electronic address
}

// Contact is whom to ask. Every field may be empty.
type Contact struct {
	Name, Phone, Email string
}

// Delivery says what went where and when (BG-13). Every field may be empty.
type Delivery struct {
	Name    string    // who received it (BT-70)
	Address []string  // where to, as printed
	Postal  Postal    // the same in parts (BG-15)
	Date    time.Time // BT-72; zero when not given
	Period  Period    // when the delivery took longer than a day (BG-14)
}

// Account is a place to pay to (BG-17). Either IBAN or Number is set.
type Account struct {
	IBAN   string // without spaces
	Number string // where there are no IBANs
	BIC    string
	Name   string // of its owner
}

// ID is the account's IBAN or other number (BT-84).
func (a Account) ID() string {
	if a.IBAN != "" {
		return a.IBAN
	}
	return a.Number
}

// Card is the payment card that is charged (BG-18).
type Card struct {
	Number string // what may be shown of it: at most its first 6 and its last 4 digits
	Holder string
}

// Mandate is the customer's permission to debit an account (BG-19).
type Mandate struct {
	Reference string // BT-89
	Creditor  string // identifier of who debits (BT-90)
	IBAN      string // the account that is debited (BT-91)
}

// Adjustment is an allowance or a charge, whichever list it is in. What it
// comes to is in [Totals].
type Adjustment struct {
	Amount  decimal.Decimal // when ByPercent is false; never negative
	Percent decimal.Decimal // when ByPercent is true: 0 to 100, of Base
	// Base is what Percent is taken of. When OwnBase is false it is the sum of
	// the document's lines, or the line's quantity times its unit price.
	Base               decimal.Decimal
	ByPercent, OwnBase bool
	Reason             string
	ReasonCode         string          // of UNTDID 5189 for an allowance, 7161 for a charge
	TaxRate            decimal.Decimal // of the document's adjustments; a line's are taxed like the line
	TaxCategory        Category
}

// Exemption is why a tax category is not taxed (BT-120, BT-121).
type Exemption struct {
	Category Category
	Reason   string
	Code     string // of the VATEX list
}

// Exemption is why what is in category c is not taxed: what the document says,
// or the one reason that the category stands for. Both are empty for category E
// when the document gives none, and for categories that are taxed.
func (d *Document) Exemption(c Category) Exemption {
	for _, e := range d.Exemptions {
		if e.Category == c {
			return e
		}
	}
	switch c {
	case CategoryReverseCharge:
		return Exemption{c, "Reverse charge", "VATEX-EU-AE"}
	case CategoryIntraCommunity:
		return Exemption{c, "Intra-community supply", "VATEX-EU-IC"}
	case CategoryExport:
		return Exemption{c, "Export outside the EU", "VATEX-EU-G"}
	case CategoryOutside:
		return Exemption{c, "Not subject to VAT", "VATEX-EU-O"}
	}
	return Exemption{Category: c}
}
