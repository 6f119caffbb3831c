package invoice

import (
	"cmp"
	"slices"

	"github.com/shopspring/decimal"
)

// Totals are the sums of a document, every amount rounded to its currency's
// minor units. The business terms in brackets are those of EN 16931.
type Totals struct {
	Lines   []decimal.Decimal // net of every line (BT-131), in the document's order
	Taxes   []TaxGroup        // one per rate and category, the highest rate first
	Net     decimal.Decimal   // sum of Lines (BT-106 and, without document discounts, BT-109)
	Tax     decimal.Decimal   // sum of the groups' tax (BT-110)
	Gross   decimal.Decimal   // Net + Tax (BT-112)
	Prepaid decimal.Decimal   // paid before (BT-113)
	Due     decimal.Decimal   // Gross − Prepaid (BT-115); negative when too much was prepaid
}

// TaxGroup is the tax on all lines of one category and rate (BG-23).
type TaxGroup struct {
	Category Category
	Rate     decimal.Decimal // percent
	Net      decimal.Decimal // sum of the lines' net (BT-116)
	Tax      decimal.Decimal // Net × Rate (BT-117, rule BR-CO-17)
}

// groupKey tells tax groups apart; the rate is text because 19 and 19.00 are one.
type groupKey struct {
	category Category
	rate     string
}

// Totals computes the sums of d by the rounding rule of the package: half away
// from zero, once per line and once per tax group.
func (d *Document) Totals() Totals {
	t := Totals{Lines: make([]decimal.Decimal, len(d.Lines)), Prepaid: d.Prepaid}
	at := make(map[groupKey]int)
	for i, l := range d.Lines {
		net := l.net(d.Currency)
		t.Lines[i] = net
		t.Net = t.Net.Add(net)
		key := groupKey{l.TaxCategory, l.TaxRate.String()}
		g, ok := at[key]
		if !ok {
			g = len(t.Taxes)
			at[key] = g
			t.Taxes = append(t.Taxes, TaxGroup{Category: l.TaxCategory, Rate: l.TaxRate})
		}
		t.Taxes[g].Net = t.Taxes[g].Net.Add(net)
	}
	for i := range t.Taxes {
		g := &t.Taxes[i]
		g.Tax = percentOf(g.Net, g.Rate).Round(d.Currency.Minor)
		t.Tax = t.Tax.Add(g.Tax)
	}
	slices.SortFunc(t.Taxes, func(a, b TaxGroup) int {
		return cmp.Or(b.Rate.Cmp(a.Rate), cmp.Compare(a.Category, b.Category))
	})
	t.Gross = t.Net.Add(t.Tax)
	t.Due = t.Gross.Sub(t.Prepaid)
	return t
}

// net is what the line charges before tax. Nothing is rounded before the end,
// so that a discount of 100 % gives exactly zero.
func (l Line) net(c Currency) decimal.Decimal {
	amount := l.Quantity.Mul(l.UnitPrice)
	return amount.Sub(percentOf(amount, l.DiscountPercent)).Round(c.Minor)
}

// percentOf is exact: moving the point divides by a hundred.
func percentOf(amount, percent decimal.Decimal) decimal.Decimal {
	return amount.Mul(percent).Shift(-2)
}
