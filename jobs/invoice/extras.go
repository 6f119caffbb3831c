package invoice

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

// entry is a row of the table: a line of the document, or an allowance or
// charge on its sum.
type entry struct {
	field, text, unit string
	amount, rate      decimal.Decimal
	category          Category
}

// tableEntries are the lines, then the document's allowances and charges, in
// the order in which they are printed.
func (l *layout) tableEntries() []entry {
	out := make([]entry, 0, len(l.doc.Lines)+len(l.doc.Allowances)+len(l.doc.Charges))
	for i, line := range l.doc.Lines {
		out = append(out, entry{
			field: index("lines", i) + ".description", text: l.lineText(i), unit: line.Unit, amount: l.sums.Lines[i],
		})
	}
	for i, a := range l.doc.Allowances {
		out = append(out, l.adjustmentEntry(index("allowances", i), a, l.sums.Allowances[i].Amount.Neg(), l.words.terms().allowances))
	}
	for i, a := range l.doc.Charges {
		out = append(out, l.adjustmentEntry(index("charges", i), a, l.sums.Charges[i].Amount, l.words.terms().charges))
	}
	return out
}

func (l *layout) adjustmentEntry(path string, a Adjustment, amount decimal.Decimal, name string) entry {
	return entry{field: path + ".reason", text: l.reasonText(a, name), amount: amount, rate: a.TaxRate, category: a.TaxCategory}
}

// reasonText says what an adjustment is for; by default what its list is called.
func (l *layout) reasonText(a Adjustment, name string) string {
	if a.Reason != "" {
		name = l.words.isolated(a.Reason)
	}
	if a.ByPercent {
		name += " (" + l.words.percent(a.Percent).text + ")"
	}
	return name
}

// lineText is the description of a line, its note, and what was taken off it or
// added to it.
func (l *layout) lineText(i int) string {
	line, parts := l.doc.Lines[i], l.sums.LineParts[i]
	text := []string{line.Description}
	if line.ItemCode != "" {
		text = append(text, l.words.isolated(line.ItemCode))
	}
	if line.Note != "" {
		text = append(text, line.Note)
	}
	if !line.Period.IsZero() {
		text = append(text, l.span(line.Period))
	}
	add := func(list []Adjustment, amounts []Amount, name string, sign func(decimal.Decimal) decimal.Decimal) {
		for i, a := range list {
			amount := l.words.money(sign(amounts[i].Amount), l.doc.Currency)
			text = append(text, l.reasonText(a, name)+": "+l.words.isolated(amount))
		}
	}
	words := l.words.terms()
	if l.look.shows(ColumnPrice) && !l.look.shows(ColumnDiscount) && !line.DiscountPercent.IsZero() { // or the amount would look wrong
		off := l.words.money(parts.Discount.Neg(), l.doc.Currency)
		text = append(text, l.words.discount+" ("+l.words.percent(line.DiscountPercent).text+"): "+l.words.isolated(off))
	}
	add(line.Allowances, parts.Allowances, words.allowances, decimal.Decimal.Neg)
	add(line.Charges, parts.Charges, words.charges, func(d decimal.Decimal) decimal.Decimal { return d })
	return strings.Join(text, "\n")
}

// span is a period in words.
func (l *layout) span(p Period) string {
	words := l.words.terms()
	switch {
	case p.To.IsZero():
		return fmt.Sprintf(words.from, l.words.day(p.From))
	case p.From.IsZero():
		return fmt.Sprintf(words.until, l.words.day(p.To))
	}
	return l.words.day(p.From) + " – " + l.words.day(p.To)
}

// moreFacts are the facts that only some documents have.
func (l *layout) moreFacts() []fact {
	d, words := l.doc, l.words.terms()
	period := func(p Period) string {
		if p.IsZero() {
			return ""
		}
		return l.span(p)
	}
	rows := []fact{
		{"period", words.period, period(d.Period)},
		{"buyer_reference", words.yourReference, l.isolatedText(d.Orders.Buyer)},
		{"order_reference", words.order, l.isolatedText(d.Orders.Order)},
		{"contract_reference", words.contract, l.isolatedText(d.Orders.Contract)},
	}
	if !d.TaxPointDate.IsZero() {
		rows = append(rows, fact{"tax_point_date", words.taxPointOn, l.words.day(d.TaxPointDate)})
	}
	if !d.Delivery.Date.IsZero() {
		rows = append(rows, fact{"delivery.date", words.deliveredOn, l.words.day(d.Delivery.Date)})
	}
	if d.Delivery.Period != d.Period {
		rows = append(rows, fact{"delivery.period", words.deliveredOn, period(d.Delivery.Period)})
	}
	place := strings.Join(append([]string{d.Delivery.Name}, d.Delivery.Address...), ", ")
	rows = append(rows, fact{"delivery.address", words.deliveredTo, strings.TrimPrefix(place, ", ")})
	return withValues(rows)
}

// moreOfParty is what only some parties have.
func (l *layout) moreOfParty(field string, p Party) []fact {
	words := l.words.terms()
	var rows []fact
	add := func(name, label, value string) {
		if value != "" {
			rows = append(rows, fact{field + "." + name, "", strings.TrimSpace(label + " " + l.words.isolated(value))})
		}
	}
	if p.VATID != p.TaxID {
		add("vat_id", words.vatID, p.VATID)
	}
	add("registration.id", words.registration, p.Registration.ID)
	add("contact.name", "", p.Contact.Name)
	add("contact.phone", "", p.Contact.Phone)
	if p.Contact.Email != p.Email {
		add("contact.email", "", p.Contact.Email)
	}
	return rows
}

// paymentFacts say how to pay: every account, then what goes with it.
func (l *layout) paymentFacts(p Payment) []fact {
	words := l.words.terms()
	rows := []fact{{"payment.means_text", words.means, p.MeansText}}
	for i, a := range p.Accounts {
		path := "payment" // the short form for one account
		if len(p.Accounts) > 1 {
			path = index("payment.accounts", i)
		}
		rows = append(rows,
			fact{path + ".iban", l.words.iban, groupsOfFour(a.IBAN)}, fact{path + ".number", words.account, a.Number},
			fact{path + ".bic", l.words.bic, a.BIC}, fact{path + ".name", "", a.Name})
	}
	if len(p.Accounts) == 0 { // a bank alone
		rows = append(rows, fact{"payment.bic", l.words.bic, p.BIC})
	}
	return append(rows,
		fact{"payment.card.number", words.card, strings.TrimSpace(p.Card.Number + " " + p.Card.Holder)},
		fact{"payment.mandate.reference", words.mandate, p.Mandate.Reference},
		fact{"payment.mandate.iban", words.account, groupsOfFour(p.Mandate.IBAN)},
		fact{"payment.reference", l.words.paymentRef, p.Reference},
		fact{"payment.terms", words.terms, p.Terms})
}

func (l *layout) isolatedText(s string) string {
	if s == "" {
		return ""
	}
	return l.words.isolated(s)
}

func withValues(rows []fact) []fact {
	kept := rows[:0]
	for _, row := range rows {
		if row.value != "" {
			kept = append(kept, row)
		}
	}
	return kept
}
