package einvoice

import (
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fenceline/fenceline/jobs/invoice"
)

// profile is the specification that the invoices keep to (BT-24).
const profile = "urn:cen.eu:en16931:2017"

// draft is a document with its sums on the way into one of the syntaxes.
type draft struct {
	*invoice.Document
	sums invoice.Totals
}

// outside reports whether the document is outside the scope of VAT; then it
// carries no VAT identifier and no rate (BR-O-02, BR-O-05).
func outside(d *invoice.Document) bool {
	return len(d.Lines) > 0 && d.Lines[0].TaxCategory == invoice.CategoryOutside
}

// vatID is the VAT identifier of a party (BT-31, BT-48): the one that it gave as
// such, or a tax number that begins with the code of its country.
func (d draft) vatID(p invoice.Party) string { return vatID(d.Document, p) }

func vatID(d *invoice.Document, p invoice.Party) string {
	if p.VATID != "" || outside(d) {
		return p.VATID
	}
	country := p.Postal.Country
	prefix, id := country, strings.ReplaceAll(p.TaxID, " ", "")
	if country == "GR" {
		prefix = "EL"
	}
	if country == "" || !strings.HasPrefix(id, prefix) || !strings.ContainsAny(id, "0123456789") ||
		strings.Trim(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ+*") != "" {
		return ""
	}
	return id
}

// taxNumber is what a party gave as a tax number that is no VAT identifier
// (BT-32).
func taxNumber(d *invoice.Document, p invoice.Party) string {
	id := vatID(d, p)
	if id != "" && strings.ReplaceAll(p.TaxID, " ", "") == id {
		return ""
	}
	return p.TaxID
}

// buyerID identifies the customer (BT-46). EN 16931 has no place for a tax
// number of the customer that is no VAT identifier, so it stands here.
func (d draft) buyerID() invoice.Identifier {
	if d.Customer.Identifier.ID != "" {
		return d.Customer.Identifier
	}
	return invoice.Identifier{ID: taxNumber(d.Document, d.Customer)}
}

// contact is whom to ask at a party.
func contact(p invoice.Party) invoice.Contact {
	c := p.Contact
	if c.Email == "" {
		c.Email = p.Email
	}
	return c
}

// period is what the document charges for (BG-14): EN 16931 has one period for
// this and for a delivery that took longer than a day.
func (d draft) period() invoice.Period {
	if d.Period.IsZero() {
		return d.Delivery.Period
	}
	return d.Period
}

// means is the payment means code (BT-81): as given, or what follows from what
// is known about the payment; "" when nothing is.
func (d draft) means() string {
	p, euro := d.Payment, d.Currency.Code == "EUR"
	switch {
	case p.Means != "":
		return p.Means
	case p.Mandate.Reference != "" && euro:
		return "59" // SEPA direct debit
	case p.Mandate.Reference != "":
		return "49" // direct debit
	case p.Card.Number != "":
		return "48" // bank card
	case len(p.Accounts) > 0 && euro && p.Accounts[0].IBAN != "":
		return "58" // SEPA credit transfer
	case len(p.Accounts) > 0:
		return "30" // credit transfer
	case p.Reference != "" || p.MeansText != "":
		return "1" // instrument not defined
	}
	return ""
}

// itemName is the first line of a description (BT-153), itemText the rest
// (BT-154).
func itemName(l invoice.Line) string {
	name, _, _ := strings.Cut(strings.TrimSpace(l.Description), "\n")
	return strings.TrimSpace(name)
}

func itemText(l invoice.Line) string {
	_, rest, _ := strings.Cut(strings.TrimSpace(l.Description), "\n")
	return strings.TrimSpace(rest)
}

// money is an amount with the decimals of the document's currency.
func (d draft) money(a decimal.Decimal) string { return a.StringFixed(d.Currency.Minor) }

// moneyUnlessZero is for amounts that are left out when there are none.
func (d draft) moneyUnlessZero(a decimal.Decimal) string {
	if a.IsZero() {
		return ""
	}
	return d.money(a)
}

// rate is a rate of tax; what is outside the scope of tax has none.
func rate(c invoice.Category, percent decimal.Decimal) string {
	if c == invoice.CategoryOutside {
		return ""
	}
	return percent.String()
}

// adjustment is an allowance or a charge of a line or of the document.
type adjustment struct {
	charge       bool
	amount, base decimal.Decimal
	percent      string // empty when it was given as an amount
	reason, code string
	category     invoice.Category // empty on a line
	rate         decimal.Decimal
}

func adjustments(list []invoice.Adjustment, sums []invoice.Amount, charge bool) []adjustment {
	out := make([]adjustment, len(list))
	for i, a := range list {
		out[i] = adjustment{
			charge: charge, amount: sums[i].Amount, base: sums[i].Base,
			reason: a.Reason, code: a.ReasonCode, category: a.TaxCategory, rate: a.TaxRate,
		}
		if a.ByPercent {
			out[i].percent = a.Percent.String()
		}
	}
	return out
}

// ofDocument are the allowances, then the charges of the document.
func (d draft) ofDocument() []adjustment {
	return append(adjustments(d.Allowances, d.sums.Allowances, false), adjustments(d.Charges, d.sums.Charges, true)...)
}

// ofLine are those of line i; its discount is the first allowance.
func (d draft) ofLine(i int) []adjustment {
	l, parts := d.Lines[i], d.sums.LineParts[i]
	var out []adjustment
	if !l.DiscountPercent.IsZero() {
		out = append(out, adjustment{
			amount: parts.Discount, base: parts.Gross, percent: l.DiscountPercent.String(), reason: "Discount", code: "95",
		})
	}
	out = append(out, adjustments(l.Allowances, parts.Allowances, false)...)
	return append(out, adjustments(l.Charges, parts.Charges, true)...)
}

// day is a date in one of the two ways that the syntaxes write it; "" for the
// zero time.
func day(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(layout)
}

// unitCode is the unit of a line as a code of UN/ECE Recommendation 20 (BT-130):
// the one given, one for a line without a unit, or that of a unit whose printed
// name leaves no doubt; "" otherwise.
func unitCode(l invoice.Line) string {
	if l.UnitCode != "" {
		return l.UnitCode
	}
	unit := strings.ToLower(strings.TrimSuffix(l.Unit, "."))
	if unit == "" {
		return "C62" // one
	}
	if code := measure(unit); code != "" {
		return code
	}
	switch unit {
	case "pcs", "pc", "piece", "pieces", "stk", "stück", "pce":
		return "H87"
	case "h", "hr", "hrs", "hour", "hours", "std", "stunden":
		return "HUR"
	case "min", "minute", "minutes":
		return "MIN"
	case "day", "days", "tag", "tage", "jour", "jours":
		return "DAY"
	case "week", "weeks":
		return "WEE"
	case "month", "months", "monat", "monate", "mois":
		return "MON"
	case "year", "years":
		return "ANN"
	}
	return ""
}

// measure is the code of a physical unit.
func measure(unit string) string {
	switch unit {
	case "kg":
		return "KGM"
	case "g":
		return "GRM"
	case "km":
		return "KMT"
	case "cm":
		return "CMT"
	case "mm":
		return "MMT"
	case "m":
		return "MTR"
	case "m²", "m2", "qm":
		return "MTK"
	case "m³", "m3":
		return "MTQ"
	case "l", "litre", "litres":
		return "LTR"
	case "kwh":
		return "KWH"
	}
	return ""
}
