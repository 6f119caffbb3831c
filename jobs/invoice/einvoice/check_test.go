package einvoice

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/invoice"
)

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	lines := func(l ...any) object { return object{"lines": l} }
	issuer := func(change object) object { return object{"issuer": with(seller(), change)} }
	customer := func(change object) object { return object{"customer": with(buyer(), change)} }
	all := func(list ...object) object {
		out := object{}
		for _, o := range list {
			for k, v := range o {
				out[k] = v
			}
		}
		return out
	}
	free := with(line("1", "100", "", "O"), object{"tax_rate": nil})
	nameless := object{"vat_id": nil, "registration": nil, "identifier": nil}
	tests := []struct {
		name   string
		change object
		field  string
		words  []string
	}{
		{"BR-09", issuer(object{"postal": nil, "address": []any{"Street"}}), "issuer.postal.country", []string{"BT-40", "BR-09", "DE"}},
		{"BR-11", customer(object{"postal": nil, "address": []any{"Street"}}), "customer.postal.country", []string{"BT-55", "BR-11"}},
		{"BR-57", object{"delivery": object{"address": []any{"Quay"}}}, "delivery.postal.country", []string{"BT-80", "BR-57"}},
		{"BR-CO-26", issuer(with(nameless, object{"tax_id": "41/123"})), "issuer.vat_id", []string{"BT-31, BT-30, BT-29", "BR-CO-26"}},
		{"BR-23", lines(with(line("1", "100", "19", "S"), object{"unit": "crates"})), "lines[0].unit_code", []string{`"crates"`, "BT-130", "BR-23"}},
		{"BR-61", object{"payment": object{"means": "58"}}, "payment.accounts", []string{"BT-84", "BR-61"}},
		{"direct debit without a mandate", object{"payment": object{"means": "59"}}, "payment.mandate", []string{"BT-89"}},
		{"BR-DEC", object{"currency": "KWD"}, "currency", []string{"3 decimals", "BR-DEC", "PDF only"}},
		{"two periods", object{"period": object{"from": "2026-01-01"}, "delivery": object{"period": object{"from": "2026-01-02"}}}, "delivery.period",
			[]string{"BG-14"}},
		{"tax number of the customer", customer(object{"tax_id": "7/7", "identifier": object{"id": "K-1"}}), "customer.tax_id", []string{"BT-48"}},
		{"BR-S-02", issuer(object{"vat_id": nil}), "issuer.vat_id", []string{"BR-S-02"}},
		{"BR-Z-02", all(issuer(object{"vat_id": nil}), lines(line("1", "1", "0", "Z"))), "issuer.vat_id", []string{"BR-Z-02"}},
		{"BR-AF-02", all(issuer(object{"vat_id": nil}), lines(line("1", "1", "7", "L"))), "issuer.vat_id", []string{"BR-AF-02"}},
		{"BR-AG-02", all(issuer(object{"vat_id": nil}), lines(line("1", "1", "4", "M"))), "issuer.vat_id", []string{"BR-AG-02"}},
		{"BR-E-10", lines(line("1", "1", "0", "E")), "tax_exemptions", []string{"BT-120", "BR-E-10"}},
		{"BR-AE-02 of the customer", all(customer(object{"vat_id": nil}), lines(line("1", "1", "0", "AE"))), "customer.vat_id", []string{"BT-48", "BR-AE-02"}},
		{"BR-AE-02 of the issuer", all(issuer(object{"vat_id": nil}), lines(line("1", "1", "0", "AE"))), "issuer.vat_id", []string{"BR-AE-02"}},
		{"BR-IC-02", all(customer(object{"vat_id": nil, "registration": object{"id": "7"}}), lines(line("1", "1", "0", "K")), object{"delivery": delivered()}),
			"customer.vat_id", []string{"BR-IC-02"}},
		{"BR-IC-11", all(lines(line("1", "1", "0", "K")), object{"delivery": with(delivered(), object{"date": nil})}), "delivery.date", []string{"BR-IC-11"}},
		{"BR-IC-12", all(lines(line("1", "1", "0", "K")), object{"delivery": object{"date": "2026-01-01"}}), "delivery.postal.country", []string{"BR-IC-12"}},
		{"BR-G-02", all(issuer(object{"vat_id": nil, "tax_id": "7/7"}), lines(line("1", "1", "0", "G"))), "issuer.vat_id", []string{"BR-G-02"}},
		{"BR-O-02", all(customer(object{"vat_id": nil}), lines(free)), "issuer.vat_id", []string{"BR-O-02"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, marshal(t, document(tt.change)))
			for name, err := range map[string]error{
				"Check": Check(d), "WriteUBL": WriteUBL(io.Discard, d, d.Totals()), "WriteCII": WriteCII(io.Discard, d, d.Totals()),
			} {
				refusal, ok := errors.AsType[*invalid.Error](err)
				if !ok {
					t.Fatalf("%s gave %v, want an *invalid.Error", name, err)
				}
				if len(refusal.Problems) != 1 || refusal.Problems[0].Field != tt.field {
					t.Fatalf("%s: problems are %v, want one of %s", name, refusal.Problems, tt.field)
				}
				for _, w := range tt.words {
					if !strings.Contains(refusal.Error(), w) {
						t.Errorf("%q lacks %q", refusal, w)
					}
				}
			}
		})
	}
}

