package invoice

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/shopspring/decimal"
)

// roundedRat is an independent reading of the rounding rule: half away from
// zero, in fractions.
func roundedRat(r *big.Rat, places int32) *big.Rat {
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil))
	scaled := new(big.Rat).Mul(new(big.Rat).Abs(r), scale)
	scaled.Add(scaled, big.NewRat(1, 2))
	whole := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	out := new(big.Rat).Quo(new(big.Rat).SetInt(whole), scale)
	if r.Sign() < 0 {
		out.Neg(out)
	}
	return out
}

func percentRat(amount, percent *big.Rat) *big.Rat {
	return new(big.Rat).Quo(new(big.Rat).Mul(amount, percent), big.NewRat(100, 1))
}

func sumRat(list ...decimal.Decimal) *big.Rat {
	sum := new(big.Rat)
	for _, d := range list {
		sum.Add(sum, d.Rat())
	}
	return sum
}

// ruleDocuments are documents of every kind; most come from a seeded generator.
func ruleDocuments(tb testing.TB) []*Document {
	docs := []*Document{parse(tb, Example())}
	random := rand.New(rand.NewPCG(16, 931))
	for _, code := range []string{"EUR", "JPY", "KWD", "CLF"} {
		for range 20 {
			lines := make([]any, 1+random.IntN(12))
			for i := range lines {
				lines[i] = with(line("x",
					fmt.Sprintf("%d.%03d", random.IntN(40)-4, random.IntN(1000)),
					fmt.Sprintf("%d.%04d", random.IntN(5000), random.IntN(10000)),
					[]string{"19", "7.0", "7", "9.975", "5.5"}[random.IntN(5)]),
					"discount_percent", []string{"0", "33.333", "100", "12.5"}[random.IntN(4)])
			}
			docs = append(docs, parse(tb, simple(tb, object{"lines": lines, "currency": code, "prepaid": fmt.Sprint(random.IntN(900))})))
		}
	}
	return docs
}

func TestTotalsFollowEN16931(t *testing.T) {
	t.Parallel()
	rules := []struct {
		name  string
		check func(d *Document, t Totals) bool
	}{
		{"BR-CO-10 sum of line net amounts", func(_ *Document, t Totals) bool { return t.Net.Rat().Cmp(sumRat(t.Lines...)) == 0 }},
		{"BR-CO-13 net total without charges or allowances", func(d *Document, t Totals) bool {
			sum := new(big.Rat)
			for _, l := range d.Lines {
				amount := new(big.Rat).Mul(l.Quantity.Rat(), l.UnitPrice.Rat())
				sum.Add(sum, roundedRat(amount.Sub(amount, percentRat(amount, l.DiscountPercent.Rat())), d.Currency.Minor))
			}
			return t.Net.Rat().Cmp(sum) == 0
		}},
		{"BR-CO-14 tax is the sum of the groups", func(_ *Document, t Totals) bool {
			sum := new(big.Rat)
			for _, g := range t.Taxes {
				sum.Add(sum, g.Tax.Rat())
			}
			return t.Tax.Rat().Cmp(sum) == 0
		}},
		{"BR-CO-15 gross is net and tax", func(_ *Document, t Totals) bool { return t.Gross.Rat().Cmp(sumRat(t.Net, t.Tax)) == 0 }},
		{"BR-CO-16 due is gross less prepaid", func(d *Document, t Totals) bool {
			return t.Due.Rat().Cmp(sumRat(t.Gross, d.Prepaid.Neg())) == 0
		}},
		{"BR-CO-17 tax of a group is its net times its rate", func(d *Document, t Totals) bool {
			for _, g := range t.Taxes {
				if g.Tax.Rat().Cmp(roundedRat(percentRat(g.Net.Rat(), g.Rate.Rat()), d.Currency.Minor)) != 0 {
					return false
				}
			}
			return true
		}},
		{"BR-CO-18 BR-S-08 every line is in one group", func(_ *Document, t Totals) bool {
			sum := new(big.Rat)
			seen := map[string]bool{}
			for _, g := range t.Taxes {
				sum.Add(sum, g.Net.Rat())
				key := string(g.Category) + g.Rate.String()
				if seen[key] {
					return false
				}
				seen[key] = true
			}
			return len(t.Taxes) > 0 && sum.Cmp(t.Net.Rat()) == 0
		}},
	}
	docs := ruleDocuments(t)
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for i, d := range docs {
				if sums := d.Totals(); !rule.check(d, sums) {
					t.Errorf("document %d (%s) breaks the rule: %+v", i, d.Currency.Code, sums)
				}
			}
		})
	}
}

