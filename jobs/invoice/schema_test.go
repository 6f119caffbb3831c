package invoice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// schemaNode is what the tests read of a schema.
type schemaNode struct {
	Title, Description string
	Type               string
	Ref                string `json:"$ref"`
	Enum               []string
	Properties         map[string]*schemaNode
	Required           []string
	AnyOf, OneOf       []struct{ Required []string }
	Items              *schemaNode
	Defs               map[string]*schemaNode `json:"$defs"`
}

func readSchema(t *testing.T) *schemaNode {
	t.Helper()
	root := new(schemaNode)
	if err := json.Unmarshal(Schema(), root); err != nil {
		t.Fatal(err)
	}
	return root
}

// resolve follows references.
func (root *schemaNode) resolve(t *testing.T, n *schemaNode) *schemaNode {
	t.Helper()
	for n.Ref != "" {
		name := strings.TrimPrefix(n.Ref, "#/$defs/")
		if n = root.Defs[name]; n == nil {
			t.Fatalf("there is no definition %q", name)
		}
	}
	return n
}

// walkObjects calls visit for every object of a document: nest puts a value in
// its place, path names it.
func (root *schemaNode) walkObjects(t *testing.T, n *schemaNode, path string, nest func(any) any, visit func(string, *schemaNode, func(any) any)) {
	t.Helper()
	n = root.resolve(t, n)
	switch {
	case n.Items != nil:
		root.walkObjects(t, n.Items, path+"[0]", func(v any) any { return nest([]any{v}) }, visit)
	case n.Properties != nil:
		visit(path, n, nest)
		for name, p := range n.Properties {
			root.walkObjects(t, p, join(path, name), func(v any) any { return nest(object{name: v}) }, visit)
		}
	}
}

// Every field that the parser knows is in the schema and the other way round,
// in every object, and so is what must be there.
func TestSchemaHasTheFieldsOfTheParser(t *testing.T) {
	t.Parallel()
	root, objects := readSchema(t), 0
	root.walkObjects(t, root, "", func(v any) any { return v }, func(path string, n *schemaNode, nest func(any) any) {
		objects++
		var known, missing []string
		for _, p := range problems(t, marshal(t, nest(object{"?": 1}))) {
			if p.Field == join(path, "?") {
				_, list, _ := strings.Cut(p.Message, "known are ")
				known = strings.Split(list, ", ")
			}
			name, inside := strings.CutPrefix(p.Field, path)
			name = strings.TrimPrefix(name, ".")
			if inside && strings.HasPrefix(p.Message, "is missing") && !strings.ContainsAny(name, ".[") {
				missing = append(missing, name)
			}
		}
		slices.Sort(known)
		if names := slices.Sorted(maps.Keys(n.Properties)); !slices.Equal(known, names) {
			t.Errorf("%s: the parser knows %v, the schema %v", path, known, names)
		}
		for _, name := range n.Required {
			if !slices.Contains(missing, name) {
				t.Errorf("%s: the schema needs %s and the parser does not", path, name)
			}
		}
		for _, name := range missing {
			alternative := false
			for _, a := range slices.Concat(n.AnyOf, n.OneOf) {
				alternative = alternative || slices.Contains(a.Required, name)
			}
			if !slices.Contains(n.Required, name) && !alternative {
				t.Errorf("%s: the parser needs %s and the schema does not", path, name)
			}
		}
	})
	if objects < 20 {
		t.Errorf("only %d objects were looked at", objects)
	}
}

func TestSchemaSaysWhatEveryFieldMeans(t *testing.T) {
	t.Parallel()
	root := readSchema(t)
	root.walkObjects(t, root, "", func(v any) any { return v }, func(path string, n *schemaNode, _ func(any) any) {
		for name, p := range n.Properties {
			if p.Title == "" || p.Description == "" {
				t.Errorf("%s has no title or no description", join(path, name))
			}
		}
	})
}