func TestVATIdentifiersAreTold(t *testing.T) {
	t.Parallel()
	party := func(country, taxID, vatID string) invoice.Party {
		return invoice.Party{TaxID: taxID, VATID: vatID, Postal: invoice.Postal{Country: country}}
	}
	tests := []struct {
		party       invoice.Party
		vat, number string
	}{
		{party("DE", "DE123456789", ""), "DE123456789", ""},
		{party("DE", "DE 123 456 789", ""), "DE123456789", ""},
		{party("GR", "EL123456789", ""), "EL123456789", ""},
		{party("DE", "41/123", ""), "", "41/123"},
		{party("DE", "41/123", "DE123456789"), "DE123456789", "41/123"},
		{party("FR", "DE123456789", ""), "", "DE123456789"},
		{party("DE", "DEFINITELY", ""), "", "DEFINITELY"},
		{party("CH", "CHE-123.456.788 MWST", ""), "", "CHE-123.456.788 MWST"},
		{party("DE", "DE 123456789", "DE123456789"), "DE123456789", ""},
		{party("", "DE123456789", ""), "", "DE123456789"},
	}
	d := parse(t, marshal(t, document(nil)))
	for _, tt := range tests {
		if vat, number := vatID(d, tt.party), taxNumber(d, tt.party); vat != tt.vat || number != tt.number {
			t.Errorf("%+v: VAT %q and number %q, want %q and %q", tt.party, vat, number, tt.vat, tt.number)
		}
	}
}

func TestWritersSayWhatFailed(t *testing.T) {
	t.Parallel()
	d := parse(t, marshal(t, document(nil)))
	for name, write := range map[string]func(io.Writer, *invoice.Document, invoice.Totals) error{"UBL": WriteUBL, "CII": WriteCII} {
		if err := write(full0{}, d, d.Totals()); !errors.Is(err, io.ErrShortWrite) || !strings.Contains(err.Error(), name+" invoice A-1") {
			t.Errorf("%s to a full disk: %v", name, err)
		}
		broken := *d
		broken.Notes = "a\x01b"
		if err := write(io.Discard, &broken, d.Totals()); err == nil || !strings.Contains(err.Error(), "U+0001") {
			t.Errorf("%s of a control character: %v", name, err)
		}
	}
}

func TestTextOfAnyKindComesBack(t *testing.T) {
	t.Parallel()
	d := parse(t, marshal(t, document(nil)))
	d.Notes = "a\rb\r\nc\td & <e> ]]> \"f\" 'g' \U0001F600"
	if got := readBack(t, ubl21(t, d)).all("Note")[0].text; got != d.Notes {
		t.Errorf("%q came back as %q", d.Notes, got)
	}
}

// full0 takes nothing.
type full0 struct{}

func (full0) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestSameDocumentSameBytes(t *testing.T) {
	t.Parallel()
	first := parse(t, full(t))
	for range 3 {
		again := parse(t, full(t))
		if !bytes.Equal(ubl21(t, first), ubl21(t, again)) || !bytes.Equal(cii16(t, first), cii16(t, again)) {
			t.Fatal("the bytes differ")
		}
	}
}
