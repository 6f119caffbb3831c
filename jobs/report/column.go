package report

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// ColumnSpec is what a front matter says about a column of the result.
type ColumnSpec struct {
	Name     string
	Kind     tabular.Kind // empty: that of the column's type
	Currency string       // of money(EUR); may be empty
	Decimals int          // digits after the mark; -1 when not given
	Members  []Member     // of an enum, in the order of the file
	Show     Show         // of an enum; empty: by format and preset
	Width    int          // in characters; 0 when not given
	Hidden   bool         // in the result but in no file
	Label    string       // the header; empty: the name

	line int
}

// Member is a code of an enum column.
type Member struct {
	Code  string
	Label string // empty when the file gives none: then the code itself
}

// Show says how an enum column is written.
type Show string

// The ways to show an enum. Without one, CSV follows its preset, XLSX has labels
// and the formats for programs have codes.
const (
	ShowCode  Show = "code"
	ShowLabel Show = "label"
	ShowBoth  Show = "both" // a column NAME and a column NAME_label
)

const (
	maxWidth    = 255 // of a column in Excel
	maxDecimals = 30  // of Excel's number formats
)

// parseColumn reads what follows "column:".
func parseColumn(value string) (ColumnSpec, error) {
	fields, err := splitFields(value)
	if err != nil {
		return ColumnSpec{}, fmt.Errorf("column: %w", err)
	}
	c := ColumnSpec{Name: fields[0].text, Decimals: -1}
	fields = fields[1:]
	if c.Name == "" {
		return c, errors.New("column: the name is empty")
	}
	if len(fields) == 0 {
		return c, fmt.Errorf("column %s: give it a kind, an option or a label; the kinds are %s", c.Name, kindNames())
	}
	if f := fields[0]; !f.quoted && !slices.Contains(columnOptions(), f.text) {
		if err := c.setKind(f.text); err != nil {
			return c, fmt.Errorf("column %s: %w", c.Name, err)
		}
		fields = fields[1:]
	}
	if err := c.setOptions(fields); err != nil {
		return c, fmt.Errorf("column %s: %w", c.Name, err)
	}
	return c, nil
}

func columnOptions() []string { return []string{"width", "hidden", "show", "decimals"} }

func kindWords() []string {
	var words []string
	for _, k := range tabular.Kinds() {
		words = append(words, string(k))
	}
	return words
}

func kindNames() string { return strings.Join(kindWords(), ", ") }

func (c *ColumnSpec) setKind(text string) error {
	name, args, bracket := strings.Cut(text, "(")
	args = strings.TrimSpace(strings.TrimSuffix(args, ")"))
	kind := tabular.Kind(name)
	if !slices.Contains(tabular.Kinds(), kind) {
		return fmt.Errorf("unknown kind %q: the kinds are %s%s", name, kindNames(), DidYouMean(name, kindWords()))
	}
	c.Kind = kind
	switch kind {
	case tabular.Enum:
		return c.setMembers(args)
	case tabular.Money:
		if bracket {
			return c.setCurrency(args)
		}
	case tabular.Decimal:
		if bracket {
			return c.setDecimals(args)
		}
	default:
		if bracket {
			return fmt.Errorf("kind %s takes nothing in brackets: money(EUR), decimal(2) and enum(new,paid) do", kind)
		}
	}
	return nil
}

func (c *ColumnSpec) setCurrency(code string) error {
	digits, ok := currencyDigits(code)
	if !ok {
		return fmt.Errorf("%q is no currency of ISO 4217 such as EUR", code)
	}
	c.Currency, c.Decimals = code, digits
	return nil
}

func (c *ColumnSpec) setDecimals(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n > maxDecimals {
		return fmt.Errorf("decimals %q: give a number from 0 to %d", text, maxDecimals)
	}
	c.Decimals = int(n)
	return nil
}

