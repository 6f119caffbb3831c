package invoice

import (
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// labels are the words and the number signs of one language.
type labels struct {
	invoice, creditNote                       string
	from, to                                  string
	number, issued, due, currency, credits    string
	taxID                                     string
	description, quantity, price              string
	discount, tax, amount                     string
	taxRate, taxBase, taxAmount               string
	net, taxTotal, gross, prepaid             string
	amountDue, amountCredited                 string
	amountDueBy                               string // %s is the date
	payment, iban, bic, paymentRef            string
	notes                                     string
	pageOf                                    string // %[1]d of %[2]d
	zero, exempt, reverse, intra, export, out string
	months                                    [12]string
	decimalSign, groupSign                    string
}

// locales are the languages that labelsFor knows.
const locales = "en"

// labelsFor gives the labels of a locale. A new language is a new case here and
// in locales.
func labelsFor(locale string) (*labels, bool) {
	if locale == "en" {
		return english(), true
	}
	return nil, false
}

func labelsOrEnglish(locale string) *labels {
	if l, ok := labelsFor(locale); ok {
		return l
	}
	return english()
}

func english() *labels {
	return &labels{
		invoice: "Invoice", creditNote: "Credit note",
		from: "From", to: "Bill to",
		number: "Number", issued: "Issue date", due: "Due date", currency: "Currency", credits: "Credits invoice",
		taxID:       "Tax ID",
		description: "Description", quantity: "Quantity", price: "Unit price",
		discount: "Discount", tax: "Tax", amount: "Amount",
		taxRate: "Tax rate", taxBase: "Net", taxAmount: "Tax",
		net: "Net total", taxTotal: "Tax", gross: "Total", prepaid: "Prepaid",
		amountDue: "Amount due", amountCredited: "Amount credited",
		amountDueBy: "Amount due by %s",
		payment:     "Payment", iban: "IBAN", bic: "BIC", paymentRef: "Reference",
		notes:  "Notes",
		pageOf: "Page %[1]d of %[2]d",
		zero:   "zero rated", exempt: "exempt", reverse: "reverse charge", intra: "intra-community supply",
		export: "export", out: "not subject to tax",
		months: [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
			"October", "November", "December"},
		decimalSign: ".", groupSign: ",",
	}
}

// date writes the month as a word, so that no one reads the day for the month.
func (l *labels) date(t time.Time) string {
	return strconv.Itoa(t.Day()) + " " + l.months[t.Month()-1] + " " + strconv.Itoa(t.Year())
}

// fixed writes d with exactly places decimals and groups of three digits.
func (l *labels) fixed(d decimal.Decimal, places int32) string {
	text := d.Abs().StringFixed(places)
	whole, fraction, _ := strings.Cut(text, ".")
	var b strings.Builder
	if d.Round(places).IsNegative() {
		b.WriteByte('-')
	}
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteString(l.groupSign)
		}
		b.WriteRune(digit)
	}
	if fraction != "" {
		b.WriteString(l.decimalSign)
		b.WriteString(fraction)
	}
	return b.String()
}

// exact writes all decimals of d that are not trailing zeros, at least places.
func (l *labels) exact(d decimal.Decimal, places int32) string {
	_, fraction, _ := strings.Cut(d.String(), ".") // String drops trailing zeros
	return l.fixed(d, max(places, int32(len(fraction))))
}

// money writes an amount with the currency's sign or, where that is not known
// in every language or font, its code.
func (l *labels) money(d decimal.Decimal, c Currency) string {
	sign := c.symbol()
	if sign == "" {
		sign = c.Code + " "
	}
	text := l.fixed(d, c.Minor)
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		return "-" + sign + rest
	}
	return sign + text
}

func (l *labels) percent(d decimal.Decimal) string { return l.exact(d, 0) + "%" }

// taxName is the rate and, where the rate alone does not say it, why.
func (l *labels) taxName(c Category, rate decimal.Decimal) string {
	why := ""
	switch c {
	case CategoryZero:
		why = l.zero
	case CategoryExempt:
		why = l.exempt
	case CategoryReverseCharge:
		why = l.reverse
	case CategoryIntraCommunity:
		why = l.intra
	case CategoryExport:
		why = l.export
	case CategoryOutside:
		return l.out
	case CategoryCanary:
		why = "IGIC"
	case CategoryCeuta:
		why = "IPSI"
	}
	return strings.TrimSpace(l.percent(rate) + " " + why)
}