func TestSchemaHasTheListsOfTheParser(t *testing.T) {
	t.Parallel()
	root := readSchema(t)
	known := map[string]func(string) bool{
		"country":  isCountry,
		"currency": func(s string) bool { _, ok := CurrencyByCode(s); return ok },
		"locale":   func(s string) bool { _, ok := localeFor(s); return ok },
		"means":    isPaymentMeans,
		"category": func(s string) bool { return Category(s).known() },
	}
	lists := map[string][]string{
		"country": root.Defs["postal"].Properties["country"].Enum, "currency": root.Properties["currency"].Enum,
		"locale": root.Properties["locale"].Enum, "means": root.Defs["payment"].Properties["means"].Enum,
		"category": root.Defs["category"].Enum,
	}
	sizes := map[string]int{"country": 251, "currency": 165, "locale": len(localeList()), "means": 83, "category": 9}
	for name, list := range lists {
		if len(list) != sizes[name] {
			t.Errorf("%s: the schema has %d, want %d", name, len(list), sizes[name])
		}
		for _, v := range list {
			if !known[name](v) {
				t.Errorf("%s: the parser does not know %s", name, v)
			}
		}
	}
	if got := root.Defs["charge_reason"].Enum; strings.Join(got, " ") != strings.TrimSpace(chargeReasons) {
		t.Errorf("reasons of charges are %v", got)
	}
	if got := root.Defs["allowance_reason"].Enum; strings.Join(got, " ") != strings.TrimSpace(allowanceReasons) {
		t.Errorf("reasons of allowances are %v", got)
	}
}

// validator reads documents by the schema, with a library that no one here wrote.
func validator(t *testing.T) func(raw []byte) error {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:fenceline:invoice:1", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("urn:fenceline:invoice:1")
	if err != nil {
		t.Fatal(err)
	}
	return func(raw []byte) error {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		return compiled.Validate(v)
	}
}

// everything is two documents that have every field between them.
func everything(t *testing.T) []any {
	t.Helper()
	raw, err := os.ReadFile("einvoice/testdata/full.json")
	if err != nil {
		t.Fatal(err)
	}
	var full any
	if err := json.Unmarshal(raw, &full); err != nil {
		t.Fatal(err)
	}
	rest := simple(t, object{
		"type": "credit_note", "reference": "A-0", "reference_date": "2025-12-01", "tax_point_date": "2025-12-31", "paper": "Letter",
		"locale": "de", "digits": "latn", "totals": object{"lines": "100", "allowances": "0", "charges": "0.00", "net": "100", "tax": "19.00",
			"gross": "119", "rounding": "0", "due": "119"},
		"delivery": object{"address": []any{"Quay 3"}, "period": object{"from": "2025-12-01"}},
		"payment": object{"iban": "DE89 3704 0044 0532 0130 00", "bic": "COBADEFF", "means": "59", "card": object{"number": "1234", "holder": "B"},
			"mandate": object{"reference": "M", "creditor_id": "C", "iban": "DE89370400440532013000"}},
	})
	var other any
	if err := json.Unmarshal(rest, &other); err != nil {
		t.Fatal(err)
	}
	return []any{full, other}
}

// mutations calls try with every document in which one value is another.
func mutations(doc any, place func(any) any, path string, try func(path string, old any, changed func(any) any)) {
	try(path, doc, place)
	switch v := doc.(type) {
	case map[string]any:
		for name := range v {
			mutations(v[name], func(n any) any {
				o := maps.Clone(v)
				o[name] = n
				return place(o)
			}, join(path, name), try)
		}
	case []any:
		for i := range v {
			mutations(v[i], func(n any) any {
				l := slices.Clone(v)
				l[i] = n
				return place(l)
			}, index(path, i), try)
		}
	}
}

