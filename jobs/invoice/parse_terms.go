package invoice

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// termsFields are the fields of a document about when, where and on what terms.
func (r *reader) termsFields(d *Document) []field {
	return []field{
		{"reference_date", false, func(p string, t json.Token) { d.ReferenceDate = r.date(p, t) }},
		{"tax_point_date", false, func(p string, t json.Token) { d.TaxPointDate = r.date(p, t) }},
		{"tax_point", false, func(p string, t json.Token) {
			d.TaxPoint = TaxPoint(r.choice(p, t, string(TaxPointIssue), string(TaxPointDelivery), string(TaxPointPayment)))
		}},
		{"period", false, func(p string, t json.Token) { d.Period = r.period(p, t) }},
		{"delivery", false, func(p string, t json.Token) { r.object(p, t, r.deliveryFields(&d.Delivery)) }},
		{"allowances", false, func(p string, t json.Token) { d.Allowances = r.adjustments(p, t, documentAllowance) }},
		{"charges", false, func(p string, t json.Token) { d.Charges = r.adjustments(p, t, documentCharge) }},
		{"tax_exemptions", false, func(p string, t json.Token) {
			r.list(p, t, maxExemptions, func(p string, t json.Token) { d.Exemptions = append(d.Exemptions, r.exemption(p, t)) })
		}},
		{"cash_rounding", false, func(p string, t json.Token) {
			var ok bool
			if d.CashRounding, ok = r.positive(p, t, 4, maxDecimals, ""); ok && d.CashRounding.IsZero() {
				r.add(p, "0", `must be above 0: it is the smallest coin, such as "0.05"`)
			}
		}},
	}
}

func (r *reader) orderFields(o *Orders) []field {
	return []field{
		{"buyer_reference", false, func(p string, t json.Token) { o.Buyer = r.text(p, t, maxReference) }},
		{"order_reference", false, func(p string, t json.Token) { o.Order = r.text(p, t, maxReference) }},
		{"sales_order_reference", false, func(p string, t json.Token) { o.Sales = r.text(p, t, maxReference) }},
		{"contract_reference", false, func(p string, t json.Token) { o.Contract = r.text(p, t, maxReference) }},
	}
}

func (r *reader) deliveryFields(d *Delivery) []field {
	return []field{
		{"name", false, func(p string, t json.Token) { d.Name = r.text(p, t, maxName) }},
		{"address", false, func(p string, t json.Token) { d.Address = r.address(p, t) }},
		{"postal", false, func(p string, t json.Token) { r.object(p, t, r.postalFields(&d.Postal)) }},
		{"date", false, func(p string, t json.Token) { d.Date = r.date(p, t) }},
		{"period", false, func(p string, t json.Token) { d.Period = r.period(p, t) }},
	}
}

// period reads a span of days: one end is enough (BR-CO-19, BR-CO-20), and it
// does not end before it begins (BR-29, BR-30).
func (r *reader) period(path string, tok json.Token) Period {
	var p Period
	before := r.count()
	r.object(path, tok, []field{
		{"from", false, func(path string, t json.Token) { p.From = r.date(path, t) }},
		{"to", false, func(path string, t json.Token) { p.To = r.date(path, t) }},
	})
	switch {
	case r.count() > before:
	case p.IsZero():
		r.add(path, "", "is empty; write from, to or both (EN 16931 BR-CO-19, BR-CO-20)")
	case !p.From.IsZero() && !p.To.IsZero() && p.To.Before(p.From):
		r.add(join(path, "to"), p.To.Format(time.DateOnly), "is before from %s (EN 16931 BR-29, BR-30)", p.From.Format(time.DateOnly))
	}
	return p
}

func (r *reader) exemption(path string, tok json.Token) Exemption {
	var e Exemption
	before := r.count()
	r.object(path, tok, []field{
		{"category", true, func(p string, t json.Token) { e.Category = r.category(p, t) }},
		{"reason", false, func(p string, t json.Token) { e.Reason = r.text(p, t, maxReason) }},
		{"code", false, func(p string, t json.Token) {
			e.Code = r.code(p, t, isVATEX, `a code of the VATEX list, such as "VATEX-EU-132"`)
		}},
	})
	if r.count() == before && e.Reason == "" && e.Code == "" {
		r.add(join(path, "reason"), "", "is missing; write the reason, its code or both")
	}
	return e
}