func TestTotalsOfReportedCases(t *testing.T) {
	t.Parallel()
	free := with(line("Gift", "3", "19.99", "19"), "discount_percent", "100")
	tests := []struct {
		name                 string
		change               object
		net, tax, gross, due string
	}{
		{"case 36: 8500 less 7500 at 19 %", object{"lines": []any{line("Job", "1", "8500", "19"), line("Advance", "-1", "7500", "19")}},
			"1000.00", "190.00", "1190.00", "1190.00"},
		{"case 37: 8180 at 9.975 % rounds up", object{"lines": []any{line("Job", "1", "8180", "9.975")}},
			"8180.00", "815.96", "8995.96", "8995.96"},
		{"case 37: the same sum in two lines", object{"lines": []any{line("Job", "1", "8000", "9.975"), line("Job", "1", "180", "9.9750")}},
			"8180.00", "815.96", "8995.96", "8995.96"},
		{"case 37 taken back rounds away from zero too", object{"lines": []any{line("Job", "-1", "8180", "9.975")}},
			"-8180.00", "-815.96", "-8995.96", "-8995.96"},
		{"case 39: yen have no decimals", object{"currency": "JPY", "lines": []any{line("Sticker", "1", "8", "10")}}, "8", "1", "9", "9"},
		{"case 39: dinars have three", object{"currency": "KWD", "lines": []any{line("Sticker", "1", "8", "5.55")}},
			"8.000", "0.444", "8.444", "8.444"},
		{"case 40: a credit note is positive", object{"type": "credit_note", "reference": "A-0",
			"lines": []any{line("Returned", "1", "100", "19")}}, "100.00", "19.00", "119.00", "119.00"},
		{"100 % discount is exactly nothing", object{"lines": []any{free}}, "0.00", "0.00", "0.00", "0.00"},
		{"half a cent of a line", object{"lines": []any{line("x", "1", "0.005", "19")}}, "0.01", "0.00", "0.01", "0.01"},
		{"less than half a cent taken back leaves no minus", object{"lines": []any{line("x", "-1", "0.004", "19")}},
			"0.00", "0.00", "0.00", "0.00"},
		{"half a cent of tax, below an even cent", object{"lines": []any{line("x", "1", "50.00", "9.25")}}, "50.00", "4.63", "54.63", "54.63"},
		{"prepaid", object{"prepaid": "19.5"}, "100.00", "19.00", "119.00", "99.50"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, simple(t, tt.change))
			sums, minor := d.Totals(), d.Currency.Minor
			got := [4]string{sums.Net.StringFixed(minor), sums.Tax.StringFixed(minor), sums.Gross.StringFixed(minor), sums.Due.StringFixed(minor)}
			if want := [4]string{tt.net, tt.tax, tt.gross, tt.due}; got != want {
				t.Errorf("net, tax, gross, due are %v, want %v", got, want)
			}
		})
	}
}

func TestTaxGroupsAreOrderedByRate(t *testing.T) {
	t.Parallel()
	d := parse(t, simple(t, object{"lines": []any{
		line("a", "1", "1", "7"), with(line("b", "1", "1", "0"), "tax_category", "Z"), line("c", "1", "1", "19"),
		with(line("d", "1", "1", "0"), "tax_category", "E"), line("e", "1", "1", "7.00"),
	}}))
	var got []string
	for _, g := range d.Totals().Taxes {
		got = append(got, string(g.Category)+" "+g.Rate.String()+" "+g.Net.String())
	}
	if want := "[S 19 1 S 7 2 E 0 1 Z 0 1]"; fmt.Sprint(got) != want {
		t.Errorf("groups are %v, want %v", got, want)
	}
}
