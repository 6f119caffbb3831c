package einvoice

import (
	"fmt"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
)

// Check refuses a document that [invoice.Parse] took for a page but that lacks
// what EN 16931 needs of an e-invoice. The error is then an [*invalid.Error]
// with every problem: the path of the field, the business term and the rule that
// ask for it, and what to write. WriteUBL and WriteCII check first. doc must come
// from invoice.Parse.
func Check(doc *invoice.Document) error {
	c := checker{doc: doc}
	c.party("issuer", doc.Issuer, "BT-40", "BR-09")
	c.party("customer", doc.Customer, "BT-55", "BR-11")
	c.identity()
	c.delivery()
	c.lines()
	c.payment()
	c.categories()
	if doc.Currency.Minor > 2 {
		c.add("currency", doc.Currency.Code, "has %d decimals, and an amount of an e-invoice has at most two (EN 16931 BR-DEC-01 to "+
			"BR-DEC-28); send this document as a PDF only", doc.Currency.Minor)
	}
	return c.problems.OrNil()
}

type checker struct {
	doc      *invoice.Document
	problems invalid.Error
}

func (c *checker) add(field, value, format string, args ...any) {
	c.problems.Add(field, value, format, args...)
}

func (c *checker) party(path string, p invoice.Party, term, rule string) {
	if p.Postal.Country == "" {
		c.add(path+".postal.country", "", `is missing: an e-invoice needs the country as a code (%s, EN 16931 %s); add "postal" with `+
			`"country", such as "DE", and as many other parts as there are`, term, rule)
	}
}

// identity: someone who gets the invoice must be able to tell who sent it.
func (c *checker) identity() {
	p := c.doc.Issuer
	if p.Identifier.ID == "" && p.Registration.ID == "" && vatID(c.doc, p) == "" {
		c.add("issuer.vat_id", "", "is missing: an e-invoice names its issuer by vat_id, registration or identifier "+
			"(BT-31, BT-30, BT-29, EN 16931 BR-CO-26)")
	}
	if number := taxNumber(c.doc, c.doc.Customer); number != "" && c.doc.Customer.Identifier.ID != "" {
		c.add("customer.tax_id", number, "has no place in an e-invoice beside identifier; write it as vat_id (BT-48) or leave one of them out")
	}
}

func (c *checker) delivery() {
	d := c.doc.Delivery
	if len(d.Address) > 0 && d.Postal.Country == "" {
		c.add("delivery.postal.country", "", `is missing: an e-invoice needs the country of an address as a code (BT-80, EN 16931 BR-57); `+
			`add "postal" with "country"`)
	}
	if !c.doc.Period.IsZero() && !d.Period.IsZero() && c.doc.Period != d.Period {
		c.add("delivery.period", "", "is not the period of the document, and an e-invoice has one period (BG-14); leave one of them out")
	}
}

func (c *checker) lines() {
	for i, l := range c.doc.Lines {
		if unitCode(l) == "" {
			c.add(fmt.Sprintf("lines[%d].unit_code", i), "", "is missing: an e-invoice needs the unit %q as a code of UN/ECE "+
				`Recommendation 20, such as "H87" for pieces or "XPK" for packages (BT-130, EN 16931 BR-23)`, l.Unit)
		}
	}
}

func (c *checker) payment() {
	p := c.doc.Payment
	if (p.Means == "30" || p.Means == "58") && len(p.Accounts) == 0 {
		c.add("payment.accounts", "", "is missing: payment by credit transfer (means %s) names the account (BT-84, EN 16931 BR-61)", p.Means)
	}
	if p.Means == "59" && p.Mandate.Reference == "" || p.Means == "49" && p.Mandate.Reference == "" {
		c.add("payment.mandate", "", "is missing: payment by direct debit (means %s) names the mandate (BT-89)", p.Means)
	}
}

// categories: what the tax categories of the document ask for, each once.
func (c *checker) categories() {
	for _, g := range c.doc.Totals().Taxes {
		switch g.Category {
		case invoice.CategoryReverseCharge:
			c.sellerTaxed("BR-AE-02")
			c.buyerTaxed("BR-AE-02", true)
		case invoice.CategoryIntraCommunity:
			c.sellerVAT("BR-IC-02")
			c.buyerTaxed("BR-IC-02", false)
			c.delivered()
		case invoice.CategoryExport:
			c.sellerVAT("BR-G-02")
		case invoice.CategoryOutside:
			c.noVAT()
		case invoice.CategoryExempt:
			c.sellerTaxed("BR-E-02")
			if e := c.doc.Exemption(g.Category); e.Reason == "" && e.Code == "" {
				c.add("tax_exemptions", "", "lacks the reason for category E: an e-invoice says why something is exempt "+
					"(BT-120, BT-121, EN 16931 BR-E-10)")
			}
		case invoice.CategoryZero:
			c.sellerTaxed("BR-Z-02")
		case invoice.CategoryCanary:
			c.sellerTaxed("BR-AF-02")
		case invoice.CategoryCeuta:
			c.sellerTaxed("BR-AG-02")
		default:
			c.sellerTaxed("BR-S-02")
		}
	}
}

// once leaves out what was said for another category.
func (c *checker) once(field, format string, args ...any) {
	for _, p := range c.problems.Problems {
		if p.Field == field {
			return
		}
	}
	c.add(field, "", format, args...)
}

func (c *checker) sellerTaxed(rule string) {
	if vatID(c.doc, c.doc.Issuer) == "" && c.doc.Issuer.TaxID == "" {
		c.once("issuer.vat_id", "is missing: with this tax category an e-invoice names the issuer's vat_id or tax_id "+
			"(BT-31, BT-32, EN 16931 %s)", rule)
	}
}

func (c *checker) sellerVAT(rule string) {
	if vatID(c.doc, c.doc.Issuer) == "" {
		c.once("issuer.vat_id", "is missing: with this tax category an e-invoice names the issuer's VAT identifier (BT-31, EN 16931 %s)", rule)
	}
}

func (c *checker) buyerTaxed(rule string, registrationWillDo bool) {
	p := c.doc.Customer
	if vatID(c.doc, p) == "" && (!registrationWillDo || p.Registration.ID == "") {
		c.once("customer.vat_id", "is missing: with this tax category an e-invoice names the customer's VAT identifier "+
			"(BT-48, EN 16931 %s)", rule)
	}
}

// delivered: tax within the EU depends on when and where to the goods went.
func (c *checker) delivered() {
	d := c.doc.Delivery
	if d.Date.IsZero() && d.Period.IsZero() && c.doc.Period.IsZero() {
		c.once("delivery.date", "is missing: a supply within the EU names the day or the period of its delivery "+
			"(BT-72, BG-14, EN 16931 BR-IC-11)")
	}
	if d.Postal.Country == "" {
		c.once("delivery.postal.country", "is missing: a supply within the EU names the country that it went to (BT-80, EN 16931 BR-IC-12)")
	}
}

func (c *checker) noVAT() {
	for _, p := range []struct{ path, id string }{
		{"issuer.vat_id", c.doc.Issuer.VATID}, {"customer.vat_id", c.doc.Customer.VATID},
	} {
		if p.id != "" {
			c.add(p.path, p.id, "must not be given in an e-invoice that is not subject to VAT (EN 16931 BR-O-02)")
		}
	}
}
