package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Choice is what a request may choose about its files. What is empty is left to
// the report.
type Choice struct {
	Formats   []string `json:"formats,omitempty"`   // such as csv, xlsx and jsonl.gz; published together
	Preset    string   `json:"preset,omitempty"`    // data or spreadsheet
	Locale    string   `json:"locale,omitempty"`    // one of [tabular.LocaleNames]; means something to the preset spreadsheet only
	Zone      string   `json:"zone,omitempty"`      // IANA name
	Delimiter string   `json:"delimiter,omitempty"` // of CSV: one of , ; | and the word tab
	Strict    *bool    `json:"strict,omitempty"`    // fail where a value would be cut, replaced or turned into text
}

// delimiter is a way to separate the fields of CSV.
type delimiter struct {
	name string // in a choice
	word string // in a key
	mark byte
}

func delimiters() []delimiter {
	return []delimiter{{",", "comma", ','}, {";", "semicolon", ';'}, {"tab", "tab", '\t'}, {"|", "pipe", '|'}}
}

// findDelimiter is the zero delimiter for a name that is none.
func findDelimiter(name string) delimiter {
	for _, d := range delimiters() {
		if d.name == name {
			return d
		}
	}
	return delimiter{}
}

// Choose checks a choice and returns its one spelling: with the report's own
// where it is empty, the formats sorted and each once, and no locale for the
// preset data, which has none. Choosing again what it returned changes nothing.
// The error is an [invalid.Error] with the fields formats[0], preset, locale,
// zone and delimiter, or [Mistakes] when the report's file names a format that
// there is not.
func (d *Definition) Choose(f *Formats, c Choice) (Choice, error) {
	if err := d.checkFormats(f); err != nil {
		return Choice{}, err
	}
	refused := new(invalid.Error)
	for i, name := range c.Formats {
		if _, err := f.Get(name); err != nil {
			refused.Add("formats["+strconv.Itoa(i)+"]", name, "%s", f.problem(name))
		}
	}
	if c.Preset != "" && !slices.Contains(presets(), c.Preset) {
		refused.Add("preset", c.Preset, "%s", presetProblem(c.Preset))
	}
	if c.Locale != "" {
		if _, ok := tabular.LocaleByName(c.Locale); !ok {
			refused.Add("locale", c.Locale, "%s", localeProblem(c.Locale))
		}
	}
	if c.Zone != "" {
		if _, ok := loadZone(c.Zone); !ok {
			refused.Add("zone", c.Zone, "%s", zoneProblem(c.Zone))
		}
	}
	if c.Delimiter != "" && findDelimiter(c.Delimiter).name == "" {
		refused.Add("delimiter", c.Delimiter, "is no delimiter: there are , ; | and the word tab")
	}
	if err := refused.OrNil(); err != nil {
		return Choice{}, err
	}
	return d.filled(c), nil
}

// checkFormats finds what the report's own format line asks for in vain.
func (d *Definition) checkFormats(f *Formats) error {
	var mistakes Mistakes
	for _, name := range d.Formats {
		if _, err := f.Get(name); err != nil {
			mistakes = append(mistakes, Mistake{File: d.File, Line: max(1, d.lines["format"]), Message: "format " + strconv.Quote(name) + " " + f.problem(name)})
		}
	}
	if len(mistakes) > 0 {
		return mistakes
	}
	return nil
}

// filled is a valid choice in its one spelling.
func (d *Definition) filled(c Choice) Choice {
	if len(c.Formats) == 0 {
		c.Formats = d.Formats
	}
	c.Formats = slices.Compact(slices.Sorted(slices.Values(c.Formats)))
	c.Preset = cmp.Or(c.Preset, d.Preset)
	c.Locale = cmp.Or(c.Locale, d.Locale)
	if l, ok := tabular.LocaleByName(c.Locale); ok {
		c.Locale = l.Name
	}
	if c.Preset != string(tabular.Spreadsheet) {
		c.Locale = ""
	}
	c.Zone = cmp.Or(c.Zone, d.Zone)
	c.Delimiter = cmp.Or(c.Delimiter, ownDelimiter(c))
	strict := d.Strict
	if c.Strict != nil {
		strict = *c.Strict
	}
	c.Strict = &strict
	return c
}

// marks are how the choice's preset and locale write text.
func (c Choice) marks() tabular.Locale {
	if c.Preset == string(tabular.Spreadsheet) {
		if l, ok := tabular.LocaleByName(c.Locale); ok {
			return l
		}
	}
	return dataLocale()
}

// ownDelimiter is the one that comes with the preset and the locale.
func ownDelimiter(c Choice) string {
	mark := c.marks().Delimiter
	for _, d := range delimiters() {
		if d.mark == mark {
			return d.name
		}
	}
	return ","
}

// chosen are the parts of a choice that are not the report's own, such as
// csv,xlsx;preset=spreadsheet;strict=yes. No name holds one of its marks.
func (d *Definition) chosen(c Choice) string {
	c, own := d.filled(c), d.filled(Choice{})
	var parts []string
	if !slices.Equal(c.Formats, own.Formats) {
		parts = append(parts, strings.Join(c.Formats, ","))
	}
	add := func(differs bool, part string) {
		if differs {
			parts = append(parts, part)
		}
	}
	add(c.Preset != own.Preset, "preset="+c.Preset)
	add(c.Locale != "" && c.Locale != d.Locale, "locale="+c.Locale)
	add(c.Zone != own.Zone, "zone="+c.Zone)
	add(c.Delimiter != ownDelimiter(c), "delimiter="+findDelimiter(c.Delimiter).word)
	add(*c.Strict != *own.Strict, "strict="+yesNo(*c.Strict))
	return strings.Join(parts, ";")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// location is the zone of a choice that was filled.
func (c Choice) location() (*time.Location, error) {
	zone, ok := loadZone(c.Zone)
	if !ok {
		return nil, invalid.New("zone", c.Zone, "%s", zoneProblem(c.Zone))
	}
	return zone, nil
}