func (r *reader) paymentFields(p *Payment) []field {
	return []field{
		{"iban", false, func(path string, t json.Token) { p.IBAN = r.iban(path, t) }},
		{"bic", false, func(path string, t json.Token) { p.BIC = r.bic(path, t) }},
		{"reference", false, func(path string, t json.Token) { p.Reference = r.text(path, t, maxReference) }},
		{"means", false, func(path string, t json.Token) {
			p.Means = r.code(path, t, isPaymentMeans, `a payment means code of UNTDID 4461, such as "58" for a SEPA credit transfer, `+
				`"30" for another, "48" for a card, "59" for a SEPA direct debit`)
		}},
		{"means_text", false, func(path string, t json.Token) { p.MeansText = r.text(path, t, maxName) }},
		{"accounts", false, func(path string, t json.Token) {
			r.list(path, t, maxAccounts, func(path string, t json.Token) { p.Accounts = append(p.Accounts, r.account(path, t)) })
		}},
		{"card", false, func(path string, t json.Token) { r.object(path, t, r.cardFields(&p.Card)) }},
		{"mandate", false, func(path string, t json.Token) { r.object(path, t, r.mandateFields(&p.Mandate)) }},
		{"terms", false, func(path string, t json.Token) { p.Terms = r.prose(path, t, maxTerms, maxDescriptionLines) }},
	}
}

func (r *reader) account(path string, tok json.Token) Account {
	var a Account
	before := r.count()
	r.object(path, tok, []field{
		{"iban", false, func(p string, t json.Token) { a.IBAN = r.iban(p, t) }},
		{"number", false, func(p string, t json.Token) { a.Number = r.text(p, t, maxShort) }},
		{"bic", false, func(p string, t json.Token) { a.BIC = r.bic(p, t) }},
		{"name", false, func(p string, t json.Token) { a.Name = r.text(p, t, maxName) }},
	})
	if r.count() == before && (a.IBAN == "") == (a.Number == "") {
		r.add(join(path, "iban"), a.IBAN, "must be there, or else number, but not both (EN 16931 BR-50)")
	}
	return a
}

func (r *reader) cardFields(c *Card) []field {
	return []field{
		{"number", true, func(p string, t json.Token) {
			c.Number = r.code(p, t, isCardNumber, "what may be kept of a card's number: its last 4 to 6 digits, or the first 6 "+
				`and the last 4 with stars between, such as "411111******1111" (EN 16931 BR-51)`)
		}},
		{"holder", false, func(p string, t json.Token) { c.Holder = r.text(p, t, maxName) }},
	}
}

func (r *reader) mandateFields(m *Mandate) []field {
	return []field{
		{"reference", true, func(p string, t json.Token) { m.Reference = r.text(p, t, maxReference) }},
		{"creditor_id", false, func(p string, t json.Token) { m.Creditor = r.text(p, t, maxShort) }},
		{"iban", false, func(p string, t json.Token) { m.IBAN = r.iban(p, t) }},
	}
}

// claim reads a sum that the sender computed.
func (r *reader) claim(path string, tok json.Token) *decimal.Decimal {
	if d, ok := r.decimal(path, tok, 15, maxDecimals); ok {
		return &d
	}
	return nil
}

// settleAccounts makes the short form and the list of accounts say the same.
func (r *reader) settleAccounts(p *Payment) {
	switch {
	case len(p.Accounts) > 0 && (p.IBAN != "" || p.BIC != ""):
		r.add("payment.accounts", "", "stands beside iban or bic; put every account into the list")
	case len(p.Accounts) > 0:
		p.IBAN, p.BIC = p.Accounts[0].IBAN, p.Accounts[0].BIC
	case p.IBAN != "":
		p.Accounts = []Account{{IBAN: p.IBAN, BIC: p.BIC}}
	}
	p.Accounts = slices.Clip(p.Accounts)
}
