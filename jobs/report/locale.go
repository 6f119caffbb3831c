package report

import (
	"strings"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// DefaultLocale is that of the preset spreadsheet when nobody chose one.
const DefaultLocale = "en-US"

// dataLocale are the marks of the preset data, the same in every country.
func dataLocale() tabular.Locale {
	return tabular.Locale{Name: DefaultLocale, Delimiter: ',', DecimalMark: '.', True: "true", False: "false"}
}

func localeProblem(name string) string {
	names := tabular.LocaleNames()
	return "is no locale: there are " + strings.Join(names, ", ") + DidYouMean(name, names)
}
