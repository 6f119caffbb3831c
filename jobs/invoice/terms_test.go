package invoice

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/text/currency"
	"golang.org/x/text/language"
)

func fullDocument(tb testing.TB) *Document {
	tb.Helper()
	raw, err := os.ReadFile("einvoice/testdata/full.json")
	if err != nil {
		tb.Fatal(err)
	}
	return parse(tb, raw)
}

func TestParseReadsTerms(t *testing.T) {
	t.Parallel()
	d := fullDocument(t)
	l := d.Lines[0]
	got := []any{d.TaxPoint, d.Period.From.Format("01-02"), d.Period.To.Format("01-02"), d.Orders, d.Issuer.TradingName, d.Issuer.Postal,
		d.Issuer.VATID, d.Issuer.Identifier, d.Issuer.Registration, d.Issuer.Electronic, d.Issuer.Contact, d.Delivery.Name,
		d.Delivery.Date.Format("01-02"), d.Delivery.Postal.City, l.ID, l.Note, l.ItemCode, l.BuyerItemCode, l.StandardItem, l.Allowances[0].Amount,
		l.Charges[0].Percent, l.Charges[0].Base, d.Lines[1].UnitCode, d.Allowances[0].Percent, d.Allowances[0].TaxRate,
		d.Allowances[0].TaxCategory, d.Charges[0].ReasonCode, d.Exemptions, d.CashRounding, d.Payment.Accounts, d.Payment.IBAN,
		d.Payment.MeansText, d.Payment.Terms}
	want := "[delivery 04-01 04-30 {04011000-1234512345-35 PO-778 & 779 SO-4410 C-2025/17} Nordlicht <Möbel> " +
		"{[Große Brunnenstraße 17 Hof 2 Tor 4] Hamburg 22763 Hamburg DE} DE123456788 {4000001123452 0088} {HRB 4711 0002} " +
		"{rechnung@nordlicht.example EM} {Silke Bruhn +49 40 555 0199 bruhn@nordlicht.example} Acropole, entrepôt 3 04-28 Strasbourg " +
		"10 Assembled on site RT-90 A-55 {4000001000016 0160} 5 2.5 100 HUR 3 19 S FC [{E Vocational training VATEX-EU-132-1I}] 0.05 " +
		"[{DE89370400440532013000  COBADEFFXXX Nordlicht} {FR1420041010050500013M02606   }] DE89370400440532013000 " +
		"SEPA credit transfer 2 % within 7 days\nnet within 14 days]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestParseRefusesTerms(t *testing.T) {
	t.Parallel()
	one := func(name string, value any) object {
		return object{"lines": []any{with(line("Thing", "1", "100", "19"), name, value)}}
	}
	adjust := func(list string, change object) object {
		a := object{"amount": "1.00", "reason": "x", "tax_rate": "19"}
		for name, value := range change {
			if a[name] = value; value == nil {
				delete(a, name)
			}
		}
		return object{list: []any{a}}
	}
	party := func(name string, value any) object {
		return object{"issuer": with(object{"name": "Seller", "address": []any{"Street"}}, name, value)}
	}
	free := with(line("x", "1", "1", "0"), "tax_category", "O")
	tests := []struct {
		name   string
		change object
		field  string
		words  []string
	}{
		{"BR-CO-3", object{"tax_point": "issue", "tax_point_date": "2026-01-02"}, "tax_point", []string{"BR-CO-3"}},
		{"BR-CO-9", party("vat_id", "123456789"), "issuer.vat_id", []string{"BR-CO-9", "DE123456789"}},
		{"BR-CO-9 of a country that is none", party("vat_id", "UK123456789"), "issuer.vat_id", []string{"BR-CO-9"}},
		{"BR-CO-19", object{"period": object{}}, "period", []string{"BR-CO-19"}},
		{"BR-CO-20", one("period", object{}), "lines[0].period", []string{"BR-CO-20"}},
		{"BR-29", object{"period": object{"from": "2026-02-01", "to": "2026-01-31"}}, "period.to", []string{"2026-01-31", "BR-29"}},
		{"BR-30", one("period", object{"from": "2026-02-01", "to": "2026-01-31"}), "lines[0].period.to", []string{"BR-30"}},
		{"BR-CO-21 BR-33", adjust("allowances", object{"reason": nil}), "allowances[0].reason", []string{"BR-CO-21"}},
		{"BR-CO-22 BR-38", adjust("charges", object{"reason": nil}), "charges[0].reason", []string{"BR-CO-22"}},
		{"BR-CO-23 BR-42", one("allowances", []any{object{"amount": "1"}}), "lines[0].allowances[0].reason", []string{"BR-CO-23"}},
		{"BR-CO-24 BR-44", one("charges", []any{object{"amount": "1"}}), "lines[0].charges[0].reason", []string{"BR-CO-24"}},
		{"BR-31", adjust("allowances", object{"amount": nil}), "allowances[0].amount", []string{"is missing", "percent"}},
		{"BR-32", adjust("allowances", object{"tax_rate": nil}), "allowances[0].tax_rate", []string{"is missing"}},
		{"BR-36", adjust("charges", object{"amount": nil}), "charges[0].amount", []string{"is missing"}},
		{"BR-37", adjust("charges", object{"tax_rate": "0"}), "charges[0].tax_category", []string{"needs the reason"}},
		{"BR-S-06", adjust("allowances", object{"tax_rate": "0", "tax_category": "S"}), "allowances[0].tax_rate", []string{"BR-S-05"}},
		{"amount and percent", adjust("charges", object{"percent": "1"}), "charges[0].percent", []string{"one of the two"}},
		{"base of an amount", adjust("charges", object{"base": "1"}), "charges[0].base", []string{"without percent"}},
		{"BR-DEC-01", adjust("allowances", object{"amount": "1.005"}), "allowances[0].amount", []string{"more decimals than the 2 of EUR"}},
		{"BR-DEC-02", adjust("allowances", object{"amount": nil, "percent": "1", "base": "1.005"}), "allowances[0].base", []string{"more decimals"}},
		{"BR-DEC-05", adjust("charges", object{"amount": "1.005"}), "charges[0].amount", []string{"more decimals"}},
		{"BR-DEC-27", one("charges", []any{object{"amount": "0.001", "reason": "x"}}), "lines[0].charges[0].amount", []string{"more decimals"}},
		{"BR-DEC-24", one("allowances", []any{object{"amount": "0.001", "reason": "x"}}), "lines[0].allowances[0].amount", []string{"more decimals"}},
		{"negative allowance", adjust("allowances", object{"amount": "-1"}), "allowances[0].amount", []string{"must not be negative"}},
		{"reason code of a charge", adjust("allowances", object{"reason_code": "FC"}), "allowances[0].reason_code", []string{"UNTDID 5189"}},
		{"reason code of an allowance", adjust("charges", object{"reason_code": "95"}), "charges[0].reason_code", []string{"UNTDID 7161"}},
		{"BR-O-12", object{"lines": []any{free}, "allowances": []any{object{"amount": "1", "reason": "x", "tax_rate": "19"}}},
			"lines[0].tax_category", []string{"BR-O-11", "allowances[0]"}},
		{"BR-S-10", object{"tax_exemptions": []any{object{"category": "S", "reason": "x"}}}, "tax_exemptions[0].category", []string{"BR-S-10"}},
		{"exemption of nothing", object{"tax_exemptions": []any{object{"category": "E", "reason": "x"}}}, "tax_exemptions[0].category",
			[]string{"not the tax category of anything"}},
		{"two reasons", object{"lines": []any{free}, "tax_exemptions": []any{object{"category": "O", "reason": "x"}, object{"category": "O", "code": "VATEX-EU-O"}}},
			"tax_exemptions[1].category", []string{"given twice"}},
		{"VATEX", object{"lines": []any{with(line("x", "1", "1", "0"), "tax_category", "E")}, "tax_exemptions": []any{object{"category": "E", "code": "132"}}}, "tax_exemptions[0].code", []string{"VATEX-EU-132"}},
		{"BR-50", object{"payment": object{"accounts": []any{object{"name": "x"}}}}, "payment.accounts[0].iban", []string{"BR-50"}},
		{"BR-51", object{"payment": object{"card": object{"number": "4111111111111111"}}}, "payment.card.number", []string{"BR-51"}},
		{"BR-51 of a number that shows too much", object{"payment": object{"card": object{"number": "4111111111**1111"}}}, "payment.card.number",
			[]string{"BR-51"}},
		{"BR-62", party("electronic_address", object{"id": "x"}), "issuer.electronic_address.scheme", []string{"is missing"}},
		{"BR-64", one("standard_item", object{"id": "1"}), "lines[0].standard_item.scheme", []string{"is missing"}},
		{"BR-57", object{"delivery": object{"postal": object{"city": "x"}}}, "delivery.postal.country", []string{"is missing"}},
		{"BR-CL-14", party("postal", object{"country": "UK"}), "issuer.postal.country", []string{`"UK"`, "ISO 3166"}},
		{"accounts twice", object{"payment": object{"bic": "COBADEFF", "accounts": []any{object{"number": "1"}}}}, "payment.accounts", []string{"into the list"}},
		{"means", object{"payment": object{"means": "99"}}, "payment.means", []string{"UNTDID 4461"}},
		{"coin of nothing", object{"cash_rounding": "0"}, "cash_rounding", []string{"smallest coin"}},
		{"coin with too many decimals", object{"cash_rounding": "0.005"}, "cash_rounding", []string{"more decimals"}},
		{"two lines with one id", object{"lines": []any{with(line("x", "1", "1", "19"), "id", "2"), line("y", "1", "1", "19")}}, "lines[1].id",
			[]string{"lines[0]"}},
		{"date of an invoice's reference", object{"reference_date": "2026-01-01"}, "reference_date", []string{"credit notes only"}},
		{"wrong amount of a line", one("amount", "99.99"), "lines[0].amount", []string{`"99.99"`, "100.00 EUR"}},
		{"wrong sum of the lines", object{"totals": object{"lines": "99"}}, "totals.lines", []string{"100.00 EUR"}},
		{"wrong allowances", with(adjust("allowances", nil), "totals", object{"allowances": "2"}), "totals.allowances", []string{"1.00 EUR"}},
		{"wrong charges", with(adjust("charges", nil), "totals", object{"charges": "2"}), "totals.charges", []string{"1.00 EUR"}},
		{"wrong rounding", object{"cash_rounding": "10", "totals": object{"rounding": "0"}}, "totals.rounding", []string{"1.00 EUR"}},
		{"case 40", object{"type": "credit_note", "reference": "A-0", "lines": []any{line("x", "1", "-100", "19")}}, "lines[0].unit_price",
			[]string{`"-100"`, "credit note"}},
		{"neither address", object{"issuer": object{"name": "x", "address": nil}}, "issuer.address", []string{"is missing", "postal"}},
		{"too many allowances", object{"allowances": make([]any, 51)}, "", nil},
		{"allowance too large", one("allowances", []any{object{"percent": "100", "base": "999999999999999", "reason": "x"}, object{"amount": "999", "reason": "x"}}),
			"lines[0]", []string{"15 digits"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.field == "" {
				problems(t, simple(t, tt.change))
				return
			}
			oneProblem(t, simple(t, tt.change), tt.field, tt.words...)
		})
	}
}

