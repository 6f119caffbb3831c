package einvoice

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice"
)

// must is a rule of the kind "each X shall have a Y": where the Xs and their Ys
// stand in the two syntaxes. An empty X is the document.
type must struct {
	rule                       string
	eachUBL, ubl, eachCII, cii string
}

const (
	lineCII       = "SupplyChainTradeTransaction/IncludedSupplyChainTradeLineItem"
	agreementCII  = "SupplyChainTradeTransaction/ApplicableHeaderTradeAgreement/"
	deliveryCII   = "SupplyChainTradeTransaction/ApplicableHeaderTradeDelivery/"
	settlementCII = "SupplyChainTradeTransaction/ApplicableHeaderTradeSettlement/"
	summationCII  = settlementCII + "SpecifiedTradeSettlementHeaderMonetarySummation/"
)

func musts() []must {
	seller, buyer := "AccountingSupplierParty/Party/", "AccountingCustomerParty/Party/"
	sellerCII, buyerCII := agreementCII+"SellerTradeParty/", agreementCII+"BuyerTradeParty/"
	lineTax := "SpecifiedLineTradeSettlement/ApplicableTradeTax/"
	adjustments, adjustmentsCII := "AllowanceCharge", settlementCII+"SpecifiedTradeAllowanceCharge"
	lineAdjustments, lineAdjustmentsCII := "LINE/AllowanceCharge", lineCII+"/SpecifiedLineTradeSettlement/SpecifiedTradeAllowanceCharge"
	groups, groupsCII := "TaxTotal/TaxSubtotal", settlementCII+"ApplicableTradeTax"
	return []must{
		{"BR-01", "", "CustomizationID", "", "ExchangedDocumentContext/GuidelineSpecifiedDocumentContextParameter/ID"},
		{"BR-02", "", "ID", "", "ExchangedDocument/ID"},
		{"BR-03", "", "IssueDate", "", "ExchangedDocument/IssueDateTime/DateTimeString"},
		{"BR-04", "", "TYPE", "", "ExchangedDocument/TypeCode"},
		{"BR-05", "", "DocumentCurrencyCode", "", settlementCII + "InvoiceCurrencyCode"},
		{"BR-06", "", seller + "PartyLegalEntity/RegistrationName", "", sellerCII + "Name"},
		{"BR-07", "", buyer + "PartyLegalEntity/RegistrationName", "", buyerCII + "Name"},
		{"BR-08", "", seller + "PostalAddress", "", sellerCII + "PostalTradeAddress"},
		{"BR-09", "", seller + "PostalAddress/Country/IdentificationCode", "", sellerCII + "PostalTradeAddress/CountryID"},
		{"BR-10", "", buyer + "PostalAddress", "", buyerCII + "PostalTradeAddress"},
		{"BR-11", "", buyer + "PostalAddress/Country/IdentificationCode", "", buyerCII + "PostalTradeAddress/CountryID"},
		{"BR-12", "", "LegalMonetaryTotal/LineExtensionAmount", "", summationCII + "LineTotalAmount"},
		{"BR-13", "", "LegalMonetaryTotal/TaxExclusiveAmount", "", summationCII + "TaxBasisTotalAmount"},
		{"BR-14", "", "LegalMonetaryTotal/TaxInclusiveAmount", "", summationCII + "GrandTotalAmount"},
		{"BR-15", "", "LegalMonetaryTotal/PayableAmount", "", summationCII + "DuePayableAmount"},
		{"BR-16", "", "LINE", "", lineCII},
		{"BR-21", "LINE", "ID", lineCII, "AssociatedDocumentLineDocument/LineID"},
		{"BR-22", "LINE", "QUANTITY", lineCII, "SpecifiedLineTradeDelivery/BilledQuantity"},
		{"BR-23", "LINE", "QUANTITY@unitCode", lineCII, "SpecifiedLineTradeDelivery/BilledQuantity@unitCode"},
		{"BR-24", "LINE", "LineExtensionAmount", lineCII, "SpecifiedLineTradeSettlement/SpecifiedTradeSettlementLineMonetarySummation/LineTotalAmount"},
		{"BR-25", "LINE", "Item/Name", lineCII, "SpecifiedTradeProduct/Name"},
		{"BR-26", "LINE", "Price/PriceAmount", lineCII, "SpecifiedLineTradeAgreement/NetPriceProductTradePrice/ChargeAmount"},
		{"BR-CO-04", "LINE", "Item/ClassifiedTaxCategory/ID", lineCII, lineTax + "CategoryCode"},
		{"BR-31 BR-36", adjustments, "Amount", adjustmentsCII, "ActualAmount"},
		{"BR-32 BR-37", adjustments, "TaxCategory/ID", adjustmentsCII, "CategoryTradeTax/CategoryCode"},
		{"BR-33 BR-38 BR-CO-21 BR-CO-22", adjustments, "AllowanceChargeReason|AllowanceChargeReasonCode", adjustmentsCII, "Reason|ReasonCode"},
		{"BR-41 BR-43", lineAdjustments, "Amount", lineAdjustmentsCII, "ActualAmount"},
		{"BR-42 BR-44 BR-CO-23 BR-CO-24", lineAdjustments, "AllowanceChargeReason|AllowanceChargeReasonCode", lineAdjustmentsCII, "Reason|ReasonCode"},
		{"BR-45", groups, "TaxableAmount", groupsCII, "BasisAmount"},
		{"BR-46", groups, "TaxAmount", groupsCII, "CalculatedAmount"},
		{"BR-47", groups, "TaxCategory/ID", groupsCII, "CategoryCode"},
		{"BR-49", "PaymentMeans", "PaymentMeansCode", settlementCII + "SpecifiedTradeSettlementPaymentMeans", "TypeCode"},
		{"BR-50", "PaymentMeans/PayeeFinancialAccount", "ID",
			settlementCII + "SpecifiedTradeSettlementPaymentMeans/PayeePartyCreditorFinancialAccount", "IBANID|ProprietaryID"},
		{"BR-51", "PaymentMeans/CardAccount", "PrimaryAccountNumberID",
			settlementCII + "SpecifiedTradeSettlementPaymentMeans/ApplicableTradeSettlementFinancialCard", "ID"},
		{"BR-55", "BillingReference", "InvoiceDocumentReference/ID", settlementCII + "InvoiceReferencedDocument", "IssuerAssignedID"},
		{"BR-57", "Delivery/DeliveryLocation/Address", "Country/IdentificationCode", deliveryCII + "ShipToTradeParty/PostalTradeAddress", "CountryID"},
		{"BR-62 BR-63", "AccountingSupplierParty/Party/EndpointID", "@schemeID", sellerCII + "URIUniversalCommunication/URIID", "@schemeID"},
		{"BR-64", "LINE/Item/StandardItemIdentification/ID", "@schemeID", lineCII + "/SpecifiedTradeProduct/GlobalID", "@schemeID"},
		{"BR-CO-26", "", seller + "PartyIdentification/ID|" + seller + "PartyLegalEntity/CompanyID|" + seller + "PartyTaxScheme/CompanyID", "",
			sellerCII + "ID|" + sellerCII + "GlobalID|" + sellerCII + "SpecifiedLegalOrganization/ID|" + sellerCII + "SpecifiedTaxRegistration/ID"},
	}
}

