package einvoice

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fenceline/fenceline/jobs/invoice"
)

// WriteCII writes doc as a Cross Industry Invoice of UN/CEFACT, D16B; a credit
// note is one with type code 381. totals must be what doc.Totals gives. It
// refuses what [Check] refuses; other errors are those of w and of text that XML
// cannot hold. It may be called by several goroutines at once.
func WriteCII(w io.Writer, doc *invoice.Document, totals invoice.Totals) error {
	if err := Check(doc); err != nil {
		return err
	}
	const data = "urn:un:unece:uncefact:data:standard:"
	d := cii{draft{doc, totals}}
	err := write(w, d.root(),
		"rsm", data+"CrossIndustryInvoice:100",
		"ram", data+"ReusableAggregateBusinessInformationEntity:100",
		"udt", data+"UnqualifiedDataType:100",
		"qdt", data+"QualifiedDataType:100")
	if err != nil {
		return fmt.Errorf("write CII invoice %s: %w", doc.Number, err)
	}
	return nil
}

// cii writes a document as a Cross Industry Invoice, in the order of its schema.
type cii struct{ draft }

const basicDate = "20060102" // format 102 of UNTDID 2379

func (d cii) root() *node {
	code := "380"
	if d.Type == invoice.TypeCreditNote {
		code = "381"
	}
	return el("rsm:CrossIndustryInvoice",
		el("rsm:ExchangedDocumentContext",
			el("ram:GuidelineSpecifiedDocumentContextParameter", leaf("ram:ID", profile))),
		el("rsm:ExchangedDocument",
			leaf("ram:ID", d.Number),
			leaf("ram:TypeCode", code),
			d.date("ram:IssueDateTime", d.IssueDate),
			el("ram:IncludedNote", leaf("ram:Content", d.Notes))),
		el("rsm:SupplyChainTradeTransaction",
			row(d.lines()),
			d.agreement(),
			d.delivery(),
			d.settlement()))
}

func (d cii) date(name string, t time.Time) *node {
	return el(name, leaf("udt:DateTimeString", day(t, basicDate), "format", "102"))
}

func (d cii) period(p invoice.Period) *node {
	return el("ram:BillingSpecifiedPeriod", d.date("ram:StartDateTime", p.From), d.date("ram:EndDateTime", p.To))
}

func (d cii) lines() []*node {
	out := make([]*node, len(d.Lines))
	for i, l := range d.Lines {
		out[i] = el("ram:IncludedSupplyChainTradeLineItem",
			el("ram:AssociatedDocumentLineDocument",
				leaf("ram:LineID", l.Key(i)),
				el("ram:IncludedNote", leaf("ram:Content", l.Note))),
			el("ram:SpecifiedTradeProduct",
				leaf("ram:GlobalID", l.StandardItem.ID, "schemeID", l.StandardItem.Scheme),
				leaf("ram:SellerAssignedID", l.ItemCode),
				leaf("ram:BuyerAssignedID", l.BuyerItemCode),
				leaf("ram:Name", itemName(l)),
				leaf("ram:Description", itemText(l))),
			el("ram:SpecifiedLineTradeAgreement",
				el("ram:NetPriceProductTradePrice", leaf("ram:ChargeAmount", l.UnitPrice.String()))),
			el("ram:SpecifiedLineTradeDelivery",
				leaf("ram:BilledQuantity", l.Quantity.String(), "unitCode", unitCode(l))),
			el("ram:SpecifiedLineTradeSettlement",
				d.tax("ram:ApplicableTradeTax", l.TaxCategory, l.TaxRate),
				d.period(l.Period),
				row(d.adjustments(d.ofLine(i))),
				el("ram:SpecifiedTradeSettlementLineMonetarySummation",
					leaf("ram:LineTotalAmount", d.money(d.sums.Lines[i])))))
	}
	return out
}

func (d cii) agreement() *node {
	reference := func(name, id string) *node { return el(name, leaf("ram:IssuerAssignedID", id)) }
	return el("ram:ApplicableHeaderTradeAgreement",
		leaf("ram:BuyerReference", d.Orders.Buyer),
		d.party("ram:SellerTradeParty", d.Issuer, d.Issuer.Identifier, taxNumber(d.Document, d.Issuer)),
		d.party("ram:BuyerTradeParty", d.Customer, d.buyerID(), ""),
		reference("ram:SellerOrderReferencedDocument", d.Orders.Sales),
		reference("ram:BuyerOrderReferencedDocument", d.Orders.Order),
		reference("ram:ContractReferencedDocument", d.Orders.Contract))
}