// Every value of a document in the wrong kind is refused by both; and whatever
// the schema refuses the parser refuses.
func TestSchemaAndParserRefuseTheSame(t *testing.T) {
	t.Parallel()
	check := validator(t)
	wrong := []any{1.5, "", []any{}, object{"?": 1}, []any{object{"?": 1}}, strings.Repeat("x", 12000), "a\nb\u0000"}
	tried := 0
	for _, doc := range everything(t) {
		if err := errors.Join(check(marshal(t, doc)), parseError(t, marshal(t, doc))); err != nil {
			t.Fatal(err)
		}
		mutations(doc, func(v any) any { return v }, "", func(path string, old any, changed func(any) any) {
			_, isText := old.(string)
			for i, w := range wrong {
				if i >= len(wrong)-2 && !isText {
					continue
				}
				raw := marshal(t, changed(w))
				tried++
				if err := parseError(t, raw); err == nil {
					t.Errorf("the parser takes %v for %s", short(w), path)
				}
				control := i == len(wrong)-1 // a schema cannot know all characters that no one can print
				if err := check(raw); err == nil && !control {
					t.Errorf("the schema takes %v for %s", short(w), path)
				}
			}
		})
	}
	if tried < 900 {
		t.Errorf("only %d documents were tried", tried)
	}
}

func short(v any) string { return fmt.Sprintf("%.40v", v) }

func parseError(t *testing.T, raw []byte) error {
	t.Helper()
	_, err := Parse(raw)
	if _, ok := errors.AsType[*invalid.Error](err); err != nil && !ok {
		t.Fatal(err)
	}
	return err
}