// has reports whether one of the paths, with "|" between, leads to text or to
// further elements.
func (e *element) has(paths string) bool {
	for path := range strings.SplitSeq(paths, "|") {
		path, attribute, isAttribute := strings.Cut(path, "@")
		found := []*element{e}
		if path != "" {
			found = e.all(path)
		}
		for _, f := range found {
			if isAttribute && f.attrs[attribute] != "" || !isAttribute && (f.text != "" || len(f.kids) > 0) {
				return true
			}
		}
	}
	return false
}

func each(root *element, path string) []*element {
	if path == "" {
		return []*element{root}
	}
	return root.all(path)
}

func TestWhatMustBeThereIsThere(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	seen := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		ubl, cii := readBack(t, ubl21(t, docs[name])), readBack(t, cii16(t, docs[name]))
		words := strings.NewReplacer("LINE", "InvoiceLine", "QUANTITY", "InvoicedQuantity", "TYPE", "InvoiceTypeCode")
		if docs[name].Type == invoice.TypeCreditNote {
			words = strings.NewReplacer("LINE", "CreditNoteLine", "QUANTITY", "CreditedQuantity", "TYPE", "CreditNoteTypeCode")
		}
		for _, m := range musts() {
			for _, e := range each(ubl, words.Replace(m.eachUBL)) {
				if seen[m.rule]++; !e.has(words.Replace(m.ubl)) {
					t.Errorf("%s in UBL breaks %s: no %s", name, m.rule, m.ubl)
				}
			}
			for _, e := range each(cii, m.eachCII) {
				if seen[m.rule]++; !e.has(m.cii) {
					t.Errorf("%s in CII breaks %s: no %s", name, m.rule, m.cii)
				}
			}
		}
	}
	for _, m := range musts() {
		if seen[m.rule] < 2 {
			t.Errorf("no document has what %s speaks of in both syntaxes", m.rule)
		}
	}
}

// Rules 05 and 10 of every category: its rate, and whether it has a reason; and
// BR-27: no price is negative.
func TestCategoriesHaveTheirRatesAndReasons(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	docs := documents(t)
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		root := readBack(t, ubl21(t, docs[name]))
		for _, g := range root.all("TaxTotal/TaxSubtotal/TaxCategory") {
			category := g.all("ID")[0].text
			seen[category] = true
			rate, reason := g.sum(t, "Percent"), g.has("TaxExemptionReason|TaxExemptionReasonCode")
			taxed := strings.Contains(" S Z L M ", " "+category+" ")
			if taxed == reason {
				t.Errorf("%s breaks rule 10 of category %s: it has a reason: %v", name, category, reason)
			}
			if (category == "S") != rate.IsPositive() && category != "L" && category != "M" {
				t.Errorf("%s breaks rule 05 of category %s: its rate is %s", name, category, rate)
			}
			if (category == "O") == g.has("Percent") {
				t.Errorf("%s breaks BR-48: category %s with or without a rate", name, category)
			}
		}
		for _, l := range root.all("InvoiceLine") {
			if l.sum(t, "Price/PriceAmount").IsNegative() {
				t.Errorf("%s breaks BR-27", name)
			}
		}
	}
	if len(seen) != 9 {
		t.Errorf("only the categories %v were seen", slices.Sorted(maps.Keys(seen)))
	}
}