func (d cii) party(name string, p invoice.Party, id invoice.Identifier, number string) *node {
	local, global := leaf("ram:ID", id.ID), (*node)(nil)
	if id.Scheme != "" {
		local, global = nil, leaf("ram:GlobalID", id.ID, "schemeID", id.Scheme)
	}
	c := contact(p)
	registration := func(id, scheme string) *node {
		return el("ram:SpecifiedTaxRegistration", leaf("ram:ID", id, "schemeID", scheme))
	}
	return el(name,
		local,
		global,
		leaf("ram:Name", p.Name),
		el("ram:SpecifiedLegalOrganization",
			leaf("ram:ID", p.Registration.ID, "schemeID", p.Registration.Scheme),
			leaf("ram:TradingBusinessName", p.TradingName)),
		el("ram:DefinedTradeContact",
			leaf("ram:PersonName", c.Name),
			el("ram:TelephoneUniversalCommunication", leaf("ram:CompleteNumber", c.Phone)),
			el("ram:EmailURIUniversalCommunication", leaf("ram:URIID", c.Email))),
		d.address(p.Postal),
		el("ram:URIUniversalCommunication", leaf("ram:URIID", p.Electronic.ID, "schemeID", p.Electronic.Scheme)),
		registration(d.vatID(p), "VA"),
		registration(number, "FC"))
}

func (d cii) address(p invoice.Postal) *node {
	return el("ram:PostalTradeAddress",
		leaf("ram:PostcodeCode", p.Code),
		leaf("ram:LineOne", streetLine(p, 0)),
		leaf("ram:LineTwo", streetLine(p, 1)),
		leaf("ram:LineThree", streetLine(p, 2)),
		leaf("ram:CityName", p.City),
		leaf("ram:CountryID", p.Country),
		leaf("ram:CountrySubDivisionName", p.Subdivision))
}

// delivery is there even when nothing is known about it: the schema wants it.
func (d cii) delivery() *node {
	n := el("ram:ApplicableHeaderTradeDelivery",
		el("ram:ShipToTradeParty", leaf("ram:Name", d.Delivery.Name), d.address(d.Delivery.Postal)),
		el("ram:ActualDeliverySupplyChainEvent", d.date("ram:OccurrenceDateTime", d.Delivery.Date)))
	if n == nil {
		return &node{name: "ram:ApplicableHeaderTradeDelivery"}
	}
	return n
}

func (d cii) settlement() *node {
	var reference *node
	if d.Reference != "" {
		reference = el("ram:InvoiceReferencedDocument",
			leaf("ram:IssuerAssignedID", d.Reference),
			el("ram:FormattedIssueDateTime", leaf("qdt:DateTimeString", day(d.ReferenceDate, basicDate), "format", "102")))
	}
	return el("ram:ApplicableHeaderTradeSettlement",
		leaf("ram:CreditorReferenceID", d.Payment.Mandate.Creditor),
		leaf("ram:PaymentReference", d.Payment.Reference),
		leaf("ram:InvoiceCurrencyCode", d.Currency.Code),
		row(d.paymentMeans()),
		row(d.taxes()),
		d.period(d.draft.period()),
		row(d.adjustments(d.ofDocument())),
		el("ram:SpecifiedTradePaymentTerms",
			leaf("ram:Description", d.Payment.Terms),
			d.date("ram:DueDateDateTime", d.DueDate),
			leaf("ram:DirectDebitMandateID", d.Payment.Mandate.Reference)),
		d.summation(),
		reference)
}