func TestPostalAddressesArePrinted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		postal object
		locale string
		want   string
	}{
		{object{"street": []any{"Große Straße 1"}, "city": "Hamburg", "postal_code": "22763", "country": "DE"}, "de",
			"Große Straße 1|22763 Hamburg|Deutschland"},
		{object{"street": []any{"1 Main St", "Apt 2"}, "city": "Austin", "postal_code": "78701", "subdivision": "TX", "country": "US"}, "en",
			"1 Main St|Apt 2|Austin, TX 78701|United States"},
		{object{"city": "Leeds", "postal_code": "LS1 4AP", "country": "GB"}, "fr", "Leeds|LS1 4AP|Royaume-Uni"},
		{object{"city": "Dhaka", "postal_code": "1205", "country": "BD"}, "en", "Dhaka 1205|Bangladesh"},
		{object{"subdivision": "Lazio", "country": "IT"}, "en-GB", "Lazio|Italy"},
		{object{"country": "XI"}, "en", "United Kingdom"},
		{object{"country": "1A"}, "en", "Kosovo"},
	}
	for _, tt := range tests {
		d := parse(t, simple(t, object{"locale": tt.locale, "customer": object{"name": "x", "postal": tt.postal}}))
		if got := strings.Join(d.Customer.Address, "|"); got != tt.want {
			t.Errorf("%v is printed as %q, want %q", tt.postal, got, tt.want)
		}
	}
	d := parse(t, simple(t, object{"customer": object{"name": "x", "address": []any{"As given"}, "postal": object{"country": "IT"}}}))
	if got := strings.Join(d.Customer.Address, "|"); got != "As given" {
		t.Errorf("printed lines became %q", got)
	}
}

