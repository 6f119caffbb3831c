package invoice

import (
	"slices"
	"strconv"

	"github.com/shopspring/decimal"
)

// checkMinorUnits: an amount of money has no more decimals than its currency
// (BR-DEC-01 to BR-DEC-28, with the decimals that ISO 4217 gives).
func (r *reader) checkMinorUnits(d *Document) {
	if d.Currency.Code == "" {
		return
	}
	check := func(path string, amount decimal.Decimal) {
		if decimals(amount) > d.Currency.Minor {
			r.add(path, amount.String(), "has more decimals than the %d of %s", d.Currency.Minor, d.Currency.Code)
		}
	}
	list := func(path string, list []Adjustment) {
		for i, a := range list {
			check(index(path, i)+".amount", a.Amount)
			check(index(path, i)+".base", a.Base)
		}
	}
	check("prepaid", d.Prepaid)
	check("cash_rounding", d.CashRounding)
	list("allowances", d.Allowances)
	list("charges", d.Charges)
	for i, l := range d.Lines {
		list(index("lines", i)+".allowances", l.Allowances)
		list(index("lines", i)+".charges", l.Charges)
	}
}

// taxed is a part of a document that has a tax category of its own.
type taxed struct {
	path     string
	category Category
}

func (d *Document) taxed() []taxed {
	var out []taxed
	for i, l := range d.Lines {
		out = append(out, taxed{index("lines", i), l.TaxCategory})
	}
	for i, a := range d.Allowances {
		out = append(out, taxed{index("allowances", i), a.TaxCategory})
	}
	for i, a := range d.Charges {
		out = append(out, taxed{index("charges", i), a.TaxCategory})
	}
	return out
}

// checkOutside: a document outside the scope of tax is so as a whole (BR-O-11 to
// BR-O-14).
func (r *reader) checkOutside(d *Document) {
	var outside, other taxed
	for _, t := range d.taxed() {
		switch t.category {
		case CategoryOutside:
			outside = t
		case "":
		default:
			other = t
		}
	}
	if outside.path != "" && other.path != "" {
		r.add(outside.path+".tax_category", string(CategoryOutside),
			"cannot stand beside category %s of %s (EN 16931 BR-O-11)", other.category, other.path)
	}
}

// checkExemptions: a reason is for a category that is used and not taxed, and
// there is one for each (BR-S-10, BR-Z-10, BR-AF-10, BR-AG-10).
func (r *reader) checkExemptions(d *Document) {
	parts := d.taxed()
	for i, e := range d.Exemptions {
		path := index("tax_exemptions", i) + ".category"
		switch {
		case e.Category == "": // was refused
		case e.Category.taxable():
			r.add(path, string(e.Category), "is taxed, be it at 0; there is no exemption to give a reason for (EN 16931 %s)",
				e.Category.rule("10"))
		case slices.ContainsFunc(d.Exemptions[:i], func(o Exemption) bool { return o.Category == e.Category }):
			r.add(path, string(e.Category), "is given twice; a category has one reason")
		case !slices.ContainsFunc(parts, func(t taxed) bool { return t.category == e.Category }):
			r.add(path, string(e.Category), "is not the tax category of anything in this document; leave the reason out")
		}
	}
}

// checkLineIDs: the ids of lines are for finding them, so no two are the same.
// A line without one is known by its place.
func (r *reader) checkLineIDs(lines []Line) {
	seen := make(map[string]int, len(lines))
	for i, l := range lines {
		id := l.Key(i)
		if first, ok := seen[id]; ok {
			r.add(index("lines", i)+".id", id, "is the id of %s too; give each line its own, or leave all ids out", index("lines", first))
			continue
		}
		seen[id] = i
	}
}

// Key is the id of l as the line at place i, counted from 0, of its document
// (BT-126): its own, or its place counted from 1.
func (l Line) Key(i int) string {
	if l.ID != "" {
		return l.ID
	}
	return strconv.Itoa(i + 1)
}