func TestSchemaAndParserTakeTheSame(t *testing.T) {
	t.Parallel()
	check := validator(t)
	party := func(change object) object {
		o := object{"name": "Seller", "postal": object{"country": "DE"}}
		maps.Copy(o, change)
		return object{"issuer": o}
	}
	one := func(change object) object {
		l := line("Thing", "1", "100", "19")
		maps.Copy(l, change)
		return object{"lines": []any{l}}
	}
	allowances := func(a object) object { return object{"allowances": []any{a}} }
	tests := []struct {
		name   string
		change object
		ok     bool
	}{
		{"small", nil, true},
		{"price that is no decimal", one(object{"unit_price": "1e3"}), false},
		{"negative price", one(object{"unit_price": "-1"}), false},
		{"zero with a minus", one(object{"unit_price": "-0.00"}), true},
		{"thirteen digits", one(object{"quantity": "1234567890123"}), false},
		{"leading zeros", one(object{"quantity": "0001234567890.5"}), true},
		{"seven decimals", one(object{"quantity": "1.1234567"}), false},
		{"percent", one(object{"discount_percent": "100.00"}), true},
		{"percent above 100", one(object{"discount_percent": "100.01"}), false},
		{"unit code", one(object{"unit_code": "HUR"}), true},
		{"unit code in words", one(object{"unit_code": "hour"}), false},
		{"line allowance with a tax", one(object{"allowances": []any{object{"amount": "1", "reason": "x", "tax_rate": "19"}}}), false},
		{"line charge", one(object{"charges": []any{object{"percent": "1", "reason_code": "FC"}}}), true},
		{"charge with the reason of an allowance", one(object{"charges": []any{object{"percent": "1", "reason_code": "95"}}}), false},
		{"standard item without a scheme", one(object{"standard_item": object{"id": "1"}}), false},
		{"category O without a rate", object{"lines": []any{object{"description": "x", "quantity": "1", "unit_price": "1", "tax_category": "O"}}}, true},
		{"category Z without a rate", object{"lines": []any{object{"description": "x", "quantity": "1", "unit_price": "1", "tax_category": "Z"}}}, false},
		{"empty period", object{"period": object{}}, false},
		{"period with one end", object{"period": object{"to": "2026-01-01"}}, true},
		{"party without an address", object{"issuer": object{"name": "x"}}, false},
		{"party with both addresses", party(object{"address": []any{"Street"}}), true},
		{"country that is none", object{"issuer": object{"name": "x", "postal": object{"country": "UK"}}}, false},
		{"four streets", object{"issuer": object{"name": "x", "postal": object{"country": "DE", "street": []any{"1", "2", "3", "4"}}}}, false},
		{"VAT identifier", party(object{"vat_id": "EL123456789"}), true},
		{"VAT identifier with a space", party(object{"vat_id": "DE 123456789"}), false},
		{"electronic address without a scheme", party(object{"electronic_address": object{"id": "x"}}), false},
		{"electronic address", party(object{"electronic_address": object{"id": "x@example.com", "scheme": "EM"}}), true},
		{"registration", party(object{"registration": object{"id": "HRB 1"}}), true},
		{"scheme of five digits", party(object{"registration": object{"id": "HRB 1", "scheme": "00020"}}), false},
		{"empty contact", party(object{"contact": object{}}), true},
		{"allowance", allowances(object{"amount": "1.00", "reason": "x", "tax_rate": "19"}), true},
		{"allowance in both ways", allowances(object{"amount": "1.00", "percent": "1", "reason": "x", "tax_rate": "19"}), false},
		{"allowance in no way", allowances(object{"reason": "x", "tax_rate": "19"}), false},
		{"allowance without a reason", allowances(object{"amount": "1.00", "tax_rate": "19"}), false},
		{"allowance without a tax", allowances(object{"amount": "1.00", "reason": "x"}), false},
		{"base without a percentage", allowances(object{"amount": "1.00", "base": "5", "reason": "x", "tax_rate": "19"}), false},
		{"base", allowances(object{"percent": "1", "base": "5", "reason_code": "95", "tax_rate": "19"}), true},
		{"exemption of a taxed category", object{"tax_exemptions": []any{object{"category": "S", "reason": "x"}}}, false},
		{"exemption without a reason", object{"tax_exemptions": []any{object{"category": "E"}}}, false},
		{"credit note without a reference", object{"type": "credit_note"}, false},
		{"invoice with a reference", object{"reference": "A-0"}, false},
		{"invoice with the date of a reference", object{"reference_date": "2026-01-01"}, false},
		{"coin", object{"cash_rounding": "0.05"}, true},
		{"no coin", object{"cash_rounding": "0.00"}, false},
		{"accounts beside an account", object{"payment": object{"iban": "DE89370400440532013000", "accounts": []any{object{"number": "1"}}}}, false},
		{"account that is none", object{"payment": object{"accounts": []any{object{"name": "x"}}}}, false},
		{"account that is two", object{"payment": object{"accounts": []any{object{"iban": "DE89370400440532013000", "number": "1"}}}}, false},
		{"whole card number", object{"payment": object{"card": object{"number": "4111111111111111"}}}, false},
		{"card", object{"payment": object{"card": object{"number": "411111******1111"}}}, true},
		{"means", object{"payment": object{"means": "ZZZ"}}, true},
		{"means that are none", object{"payment": object{"means": "058"}}, false},
		{"terms instead of a date", object{"due_date": nil, "payment": object{"terms": "Soon"}}, true},
		{"day of the year 1899", object{"issue_date": "1899-12-31"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			raw := simple(t, tt.change)
			if err := parseError(t, raw); (err == nil) != tt.ok {
				t.Errorf("the parser says %v", err)
			}
			if err := check(raw); (err == nil) != tt.ok {
				t.Errorf("the schema says %v", err)
			}
		})
	}
	for _, raw := range [][]byte{Example()} {
		if err := check(raw); err != nil {
			t.Errorf("the schema refuses the example: %v", err)
		}
	}
}

func TestSchemaIsACopy(t *testing.T) {
	t.Parallel()
	Schema()[0] = 'x'
	if !json.Valid(Schema()) {
		t.Error("the schema was changed")
	}
}