func TestEveryCountryHasAName(t *testing.T) {
	t.Parallel()
	list := strings.Fields(countries)
	if len(list) != 249+2 {
		t.Errorf("there are %d countries", len(list))
	}
	for _, code := range list {
		if name := countryName(code, "en"); name == code || name == "" {
			t.Errorf("%s has no name", code)
		}
		if region, err := language.ParseRegion(code); code != "1A" && (err != nil || !region.IsCountry() && code != "XI") {
			t.Errorf("%s is no country: %v", code, err)
		}
	}
}

// CLDR has the minor units of ISO 4217, except where people no longer use the
// small coins; there the two differ and ISO 4217 is right for invoices.
func TestMinorUnitsAgreeWithCLDR(t *testing.T) {
	t.Parallel()
	custom := " AFN ALL AMD BYN COP CRC CUP CZK HUF IDR IQD IRR KPW LAK LBP MGA MMK MNT MRO MUR NOK PKR RSD SEK SLL SOS STN SYP TMT TWD TZS UYU UYW UZS YER ZMW "
	agreed := 0
	for _, code := range strings.Fields("AED AFN ALL AMD AOA ARS AUD AZN BDT BHD BIF BRL CAD CHF CLF CLP CNY COP CRC CZK DJF DKK EGP EUR GBP GNF HKD HUF " +
		"IDR ILS INR IQD IRR ISK JOD JPY KES KMF KRW KWD LBP LYD MAD MXN MYR NGN NOK NZD OMR PEN PHP PKR PLN PYG QAR RON RWF SAR SEK SGD THB TND TRY TWD UAH " +
		"UGX USD UYU VND VUV XAF XOF XPF ZAR") {
		c, ok := CurrencyByCode(code)
		if !ok {
			t.Errorf("%s is not known", code)
		}
		unit, err := currency.ParseISO(code)
		if err != nil {
			t.Fatal(err)
		}
		digits, _ := currency.Standard.Rounding(unit)
		if strings.Contains(custom, " "+code+" ") {
			continue
		}
		agreed++
		if int32(digits) != c.Minor {
			t.Errorf("%s has %d decimals here and %d in CLDR", code, c.Minor, digits)
		}
	}
	if agreed < 50 {
		t.Errorf("only %d currencies were compared", agreed)
	}
}

func TestExemptionsHaveDefaults(t *testing.T) {
	t.Parallel()
	d := parse(t, simple(t, object{"lines": []any{with(line("x", "1", "1", "0"), "tax_category", "AE"), with(line("x", "1", "1", "0"), "tax_category", "E")},
		"tax_exemptions": []any{object{"category": "AE", "reason": "§ 13b"}}}))
	if got := fmt.Sprint(d.Exemption("AE"), d.Exemption("E"), d.Exemption("G"), d.Exemption("S")); got !=
		"{AE § 13b } {E  } {G Export outside the EU VATEX-EU-G} {S  }" {
		t.Error(got)
	}
}
