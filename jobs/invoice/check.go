package invoice

import "github.com/shopspring/decimal"

// checkTax settles the tax category of a line. A rate above 0 alone means the
// standard category; a rate of 0 needs its reason, which only the sender knows.
func (r *reader) checkTax(path string, l *Line, rateGiven bool) {
	rate, category := join(path, "tax_rate"), join(path, "tax_category")
	switch {
	case l.TaxCategory == "" && !rateGiven:
		r.add(rate, "", `is missing; write the percentage, such as "19", or tax_category O when the line is not subject to tax`)
		return
	case l.TaxCategory == "" && l.TaxRate.IsZero():
		r.add(category, "", "is missing: a line without tax needs the reason: %s", categoryList)
		return
	case l.TaxCategory == "":
		l.TaxCategory = CategoryStandard
	case !rateGiven && l.TaxCategory != CategoryOutside:
		r.add(rate, "", "is missing; only tax category O goes without a rate (EN 16931 BR-48)")
		return
	}
	if complaint := l.TaxCategory.rateRule(l.TaxRate); complaint != "" {
		r.add(rate, l.TaxRate.String(), "%s", complaint)
	}
}

// checkDocument checks what takes more than one field. It leaves out what
// cannot be judged because a field could not be read.
func (r *reader) checkDocument(d *Document, sums claims) {
	r.checkReference(d)
	if !d.DueDate.IsZero() && d.DueDate.Before(d.IssueDate) {
		r.add("due_date", d.DueDate.Format("2006-01-02"), "is before issue_date %s", d.IssueDate.Format("2006-01-02"))
	}
	if d.Currency.Code != "" && decimals(d.Prepaid) > d.Currency.Minor {
		r.add("prepaid", d.Prepaid.String(), "has more decimals than the %d of %s", d.Currency.Minor, d.Currency.Code)
	}
	r.checkOutside(d.Lines)
	if r.count() > 0 {
		return // sums of what was not read would only confuse
	}
	r.checkSums(d, sums)
}

// checkReference: a credit note names what it credits.
func (r *reader) checkReference(d *Document) {
	switch {
	case d.Type == TypeCreditNote && d.Reference == "" && !r.complained("reference"):
		r.add("reference", "", "is missing: a credit note names the number of the invoice that it credits")
	case d.Type == TypeInvoice && d.Reference != "":
		r.add("reference", d.Reference, `is for credit notes only; write "type": "credit_note" or leave it out`)
	}
}

func (r *reader) complained(path string) bool {
	for _, p := range r.problems.Problems {
		if p.Field == path {
			return true
		}
	}
	return false
}

// checkOutside: a document outside the scope of tax is so as a whole (BR-O-11).
func (r *reader) checkOutside(lines []Line) {
	outside, other := -1, -1
	for i, l := range lines {
		switch l.TaxCategory {
		case CategoryOutside:
			outside = i
		case "":
		default:
			other = i
		}
	}
	if outside >= 0 && other >= 0 {
		r.add(index("lines", outside)+".tax_category", string(CategoryOutside),
			"cannot stand beside category %s of %s (EN 16931 BR-O-11)", lines[other].TaxCategory, index("lines", other))
	}
}

func (r *reader) checkSums(d *Document, sums claims) {
	t := d.Totals()
	limit := maxAmount()
	for i, net := range t.Lines {
		if net.Abs().GreaterThanOrEqual(limit) {
			r.add(index("lines", i), "", "comes to %s; an amount has at most 15 digits before the point", net)
		}
	}
	if r.count() == 0 && t.largest().GreaterThanOrEqual(limit) {
		r.add("lines", "", "add up to %s before and %s after tax; an amount has at most 15 digits before the point", t.Net, t.Gross)
	}
	if r.count() > 0 {
		return
	}
	if d.Type == TypeCreditNote && t.Gross.IsNegative() {
		r.add("lines", "", "add up to %s, but the amounts of a credit note are positive: its type gives the sign; "+
			"remove the minus from the quantities", t.Gross.StringFixed(d.Currency.Minor))
	}
	if d.Type == TypeInvoice && t.Due.IsPositive() && d.DueDate.IsZero() {
		r.add("due_date", "", "is missing: %s %s is to be paid (EN 16931 BR-CO-25)", t.Due.StringFixed(d.Currency.Minor), d.Currency.Code)
	}
	r.checkClaim("totals.net", sums.net, t.Net, d.Currency)
	r.checkClaim("totals.tax", sums.tax, t.Tax, d.Currency)
	r.checkClaim("totals.gross", sums.gross, t.Gross, d.Currency)
	r.checkClaim("totals.due", sums.due, t.Due, d.Currency)
}

func (r *reader) checkClaim(path string, claimed *decimal.Decimal, computed decimal.Decimal, c Currency) {
	if claimed == nil || claimed.Equal(computed) {
		return
	}
	r.add(path, claimed.String(), "is not what the lines give: that is %s %s, rounded half away from zero per line and per tax rate",
		computed.StringFixed(c.Minor), c.Code)
}

func (t Totals) largest() decimal.Decimal {
	most := decimal.Max(t.Net.Abs(), t.Tax.Abs(), t.Gross.Abs(), t.Due.Abs())
	for _, g := range t.Taxes {
		most = decimal.Max(most, g.Net.Abs(), g.Tax.Abs())
	}
	return most
}

// decimals is how many decimals d has, trailing zeros not counted.
func decimals(d decimal.Decimal) int32 {
	_, fraction, _ := splitDecimal(d.String())
	return int32(len(fraction))
}
