package invoice

import "github.com/shopspring/decimal"

// checkTax settles the tax category of a line, or of an adjustment of the
// document. A rate above 0 alone means the standard category; a rate of 0 needs
// its reason, which only the sender knows.
func (r *reader) checkTax(path string, c *Category, percent decimal.Decimal, rateGiven bool) {
	rate, category := join(path, "tax_rate"), join(path, "tax_category")
	switch {
	case *c == "" && !rateGiven:
		r.add(rate, "", `is missing; write the percentage, such as "19", or tax_category O when this is not subject to tax`)
		return
	case *c == "" && percent.IsZero():
		r.add(category, "", "is missing: what is without tax needs the reason: %s", categoryList)
		return
	case *c == "":
		*c = CategoryStandard
	case !rateGiven && *c != CategoryOutside:
		r.add(rate, "", "is missing; only tax category O goes without a rate (EN 16931 BR-48)")
		return
	}
	if complaint := c.rateRule(percent); complaint != "" {
		r.add(rate, percent.String(), "%s", complaint)
	}
}

// checkDocument checks what takes more than one field. It leaves out what
// cannot be judged because a field could not be read.
func (r *reader) checkDocument(d *Document, sums claims) {
	r.checkReference(d)
	if !d.DueDate.IsZero() && d.DueDate.Before(d.IssueDate) {
		r.add("due_date", d.DueDate.Format("2006-01-02"), "is before issue_date %s", d.IssueDate.Format("2006-01-02"))
	}
	if !d.TaxPointDate.IsZero() && d.TaxPoint != "" {
		r.add("tax_point", string(d.TaxPoint), "stands beside tax_point_date; write one of the two (EN 16931 BR-CO-3)")
	}
	r.checkMinorUnits(d)
	r.checkOutside(d)
	r.checkExemptions(d)
	r.checkLineIDs(d.Lines)
	r.settleAccounts(&d.Payment)
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
	case d.Type == TypeInvoice && !d.ReferenceDate.IsZero():
		r.add("reference_date", d.ReferenceDate.Format("2006-01-02"), "is for credit notes only; leave it out")
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

func (r *reader) checkSums(d *Document, sums claims) {
	t := d.Totals()
	limit := maxAmount()
	for i, net := range t.Lines {
		if most := t.LineParts[i].largest(net); most.GreaterThanOrEqual(limit) {
			r.add(index("lines", i), "", "comes to %s; an amount has at most 15 digits before the point", most)
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
	if d.Type == TypeInvoice && t.Due.IsPositive() && d.DueDate.IsZero() && d.Payment.Terms == "" {
		r.add("due_date", "", "is missing: %s %s is to be paid (EN 16931 BR-CO-25)", t.Due.StringFixed(d.Currency.Minor), d.Currency.Code)
	}
	r.checkClaims(t, sums, d.Currency)
}

// checkClaims holds the sums of the sender against ours.
func (r *reader) checkClaims(t Totals, sums claims, c Currency) {
	for i, claimed := range sums.amounts {
		r.checkClaim(index("lines", i)+".amount", claimed, t.Lines[i], c)
	}
	r.checkClaim("totals.lines", sums.lines, t.LineNet, c)
	r.checkClaim("totals.allowances", sums.allowances, t.AllowanceTotal, c)
	r.checkClaim("totals.charges", sums.charges, t.ChargeTotal, c)
	r.checkClaim("totals.net", sums.net, t.Net, c)
	r.checkClaim("totals.tax", sums.tax, t.Tax, c)
	r.checkClaim("totals.gross", sums.gross, t.Gross, c)
	r.checkClaim("totals.rounding", sums.rounding, t.Rounding, c)
	r.checkClaim("totals.due", sums.due, t.Due, c)
}

func (r *reader) checkClaim(path string, claimed *decimal.Decimal, computed decimal.Decimal, c Currency) {
	if claimed == nil || claimed.Equal(computed) {
		return
	}
	r.add(path, claimed.String(), "is not what the lines give: that is %s %s, rounded half away from zero per line and per tax rate",
		computed.StringFixed(c.Minor), c.Code)
}

func (t Totals) largest() decimal.Decimal {
	most := decimal.Max(t.LineNet.Abs(), t.AllowanceTotal.Abs(), t.ChargeTotal.Abs(), t.Net.Abs(), t.Tax.Abs(),
		t.Gross.Abs(), t.Due.Abs())
	for _, g := range t.Taxes {
		most = decimal.Max(most, g.Net.Abs(), g.Tax.Abs())
	}
	return most
}

func (p LineParts) largest(net decimal.Decimal) decimal.Decimal {
	most := decimal.Max(net.Abs(), p.Gross.Abs())
	for _, list := range [][]Amount{p.Allowances, p.Charges} {
		for _, a := range list {
			most = decimal.Max(most, a.Amount.Abs())
		}
	}
	return most
}

// decimals is how many decimals d has, trailing zeros not counted.
func decimals(d decimal.Decimal) int32 {
	_, fraction, _ := splitDecimal(d.String())
	return int32(len(fraction))
}
