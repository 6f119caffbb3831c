package einvoice

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice"
)

// The code lists of documents are those of EN 16931, as a library has them that
// no one here wrote.
func TestCodeListsAreThoseOfEN16931(t *testing.T) {
	t.Parallel()
	var theirs map[string]struct{ Enum []string }
	out, ok := run(t, "node", "-e", "const {invoiceSchema} = require(process.argv[1] + '/@e-invoice-eu/core');"+
		"console.log(JSON.stringify(invoiceSchema.$defs.codeLists))", modules(t))
	if !ok {
		t.Fatal(out)
	}
	if err := json.Unmarshal([]byte(out), &theirs); err != nil {
		t.Fatalf("%v in %.200s", err, out)
	}
	type list struct {
		Enum       []string
		Properties map[string]list
	}
	var ours struct {
		Properties map[string]list
		Defs       map[string]list `json:"$defs"`
	}
	if err := json.Unmarshal(invoice.Schema(), &ours); err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2][]string{
		"payment means":         {ours.Defs["payment"].Properties["means"].Enum, theirs["UNCL4461"].Enum},
		"reasons of allowances": {ours.Defs["allowance_reason"].Enum, theirs["UNCL5189"].Enum},
		"reasons of charges":    {ours.Defs["charge_reason"].Enum, theirs["UNCL7161"].Enum},
		"countries":             {ours.Defs["postal"].Properties["country"].Enum, theirs["ISO3166"].Enum},
	} {
		a, b := slices.Sorted(slices.Values(pair[0])), slices.Sorted(slices.Values(pair[1]))
		if !slices.Equal(a, b) || len(a) == 0 {
			t.Errorf("%s are\n%v, theirs are\n%v", name, a, b)
		}
	}
	for _, c := range ours.Properties["currency"].Enum {
		if !slices.Contains(theirs["ISO4217"].Enum, c) && c != "XAD" && c != "XCG" { // of 2025, younger than their list
			t.Errorf("currency %s is not in their list", c)
		}
	}
	for _, c := range ours.Defs["category"].Enum {
		if !slices.Contains(theirs["UNCL5305"].Enum, c) {
			t.Errorf("category %s is not in their list", c)
		}
	}
	for _, c := range []string{"AE", "K", "G", "O"} {
		if code := new(invoice.Document).Exemption(invoice.Category(c)).Code; !slices.Contains(theirs["vatex"].Enum, code) {
			t.Errorf("exemption %s is not in their list", code)
		}
	}
	for _, unit := range []string{"", "pcs", "Stück", "h", "Std.", "min", "days", "week", "Monat", "year", "kg", "g", "km", "cm", "mm", "m", "m²",
		"m³", "l", "kWh"} {
		if code := unitCode(invoice.Line{Unit: unit}); !slices.Contains(theirs["UNECERec20"].Enum, code) {
			t.Errorf("unit %q is %q, which is not in their list", unit, code)
		}
	}
}