// setMembers reads codes with or without labels: new "New", paid "Paid".
func (c *ColumnSpec) setMembers(text string) error {
	for _, item := range splitMembers(text) {
		fields, err := splitFields(item)
		switch {
		case err != nil:
			return err
		case len(fields) == 0 || len(fields) == 1 && fields[0].text == "":
			return errors.New(`an enum lists its codes, as in enum(new,paid) or enum(new "New", paid "Paid")`)
		case len(fields) > 2 || len(fields) == 2 && !fields[1].quoted:
			return fmt.Errorf(`enum: %q is not a code with a label in quotes, as in new "New": put a code with spaces in quotes, too`, item)
		}
		m := Member{Code: fields[0].text}
		if len(fields) == 2 {
			m.Label = fields[1].text
		}
		if slices.ContainsFunc(c.Members, func(known Member) bool { return known.Code == m.Code }) {
			return fmt.Errorf("enum: code %q is given twice", m.Code)
		}
		c.Members = append(c.Members, m)
	}
	return nil
}

// splitMembers cuts at commas outside quotes.
func splitMembers(text string) []string {
	var items []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if end := quoteEnd(text, i, false); end > 0 {
				i = end - 1
			}
		case ',':
			items = append(items, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	return append(items, strings.TrimSpace(text[start:]))
}

func (c *ColumnSpec) setOptions(fields []field) error {
	seen := map[string]bool{}
	for len(fields) > 0 {
		f := fields[0]
		fields = fields[1:]
		option := f.text
		if f.quoted {
			option = "label"
		}
		if seen[option] {
			return fmt.Errorf("%s is given twice", option)
		}
		seen[option] = true
		var arg string
		if slices.Contains([]string{"width", "show", "decimals"}, option) {
			if len(fields) == 0 || fields[0].quoted {
				return fmt.Errorf("%s has no value", option)
			}
			arg, fields = fields[0].text, fields[1:]
		}
		if err := c.setOption(option, f.text, arg); err != nil {
			return err
		}
	}
	return nil
}

func (c *ColumnSpec) setOption(option, text, arg string) error {
	switch option {
	case "label":
		if strings.TrimSpace(text) == "" {
			return errors.New("the label is empty")
		}
		c.Label = text
	case "hidden":
		c.Hidden = true
	case "width":
		n, err := strconv.ParseUint(arg, 10, 8)
		if err != nil || n == 0 || n > maxWidth {
			return fmt.Errorf("width %q: give a number of characters from 1 to %d", arg, maxWidth)
		}
		c.Width = int(n)
	case "show":
		return c.setShow(arg)
	case "decimals":
		if !slices.Contains([]tabular.Kind{tabular.Decimal, tabular.Money, tabular.Percent}, c.Kind) {
			return errors.New("decimals are for the kinds decimal, money and percent")
		}
		if c.Decimals >= 0 && c.Kind == tabular.Decimal {
			return errors.New("decimals are given twice")
		}
		return c.setDecimals(arg)
	default:
		return fmt.Errorf("unknown option %q: there are width N, hidden, show code|label|both, decimals N and a label in double quotes%s",
			text, DidYouMean(text, columnOptions()))
	}
	return nil
}

func (c *ColumnSpec) setShow(arg string) error {
	known := []string{string(ShowCode), string(ShowLabel), string(ShowBoth)}
	switch {
	case !slices.Contains(known, arg):
		return fmt.Errorf("show %q: there are %s%s", arg, strings.Join(known, ", "), DidYouMean(arg, known))
	case c.Kind != tabular.Enum:
		return errors.New("show is for the kind enum")
	case Show(arg) != ShowCode && !c.labelled():
		return fmt.Errorf(`show %s needs labels, as in enum(new "New", paid "Paid")`, arg)
	}
	c.Show = Show(arg)
	return nil
}

// labelled reports whether any member of the enum has a label.
func (c *ColumnSpec) labelled() bool {
	return slices.ContainsFunc(c.Members, func(m Member) bool { return m.Label != "" })
}
