package invoice

import (
	"encoding/json"

	"github.com/shopspring/decimal"
)

// line reads one line and, when all of it could be read, how its tax rate and
// category go together.
func (r *reader) line(path string, tok json.Token, sums *claims) Line {
	var l Line
	var amount *decimal.Decimal
	before, rateGiven := r.count(), false
	fields := append(r.lineFields(&l), field{"amount", false, func(p string, t json.Token) { amount = r.claim(p, t) }})
	r.object(path, tok, append(fields, r.taxFields(&l.TaxCategory, &l.TaxRate, &rateGiven)...))
	sums.amounts = append(sums.amounts, amount)
	if r.count() == before {
		r.checkTax(path, &l.TaxCategory, l.TaxRate, rateGiven)
	}
	return l
}

// taxFields are how something is taxed, and whether it says its rate.
func (r *reader) taxFields(c *Category, rate *decimal.Decimal, given *bool) []field {
	return []field{
		{"tax_rate", false, func(p string, t json.Token) {
			*given = true
			*rate, _ = r.percent(p, t)
		}},
		{"tax_category", false, func(p string, t json.Token) { *c = r.category(p, t) }},
	}
}

func (r *reader) lineFields(l *Line) []field {
	return []field{
		{"id", false, func(p string, t json.Token) { l.ID = r.visible(p, t, maxShort) }},
		{"description", true, func(p string, t json.Token) {
			l.Description = r.prose(p, t, maxDescription, maxDescriptionLines)
		}},
		{"note", false, func(p string, t json.Token) { l.Note = r.prose(p, t, maxDescription, maxDescriptionLines) }},
		{"item_code", false, func(p string, t json.Token) { l.ItemCode = r.text(p, t, maxShort) }},
		{"buyer_item_code", false, func(p string, t json.Token) { l.BuyerItemCode = r.text(p, t, maxShort) }},
		{"standard_item", false, func(p string, t json.Token) { l.StandardItem = r.identifier(p, t, needICD()) }},
		{"quantity", true, func(p string, t json.Token) { l.Quantity, _ = r.decimal(p, t, maxDigits, maxDecimals) }},
		{"unit", false, func(p string, t json.Token) { l.Unit = r.text(p, t, maxUnit) }},
		{"unit_code", false, func(p string, t json.Token) {
			l.UnitCode = r.code(p, t, isUnitCode, `a unit code of UN/ECE Recommendation 20 or 21, such as "H87" for pieces or "HUR" for hours`)
		}},
		{"unit_price", true, func(p string, t json.Token) {
			l.UnitPrice, _ = r.positive(p, t, maxDigits, maxDecimals,
				": use a negative quantity for what is taken back, or a credit note (EN 16931 BR-27)")
		}},
		{"discount_percent", false, func(p string, t json.Token) { l.DiscountPercent, _ = r.percent(p, t) }},
		{"allowances", false, func(p string, t json.Token) { l.Allowances = r.adjustments(p, t, allowance) }},
		{"charges", false, func(p string, t json.Token) { l.Charges = r.adjustments(p, t, charge) }},
		{"period", false, func(p string, t json.Token) { l.Period = r.period(p, t) }},
	}
}

// isUnitCode knows how the codes look: two or three capitals or digits.
func isUnitCode(s string) bool {
	return (len(s) == 2 || len(s) == 3) && capitalsAndDigits(s)
}

// adjustmentKind is what differs between the lists of adjustments.
type adjustmentKind int

const (
	allowance adjustmentKind = iota
	charge
	documentAllowance
	documentCharge
)

func (k adjustmentKind) isCharge() bool   { return k == charge || k == documentCharge }
func (k adjustmentKind) ofDocument() bool { return k == documentAllowance || k == documentCharge }

func (r *reader) adjustments(path string, tok json.Token, kind adjustmentKind) []Adjustment {
	var list []Adjustment
	r.list(path, tok, maxAdjustments, func(p string, t json.Token) { list = append(list, r.adjustment(p, t, kind)) })
	return list
}

func (r *reader) adjustment(path string, tok json.Token, kind adjustmentKind) Adjustment {
	var a Adjustment
	before, byAmount, rateGiven := r.count(), false, false
	fields := []field{
		{"amount", false, func(p string, t json.Token) {
			byAmount = true
			a.Amount, _ = r.positive(p, t, 15, maxDecimals, ": an allowance is taken off and a charge is added as they are")
		}},
		{"percent", false, func(p string, t json.Token) {
			a.ByPercent = true
			a.Percent, _ = r.percent(p, t)
		}},
		{"base", false, func(p string, t json.Token) {
			a.OwnBase = true
			a.Base, _ = r.positive(p, t, 15, maxDecimals, "")
		}},
		{"reason", false, func(p string, t json.Token) { a.Reason = r.text(p, t, maxReason) }},
		{"reason_code", false, func(p string, t json.Token) { a.ReasonCode = r.reasonCode(p, t, kind) }},
	}
	if kind.ofDocument() {
		fields = append(fields, r.taxFields(&a.TaxCategory, &a.TaxRate, &rateGiven)...)
	}
	r.object(path, tok, fields)
	if r.count() == before {
		r.checkAdjustment(path, a, kind, byAmount)
	}
	if r.count() == before && kind.ofDocument() {
		r.checkTax(path, &a.TaxCategory, a.TaxRate, rateGiven)
	}
	return a
}

func (r *reader) reasonCode(path string, tok json.Token, kind adjustmentKind) string {
	if kind.isCharge() {
		return r.code(path, tok, isChargeReason, `a reason for a charge of UNTDID 7161, such as "FC" for freight`)
	}
	return r.code(path, tok, isAllowanceReason, `a reason for an allowance of UNTDID 5189, such as "95" for a discount`)
}

// checkAdjustment checks what takes more than one field of an adjustment.
func (r *reader) checkAdjustment(path string, a Adjustment, kind adjustmentKind, byAmount bool) {
	switch {
	case byAmount && a.ByPercent:
		r.add(join(path, "percent"), a.Percent.String(), "stands beside amount; write one of the two, the other follows from it")
	case !byAmount && !a.ByPercent:
		r.add(join(path, "amount"), "", "is missing; write an amount, or percent")
	case a.OwnBase && !a.ByPercent:
		r.add(join(path, "base"), a.Base.String(), "is what percent is taken of; without percent leave it out")
	}
	if a.Reason == "" && a.ReasonCode == "" {
		r.add(join(path, "reason"), "", "is missing; write a reason or a reason_code (EN 16931 %s)", kind.reasonRule())
	}
}

func (k adjustmentKind) reasonRule() string {
	switch k {
	case documentAllowance:
		return "BR-CO-21"
	case documentCharge:
		return "BR-CO-22"
	case allowance:
		return "BR-CO-23"
	}
	return "BR-CO-24"
}
