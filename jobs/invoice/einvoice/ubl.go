package einvoice

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fenceline/fenceline/jobs/invoice"
)

// WriteUBL writes doc as an Invoice or a CreditNote of OASIS UBL 2.1. totals
// must be what doc.Totals gives. It refuses what [Check] refuses; other errors
// are those of w and of text that XML cannot hold. It may be called by several
// goroutines at once.
func WriteUBL(w io.Writer, doc *invoice.Document, totals invoice.Totals) error {
	if err := Check(doc); err != nil {
		return err
	}
	d := ubl{draft{doc, totals}, doc.Type == invoice.TypeCreditNote}
	kind := "Invoice"
	if d.credit {
		kind = "CreditNote"
	}
	err := write(w, d.root(kind),
		"", "urn:oasis:names:specification:ubl:schema:xsd:"+kind+"-2",
		"cac", "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2",
		"cbc", "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2")
	if err != nil {
		return fmt.Errorf("write UBL invoice %s: %w", doc.Number, err)
	}
	return nil
}

// ubl writes a document in UBL. The elements stand in the order of its schemas,
// which is not that of the invoice.
type ubl struct {
	draft
	credit bool
}

// root is the whole document. In a credit note the tax point comes before the
// type, and the due date stands with the payment.
func (d ubl) root(kind string) *node {
	code := "380" // commercial invoice, UNTDID 1001
	due, typed := day(d.DueDate, time.DateOnly), "cbc:InvoiceTypeCode"
	taxPoint := leaf("cbc:TaxPointDate", day(d.TaxPointDate, time.DateOnly))
	before, after := (*node)(nil), taxPoint
	if d.credit {
		code, due, typed = "381", "", "cbc:CreditNoteTypeCode"
		before, after = taxPoint, nil
	}
	return el(kind,
		leaf("cbc:CustomizationID", profile),
		leaf("cbc:ID", d.Number),
		leaf("cbc:IssueDate", day(d.IssueDate, time.DateOnly)),
		leaf("cbc:DueDate", due),
		before,
		leaf(typed, code),
		leaf("cbc:Note", d.Notes),
		after,
		leaf("cbc:DocumentCurrencyCode", d.Currency.Code),
		leaf("cbc:BuyerReference", d.Orders.Buyer),
		d.periodNode(d.period(), d.TaxPoint),
		d.orderReference(),
		el("cac:BillingReference", el("cac:InvoiceDocumentReference",
			leaf("cbc:ID", d.Reference), leaf("cbc:IssueDate", day(d.ReferenceDate, time.DateOnly)))),
		el("cac:ContractDocumentReference", leaf("cbc:ID", d.Orders.Contract)),
		el("cac:AccountingSupplierParty", d.party(d.Issuer, d.issuerIDs(), d.taxSchemes())),
		el("cac:AccountingCustomerParty", d.party(d.Customer, row(ids(d.buyerID())), d.taxScheme(d.vatID(d.Customer), "VAT"))),
		d.delivery(),
		row(d.paymentMeans()),
		el("cac:PaymentTerms", leaf("cbc:Note", d.Payment.Terms)),
		row(d.adjustments(d.ofDocument())),
		d.taxTotal(),
		d.monetaryTotal(),
		row(d.lines()),
	)
}

// periodNode is a period, with the code of the event that makes the tax due.
func (d ubl) periodNode(p invoice.Period, point invoice.TaxPoint) *node {
	code := ""
	switch point {
	case invoice.TaxPointIssue:
		code = "3"
	case invoice.TaxPointDelivery:
		code = "35"
	case invoice.TaxPointPayment:
		code = "432"
	}
	return el("cac:InvoicePeriod",
		leaf("cbc:StartDate", day(p.From, time.DateOnly)),
		leaf("cbc:EndDate", day(p.To, time.DateOnly)),
		leaf("cbc:DescriptionCode", code))
}

// orderReference names the orders. UBL wants the customer's number even when
// only the issuer's is known.
func (d ubl) orderReference() *node {
	order := d.Orders.Order
	if order == "" && d.Orders.Sales != "" {
		order = "NA"
	}
	return el("cac:OrderReference", leaf("cbc:ID", order), leaf("cbc:SalesOrderID", d.Orders.Sales))
}

// ids are identifiers of a party.
func ids(list ...invoice.Identifier) []*node {
	var out []*node
	for _, id := range list {
		out = append(out, el("cac:PartyIdentification", leaf("cbc:ID", id.ID, "schemeID", id.Scheme)))
	}
	return out
}

