package tabular_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// TestLocalesHaveTheMarkOfTheCLDR asks the tables that golang.org/x/text made of it.
func TestLocalesHaveTheMarkOfTheCLDR(t *testing.T) {
	t.Parallel()
	names := tabular.LocaleNames()
	if len(names) < 25 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("names: %q", names)
	}
	for _, name := range names {
		tag, err := language.Parse(name)
		if err != nil || tag.String() != name {
			t.Errorf("%s is no BCP 47 tag: %s, %v", name, tag, err)
			continue
		}
		l, ok := tabular.LocaleByName(name)
		if want := message.NewPrinter(language.MustParse(name + "-u-nu-latn")).Sprint(number.Decimal(1.5)); !ok || "1"+string(l.DecimalMark)+"5" != want {
			t.Errorf("%s: the mark is %q, and the CLDR writes %s", name, l.DecimalMark, want)
		}
		if l.DecimalMark == l.Delimiter || l.Delimiter != ',' && l.Delimiter != ';' || l.DecimalMark == ',' && l.Delimiter == ',' {
			t.Errorf("%s: %q between fields and %q in numbers", name, l.Delimiter, l.DecimalMark)
		}
		if l.Name != name || l.True == "" || l.False == "" || l.True == l.False || strings.ToUpper(l.True) != l.True {
			t.Errorf("%+v", l)
		}
	}
}

func TestLocaleByName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]tabular.Locale{
		"de-DE": {Name: "de-DE", Delimiter: ';', DecimalMark: ',', True: "WAHR", False: "FALSCH"},
		"DE-ch": {Name: "de-CH", Delimiter: ';', DecimalMark: '.', True: "WAHR", False: "FALSCH"},
		"fr-FR": {Name: "fr-FR", Delimiter: ';', DecimalMark: ',', True: "VRAI", False: "FAUX"},
		"es-MX": {Name: "es-MX", Delimiter: ',', DecimalMark: '.', True: "VERDADERO", False: "FALSO"},
		"bn-BD": {Name: "bn-BD", Delimiter: ',', DecimalMark: '.', True: "TRUE", False: "FALSE"},
	} {
		if got, ok := tabular.LocaleByName(name); !ok || got != want {
			t.Errorf("%s: got %+v, %t", name, got, ok)
		}
	}
	for _, name := range []string{"", "de", "xx-YY"} {
		if got, ok := tabular.LocaleByName(name); ok || got != (tabular.Locale{}) {
			t.Errorf("%q: got %+v", name, got)
		}
	}
	if got := (tabular.Locale{}).Complete(); got != (tabular.Locale{Delimiter: ',', DecimalMark: '.', True: "true", False: "false"}) {
		t.Errorf("the zero locale is %+v", got)
	}
	if got := (tabular.Locale{Delimiter: '\t', False: "no"}).Complete(); got != (tabular.Locale{Delimiter: '\t', DecimalMark: '.', True: "true", False: "no"}) {
		t.Errorf("what was chosen is gone: %+v", got)
	}
}