// paymentMeans are one element for each account; card and mandate stand in the
// first.
func (d cii) paymentMeans() []*node {
	code := d.means()
	if code == "" {
		return nil
	}
	accounts := d.Payment.Accounts
	if len(accounts) == 0 {
		accounts = make([]invoice.Account, 1)
	}
	out := make([]*node, len(accounts))
	for i, a := range accounts {
		var card, debtor *node
		if i == 0 {
			card = el("ram:ApplicableTradeSettlementFinancialCard",
				leaf("ram:ID", d.Payment.Card.Number), leaf("ram:CardholderName", d.Payment.Card.Holder))
			debtor = el("ram:PayerPartyDebtorFinancialAccount", leaf("ram:IBANID", d.Payment.Mandate.IBAN))
		}
		out[i] = el("ram:SpecifiedTradeSettlementPaymentMeans",
			leaf("ram:TypeCode", code),
			leaf("ram:Information", d.Payment.MeansText),
			card,
			debtor,
			el("ram:PayeePartyCreditorFinancialAccount",
				leaf("ram:IBANID", a.IBAN), leaf("ram:AccountName", a.Name), leaf("ram:ProprietaryID", a.Number)),
			el("ram:PayeeSpecifiedCreditorFinancialInstitution", leaf("ram:BICID", a.BIC)))
	}
	return out
}

func (d cii) adjustments(list []adjustment) []*node {
	out := make([]*node, len(list))
	for i, a := range list {
		base := ""
		if a.percent != "" {
			base = d.money(a.base)
		}
		out[i] = el("ram:SpecifiedTradeAllowanceCharge",
			el("ram:ChargeIndicator", leaf("udt:Indicator", strconv.FormatBool(a.charge))),
			leaf("ram:CalculationPercent", a.percent),
			leaf("ram:BasisAmount", base),
			leaf("ram:ActualAmount", d.money(a.amount)),
			leaf("ram:ReasonCode", a.code),
			leaf("ram:Reason", a.reason),
			d.tax("ram:CategoryTradeTax", a.category, a.rate))
	}
	return out
}

// tax is a tax category; nothing when c is empty.
func (d cii) tax(name string, c invoice.Category, percent decimal.Decimal) *node {
	if c == "" {
		return nil
	}
	return el(name,
		leaf("ram:TypeCode", "VAT"),
		leaf("ram:CategoryCode", string(c)),
		leaf("ram:RateApplicablePercent", rate(c, percent)))
}

// taxes are the tax groups. When the tax becomes due stands in each of them.
func (d cii) taxes() []*node {
	code := ""
	switch d.TaxPoint {
	case invoice.TaxPointIssue:
		code = "5"
	case invoice.TaxPointDelivery:
		code = "29"
	case invoice.TaxPointPayment:
		code = "72"
	}
	out := make([]*node, len(d.sums.Taxes))
	for i, g := range d.sums.Taxes {
		why := d.Exemption(g.Category)
		out[i] = el("ram:ApplicableTradeTax",
			leaf("ram:CalculatedAmount", d.money(g.Tax)),
			leaf("ram:TypeCode", "VAT"),
			leaf("ram:ExemptionReason", why.Reason),
			leaf("ram:BasisAmount", d.money(g.Net)),
			leaf("ram:CategoryCode", string(g.Category)),
			leaf("ram:ExemptionReasonCode", why.Code),
			el("ram:TaxPointDate", leaf("udt:DateString", day(d.TaxPointDate, basicDate), "format", "102")),
			leaf("ram:DueDateTypeCode", code),
			leaf("ram:RateApplicablePercent", rate(g.Category, g.Rate)))
	}
	return out
}

func (d cii) summation() *node {
	t := d.sums
	return el("ram:SpecifiedTradeSettlementHeaderMonetarySummation",
		leaf("ram:LineTotalAmount", d.money(t.LineNet)),
		leaf("ram:ChargeTotalAmount", d.moneyUnlessZero(t.ChargeTotal)),
		leaf("ram:AllowanceTotalAmount", d.moneyUnlessZero(t.AllowanceTotal)),
		leaf("ram:TaxBasisTotalAmount", d.money(t.Net)),
		leaf("ram:TaxTotalAmount", d.money(t.Tax), "currencyID", d.Currency.Code),
		leaf("ram:RoundingAmount", d.moneyUnlessZero(t.Rounding)),
		leaf("ram:GrandTotalAmount", d.money(t.Gross)),
		leaf("ram:TotalPrepaidAmount", d.moneyUnlessZero(t.Prepaid)),
		leaf("ram:DuePayableAmount", d.money(t.Due)))
}
