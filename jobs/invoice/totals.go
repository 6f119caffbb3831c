package invoice

import (
	"cmp"
	"slices"

	"github.com/shopspring/decimal"
)

// Totals are the sums of a document, every amount rounded to its currency's
// minor units. The business terms in brackets are those of EN 16931.
type Totals struct {
	Lines          []decimal.Decimal // net of every line (BT-131), in the document's order
	LineParts      []LineParts       // what each line's net is made of, in the same order
	Allowances     []Amount          // what the document's allowances come to, in their order (BT-92, BT-93)
	Charges        []Amount          // and its charges (BT-99, BT-100)
	Taxes          []TaxGroup        // one per rate and category, the highest rate first
	LineNet        decimal.Decimal   // sum of Lines (BT-106)
	AllowanceTotal decimal.Decimal   // sum of Allowances (BT-107)
	ChargeTotal    decimal.Decimal   // sum of Charges (BT-108)
	Net            decimal.Decimal   // LineNet − AllowanceTotal + ChargeTotal (BT-109)
	Tax            decimal.Decimal   // sum of the groups' tax (BT-110)
	Gross          decimal.Decimal   // Net + Tax (BT-112)
	Prepaid        decimal.Decimal   // paid before (BT-113)
	Rounding       decimal.Decimal   // what cash rounding adds or, below zero, takes off (BT-114)
	Due            decimal.Decimal   // Gross − Prepaid + Rounding (BT-115); negative when too much was prepaid
}

// LineParts are the amounts of one line: Gross − Discount − Allowances +
// Charges is its net.
type LineParts struct {
	Gross      decimal.Decimal // quantity times unit price
	Discount   decimal.Decimal // what the line's discount percentage comes to (BT-136)
	Allowances []Amount        // BT-136, BT-137
	Charges    []Amount        // BT-141, BT-142
}

// Amount is what an [Adjustment] comes to, and what its percentage was taken
// of; Base is zero when it was given as an amount.
type Amount struct {
	Amount, Base decimal.Decimal
}

// TaxGroup is the tax on all that is in one category at one rate (BG-23).
type TaxGroup struct {
	Category Category
	Rate     decimal.Decimal // percent
	Net      decimal.Decimal // lines less the document's allowances plus its charges (BT-116)
	Tax      decimal.Decimal // Net × Rate (BT-117, rule BR-CO-17)
}

// groupKey tells tax groups apart; the rate is text because 19 and 19.00 are one.
type groupKey struct {
	category Category
	rate     string
}

// grouping collects the nets of the tax groups.
type grouping struct {
	groups []TaxGroup
	at     map[groupKey]int
}

func (g *grouping) add(c Category, rate, net decimal.Decimal) {
	key := groupKey{c, rate.String()}
	i, ok := g.at[key]
	if !ok {
		i = len(g.groups)
		g.at[key] = i
		g.groups = append(g.groups, TaxGroup{Category: c, Rate: rate})
	}
	g.groups[i].Net = g.groups[i].Net.Add(net)
}

// Totals computes the sums of d by the rounding rule of the package: half away
// from zero, once per line, adjustment and tax group.
func (d *Document) Totals() Totals {
	t := Totals{
		Lines: make([]decimal.Decimal, len(d.Lines)), LineParts: make([]LineParts, len(d.Lines)), Prepaid: d.Prepaid,
	}
	taxes := grouping{at: make(map[groupKey]int)}
	for i, l := range d.Lines {
		parts := l.parts(d.Currency)
		t.LineParts[i], t.Lines[i] = parts, parts.net()
		t.LineNet = t.LineNet.Add(t.Lines[i])
		taxes.add(l.TaxCategory, l.TaxRate, t.Lines[i])
	}
	t.Allowances, t.AllowanceTotal = amounts(d.Allowances, t.LineNet, d.Currency)
	t.Charges, t.ChargeTotal = amounts(d.Charges, t.LineNet, d.Currency)
	for i, a := range d.Allowances {
		taxes.add(a.TaxCategory, a.TaxRate, t.Allowances[i].Amount.Neg())
	}
	for i, a := range d.Charges {
		taxes.add(a.TaxCategory, a.TaxRate, t.Charges[i].Amount)
	}
	t.Net = t.LineNet.Sub(t.AllowanceTotal).Add(t.ChargeTotal)
	for i := range taxes.groups {
		g := &taxes.groups[i]
		g.Tax = percentOf(g.Net, g.Rate).Round(d.Currency.Minor)
		t.Tax = t.Tax.Add(g.Tax)
	}
	slices.SortFunc(taxes.groups, func(a, b TaxGroup) int {
		return cmp.Or(b.Rate.Cmp(a.Rate), cmp.Compare(a.Category, b.Category))
	})
	t.Taxes = taxes.groups
	t.Gross = t.Net.Add(t.Tax)
	t.Due = t.Gross.Sub(t.Prepaid)
	t.Rounding = toCoins(t.Due, d.CashRounding).Sub(t.Due)
	t.Due = t.Due.Add(t.Rounding)
	return t
}

// parts are the amounts of a line. Nothing is rounded before quantity, price and
// discount have come together, so that a discount of 100 % gives exactly zero;
// allowances and charges are amounts of their own and rounded as such.
func (l Line) parts(c Currency) LineParts {
	exact := l.Quantity.Mul(l.UnitPrice)
	p := LineParts{Gross: exact.Round(c.Minor)}
	p.Discount = p.Gross.Sub(exact.Sub(percentOf(exact, l.DiscountPercent)).Round(c.Minor))
	p.Allowances, _ = amounts(l.Allowances, p.Gross, c)
	p.Charges, _ = amounts(l.Charges, p.Gross, c)
	return p
}

func (p LineParts) net() decimal.Decimal {
	net := p.Gross.Sub(p.Discount)
	for _, a := range p.Allowances {
		net = net.Sub(a.Amount)
	}
	for _, a := range p.Charges {
		net = net.Add(a.Amount)
	}
	return net
}

// amounts are what adjustments come to, one by one and together. Percentages
// without a base of their own are of base.
func amounts(list []Adjustment, base decimal.Decimal, c Currency) (each []Amount, sum decimal.Decimal) {
	for _, a := range list {
		out := Amount{Amount: a.Amount}
		if a.ByPercent {
			out.Base = base
			if a.OwnBase {
				out.Base = a.Base
			}
			out.Amount = percentOf(out.Base, a.Percent).Round(c.Minor)
		}
		each, sum = append(each, out), sum.Add(out.Amount)
	}
	return each, sum
}

// toCoins is the multiple of coin that is nearest to amount, the larger one
// when two are equally near; amount itself when there is no coin.
func toCoins(amount, coin decimal.Decimal) decimal.Decimal {
	if !coin.IsPositive() {
		return amount
	}
	return amount.DivRound(coin, 0).Mul(coin)
}

// percentOf is exact: moving the point divides by a hundred.
func percentOf(amount, percent decimal.Decimal) decimal.Decimal {
	return amount.Mul(percent).Shift(-2)
}
