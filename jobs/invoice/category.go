package invoice

import "github.com/shopspring/decimal"

// Category is a tax category code of UNCL 5305, as EN 16931 uses it.
type Category string

// The tax categories.
const (
	CategoryStandard       Category = "S"  // taxed at a rate above 0
	CategoryZero           Category = "Z"  // taxed at 0 %
	CategoryExempt         Category = "E"  // exempt from tax
	CategoryReverseCharge  Category = "AE" // the customer accounts for the tax
	CategoryIntraCommunity Category = "K"  // supply within the EU
	CategoryExport         Category = "G"  // export outside the EU
	CategoryOutside        Category = "O"  // not subject to tax; cannot be mixed with others (BR-O-11)
	CategoryCanary         Category = "L"  // IGIC of the Canary Islands
	CategoryCeuta          Category = "M"  // IPSI of Ceuta and Melilla
)

// categoryList is for messages.
const categoryList = "S standard, Z zero rated, E exempt, AE reverse charge, K intra-community, G export, " +
	"O outside the scope, L Canary Islands, M Ceuta and Melilla"

func (c Category) known() bool {
	switch c {
	case CategoryStandard, CategoryZero, CategoryExempt, CategoryReverseCharge, CategoryIntraCommunity,
		CategoryExport, CategoryOutside, CategoryCanary, CategoryCeuta:
		return true
	}
	return false
}

// rateRule is "" when a line of this category may have the rate, else what the
// rate must be and which rule of EN 16931 says so.
func (c Category) rateRule(rate decimal.Decimal) string {
	switch c {
	case CategoryCanary, CategoryCeuta:
		return "" // BR-AF-05, BR-AG-05: any rate from 0
	case CategoryStandard:
		if rate.IsPositive() {
			return ""
		}
		return "must be above 0 in tax category S (BR-S-05)"
	}
	if rate.IsZero() {
		return ""
	}
	return "must be 0 in tax category " + string(c) + " (" + c.rule("05") + ")"
}

// taxable is true of the categories that are taxed at a rate, be it 0.
func (c Category) taxable() bool {
	switch c {
	case CategoryStandard, CategoryZero, CategoryCanary, CategoryCeuta:
		return true
	}
	return false
}

// rule names a rule of EN 16931 for the category.
func (c Category) rule(number string) string {
	switch c {
	case CategoryIntraCommunity:
		return "BR-IC-" + number
	case CategoryCanary:
		return "BR-AF-" + number
	case CategoryCeuta:
		return "BR-AG-" + number
	}
	return "BR-" + string(c) + "-" + number
}
