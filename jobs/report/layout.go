package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// CheckColumns refuses what no file can tell apart or hold: no columns, columns
// without a name and names that are used twice. The error is an [invalid.Error].
func CheckColumns(columns []tabular.Column) error {
	refused := new(invalid.Error)
	if len(columns) == 0 {
		refused.Add("columns", "", "the report has none: select at least one")
	}
	first := make(map[string]int, len(columns))
	for i, c := range columns {
		field := "columns[" + strconv.Itoa(i) + "]"
		before, double := first[c.Name]
		switch {
		case c.Name == "" || !utf8.ValidString(c.Name) || strings.Contains(c.Name, "\x00"):
			refused.Add(field, c.Name, "is no name: give the column one with AS")
		case double:
			refused.Add(field, c.Name, "is also the name of columns[%d]: give each its own with AS", before)
		default:
			first[c.Name] = i
		}
	}
	return refused.OrNil()
}

// Layouts are how the files of a choice shall look, one for each of its formats
// in the order that [Definition.Choose] gave them, for a result with these
// columns. They differ in the labels of enums only. The error is [Mistakes] where
// a column line does not fit the result, else that of [CheckColumns].
//
// A header that two columns would share gets (2) behind the second one. Digits
// after the mark are those of the front matter, else those of the currency, else
// the scale of a numeric(p,s); percent shows two less than that scale.
func (d *Definition) Layouts(columns []tabular.Column, c Choice) ([]*tabular.Layout, error) {
	if err := CheckColumns(columns); err != nil {
		return nil, err
	}
	if mistakes := d.checkSpecs(columns); len(mistakes) > 0 {
		return nil, mistakes
	}
	c = d.filled(c)
	zone, err := c.location()
	if err != nil {
		return nil, err
	}
	marks := c.marks()
	marks.Delimiter = findDelimiter(c.Delimiter).mark
	layouts := make([]*tabular.Layout, len(c.Formats))
	for i, name := range c.Formats {
		layouts[i] = &tabular.Layout{Title: d.Title, Preset: tabular.Preset(c.Preset), Locale: marks, Zone: zone, Strict: *c.Strict,
			Fields: d.fields(columns, showsLabels(name, c.Preset))}
	}
	return layouts, nil
}

// showsLabels reports whether files of a format are for people. Presets change
// what has no types of its own.
func showsLabels(format, preset string) bool {
	name, _, _ := strings.Cut(format, ".")
	switch name {
	case "xlsx":
		return true
	case "jsonl", "parquet":
		return false
	}
	return preset == string(tabular.Spreadsheet)
}

// checkSpecs compares the column lines with the result.
func (d *Definition) checkSpecs(columns []tabular.Column) (mistakes Mistakes) {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	fail := func(spec *ColumnSpec, format string, args ...any) {
		mistakes = append(mistakes, Mistake{File: d.File, Line: spec.line, Message: "column " + spec.Name + ": " + fmt.Sprintf(format, args...)})
	}
	hidden := 0
	for i := range d.Columns {
		spec := &d.Columns[i]
		if spec.Hidden {
			hidden++
		}
		at := slices.Index(names, spec.Name)
		switch {
		case at < 0:
			fail(spec, "the result has %s%s", some(names), DidYouMean(spec.Name, names))
		case spec.Kind != "" && !spec.Kind.Fits(columns[at]):
			fail(spec, "kind %s does not fit the type %s, which can be %s", spec.Kind, typeName(columns[at]), fitting(columns[at]))
		case spec.Show == ShowBoth && slices.Contains(names, spec.Name+labelSuffix):
			fail(spec, "show both makes a column %s, which the result has already: name that one otherwise", spec.Name+labelSuffix)
		case hidden == len(columns):
			fail(spec, "every column is hidden: a file needs at least one")
		}
	}
	return mistakes
}

// some names the first of many: a result may have 1,664 columns.
func some(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func typeName(c tabular.Column) string {
	if c.Type != "" {
		return c.Type
	}
	return "with OID " + strconv.FormatUint(uint64(c.OID), 10)
}

// fitting are the kinds that a column may have.
func fitting(c tabular.Column) string {
	var kinds []string
	for _, k := range tabular.Kinds() {
		if k.Fits(c) {
			kinds = append(kinds, string(k))
		}
	}
	return strings.Join(kinds, ", ")
}

// labelSuffix makes the key of an enum's second field.
const labelSuffix = "_label"

// fields are those that are not hidden, in the order of the result.
func (d *Definition) fields(columns []tabular.Column, labels bool) []tabular.Field {
	var fields []tabular.Field
	taken := map[string]bool{}
	add := func(f tabular.Field) {
		label := f.Label
		for n := 2; taken[f.Label]; n++ {
			f.Label = fmt.Sprintf("%s (%d)", label, n)
		}
		taken[f.Label] = true
		fields = append(fields, f)
	}
	for i, c := range columns {
		spec := d.spec(c.Name)
		if spec.Hidden {
			continue
		}
		f := spec.field(c, i)
		switch show := spec.Show; {
		case show == ShowBoth:
			add(f)
			f = spec.withLabels(f)
			f.Key, f.Label = c.Name+labelSuffix, c.Name+labelSuffix
			if spec.Label != "" {
				f.Label = spec.Label + " (label)"
			}
		case show == ShowLabel, show == "" && labels:
			f = spec.withLabels(f)
		}
		add(f)
	}
	return fields
}

// spec is what the front matter says about a column; nothing for most.
func (d *Definition) spec(name string) *ColumnSpec {
	for i := range d.Columns {
		if d.Columns[i].Name == name {
			return &d.Columns[i]
		}
	}
	return &ColumnSpec{Decimals: -1}
}

// field is the column as a field that writes codes.
func (c *ColumnSpec) field(column tabular.Column, index int) tabular.Field {
	f := tabular.Field{Column: column, Index: index, Key: column.Name, Label: column.Name, Kind: tabular.DefaultKind(column),
		Currency: c.Currency, Decimals: c.Decimals, Width: c.Width}
	if truth := c.Kind == tabular.Enum && column.OID == tabular.OIDBool; c.Kind != "" && !truth { // its codes are true and false
		f.Kind = c.Kind
	}
	if c.Label != "" {
		f.Label = c.Label
	}
	if f.Decimals >= 0 || column.Precision == 0 {
		return f
	}
	switch f.Kind {
	case tabular.Decimal, tabular.Money:
		f.Decimals = max(0, column.Scale)
	case tabular.Percent:
		f.Decimals = max(0, column.Scale-2)
	}
	return f
}

// withLabels is a field that writes the labels of an enum, if it has any. A
// member without a label is its own.
func (c *ColumnSpec) withLabels(f tabular.Field) tabular.Field {
	if !c.labelled() {
		return f
	}
	f.Kind, f.Labels = tabular.Enum, make(map[string]string, len(c.Members))
	for _, m := range c.Members {
		code := m.Code
		if f.OID == tabular.OIDBool && (code == "true" || code == "false") {
			code = code[:1] // PostgreSQL's text of a boolean
		}
		f.Labels[code] = cmp.Or(m.Label, m.Code)
	}
	return f
}