// issuerIDs are those of the issuer; the identifier for direct debits is one of
// them (BT-90).
func (d ubl) issuerIDs() *node {
	return row(ids(d.Issuer.Identifier, invoice.Identifier{ID: d.Payment.Mandate.Creditor, Scheme: "SEPA"}))
}

// taxSchemes are the tax numbers of the issuer (BT-31, BT-32).
func (d ubl) taxSchemes() *node {
	return row([]*node{
		d.taxScheme(d.vatID(d.Issuer), "VAT"),
		d.taxScheme(taxNumber(d.Document, d.Issuer), "TAX"),
	})
}

func (d ubl) taxScheme(id, scheme string) *node {
	if id == "" {
		return nil
	}
	return el("cac:PartyTaxScheme", leaf("cbc:CompanyID", id), el("cac:TaxScheme", leaf("cbc:ID", scheme)))
}

func (d ubl) party(p invoice.Party, identification, taxes *node) *node {
	c := contact(p)
	return el("cac:Party",
		leaf("cbc:EndpointID", p.Electronic.ID, "schemeID", p.Electronic.Scheme),
		identification,
		el("cac:PartyName", leaf("cbc:Name", p.TradingName)),
		d.address("cac:PostalAddress", p.Postal),
		taxes,
		el("cac:PartyLegalEntity",
			leaf("cbc:RegistrationName", p.Name),
			leaf("cbc:CompanyID", p.Registration.ID, "schemeID", p.Registration.Scheme)),
		el("cac:Contact",
			leaf("cbc:Name", c.Name), leaf("cbc:Telephone", c.Phone), leaf("cbc:ElectronicMail", c.Email)),
	)
}

func (d ubl) address(name string, p invoice.Postal) *node {
	return el(name,
		leaf("cbc:StreetName", streetLine(p, 0)),
		leaf("cbc:AdditionalStreetName", streetLine(p, 1)),
		leaf("cbc:CityName", p.City),
		leaf("cbc:PostalZone", p.Code),
		leaf("cbc:CountrySubentity", p.Subdivision),
		el("cac:AddressLine", leaf("cbc:Line", streetLine(p, 2))),
		el("cac:Country", leaf("cbc:IdentificationCode", p.Country)))
}

func streetLine(p invoice.Postal, i int) string {
	if i < len(p.Street) {
		return p.Street[i]
	}
	return ""
}

func (d ubl) delivery() *node {
	return el("cac:Delivery",
		leaf("cbc:ActualDeliveryDate", day(d.Delivery.Date, time.DateOnly)),
		el("cac:DeliveryLocation", d.address("cac:Address", d.Delivery.Postal)),
		el("cac:DeliveryParty", el("cac:PartyName", leaf("cbc:Name", d.Delivery.Name))))
}

// paymentMeans are one element for each account; card and mandate stand in the
// first.
func (d ubl) paymentMeans() []*node {
	code, due := d.means(), ""
	if d.credit {
		due = day(d.DueDate, time.DateOnly)
	}
	if code == "" && due == "" {
		return nil
	}
	if code == "" {
		code = "1" // instrument not defined: only the due date is known
	}
	accounts := d.Payment.Accounts
	if len(accounts) == 0 {
		accounts = make([]invoice.Account, 1)
	}
	out := make([]*node, len(accounts))
	for i, a := range accounts {
		var card, mandate *node
		if i == 0 {
			card, mandate = d.card(), d.mandate()
		}
		out[i] = el("cac:PaymentMeans",
			leaf("cbc:PaymentMeansCode", code, "name", d.Payment.MeansText),
			leaf("cbc:PaymentDueDate", due),
			leaf("cbc:PaymentID", d.Payment.Reference),
			card,
			el("cac:PayeeFinancialAccount",
				leaf("cbc:ID", a.ID()),
				leaf("cbc:Name", a.Name),
				el("cac:FinancialInstitutionBranch", leaf("cbc:ID", a.BIC))),
			mandate)
	}
	return out
}

// card is the card that is charged. UBL wants its network, which EN 16931 does
// not know.
func (d ubl) card() *node {
	c := d.Payment.Card
	if c.Number == "" {
		return nil
	}
	return el("cac:CardAccount",
		leaf("cbc:PrimaryAccountNumberID", c.Number), leaf("cbc:NetworkID", "NA"), leaf("cbc:HolderName", c.Holder))
}

func (d ubl) mandate() *node {
	m := d.Payment.Mandate
	return el("cac:PaymentMandate",
		leaf("cbc:ID", m.Reference), el("cac:PayerFinancialAccount", leaf("cbc:ID", m.IBAN)))
}

func (d ubl) amount(name string, a decimal.Decimal) *node {
	return leaf(name, d.money(a), "currencyID", d.Currency.Code)
}

func (d ubl) amountUnlessZero(name string, a decimal.Decimal) *node {
	return leaf(name, d.moneyUnlessZero(a), "currencyID", d.Currency.Code)
}

func (d ubl) adjustments(list []adjustment) []*node {
	out := make([]*node, len(list))
	for i, a := range list {
		var base *node
		if a.percent != "" {
			base = d.amount("cbc:BaseAmount", a.base)
		}
		out[i] = el("cac:AllowanceCharge",
			leaf("cbc:ChargeIndicator", strconv.FormatBool(a.charge)),
			leaf("cbc:AllowanceChargeReasonCode", a.code),
			leaf("cbc:AllowanceChargeReason", a.reason),
			leaf("cbc:MultiplierFactorNumeric", a.percent),
			d.amount("cbc:Amount", a.amount),
			base,
			d.category("cac:TaxCategory", a.category, a.rate, invoice.Exemption{}))
	}
	return out
}

// category is a tax category; nothing when c is empty.
func (d ubl) category(name string, c invoice.Category, percent decimal.Decimal, why invoice.Exemption) *node {
	if c == "" {
		return nil
	}
	return el(name,
		leaf("cbc:ID", string(c)),
		leaf("cbc:Percent", rate(c, percent)),
		leaf("cbc:TaxExemptionReasonCode", why.Code),
		leaf("cbc:TaxExemptionReason", why.Reason),
		el("cac:TaxScheme", leaf("cbc:ID", "VAT")))
}

func (d ubl) taxTotal() *node {
	groups := make([]*node, len(d.sums.Taxes))
	for i, g := range d.sums.Taxes {
		groups[i] = el("cac:TaxSubtotal",
			d.amount("cbc:TaxableAmount", g.Net),
			d.amount("cbc:TaxAmount", g.Tax),
			d.category("cac:TaxCategory", g.Category, g.Rate, d.Exemption(g.Category)))
	}
	return el("cac:TaxTotal", d.amount("cbc:TaxAmount", d.sums.Tax), row(groups))
}

func (d ubl) monetaryTotal() *node {
	t := d.sums
	return el("cac:LegalMonetaryTotal",
		d.amount("cbc:LineExtensionAmount", t.LineNet),
		d.amount("cbc:TaxExclusiveAmount", t.Net),
		d.amount("cbc:TaxInclusiveAmount", t.Gross),
		d.amountUnlessZero("cbc:AllowanceTotalAmount", t.AllowanceTotal),
		d.amountUnlessZero("cbc:ChargeTotalAmount", t.ChargeTotal),
		d.amountUnlessZero("cbc:PrepaidAmount", t.Prepaid),
		d.amountUnlessZero("cbc:PayableRoundingAmount", t.Rounding),
		d.amount("cbc:PayableAmount", t.Due))
}

func (d ubl) lines() []*node {
	name, quantity := "cac:InvoiceLine", "cbc:InvoicedQuantity"
	if d.credit {
		name, quantity = "cac:CreditNoteLine", "cbc:CreditedQuantity"
	}
	out := make([]*node, len(d.Lines))
	for i, l := range d.Lines {
		out[i] = el(name,
			leaf("cbc:ID", l.Key(i)),
			leaf("cbc:Note", l.Note),
			leaf(quantity, l.Quantity.String(), "unitCode", unitCode(l)),
			d.amount("cbc:LineExtensionAmount", d.sums.Lines[i]),
			d.periodNode(l.Period, ""),
			row(d.adjustments(d.ofLine(i))),
			el("cac:Item",
				leaf("cbc:Description", itemText(l)),
				leaf("cbc:Name", itemName(l)),
				el("cac:BuyersItemIdentification", leaf("cbc:ID", l.BuyerItemCode)),
				el("cac:SellersItemIdentification", leaf("cbc:ID", l.ItemCode)),
				el("cac:StandardItemIdentification", leaf("cbc:ID", l.StandardItem.ID, "schemeID", l.StandardItem.Scheme)),
				d.category("cac:ClassifiedTaxCategory", l.TaxCategory, l.TaxRate, invoice.Exemption{})),
			el("cac:Price", leaf("cbc:PriceAmount", l.UnitPrice.String(), "currencyID", d.Currency.Code)))
	}
	return out
}
