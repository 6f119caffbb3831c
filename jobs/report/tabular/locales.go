package tabular

import "strings"

// locales are sorted by name. The decimal mark is that of the CLDR for Latin
// digits, in which PostgreSQL prints numbers; a test compares them. The delimiter
// is the list separator of the Windows region, where Excel takes it from: ; where
// the mark is a comma, and for Arabic and German Switzerland although it is a point.
var locales = [...]struct {
	name            string
	delimiter, mark byte
}{
	{"ar-AE", ';', '.'},
	{"ar-EG", ';', '.'},
	{"ar-SA", ';', '.'},
	{"bg-BG", ';', ','},
	{"bn-BD", ',', '.'},
	{"bn-IN", ',', '.'},
	{"cs-CZ", ';', ','},
	{"da-DK", ';', ','},
	{"de-AT", ';', ','},
	{"de-CH", ';', '.'},
	{"de-DE", ';', ','},
	{"el-GR", ';', ','},
	{"en-AU", ',', '.'},
	{"en-CA", ',', '.'},
	{"en-GB", ',', '.'},
	{"en-IE", ',', '.'},
	{"en-IN", ',', '.'},
	{"en-US", ',', '.'},
	{"es-AR", ';', ','},
	{"es-CO", ';', ','},
	{"es-ES", ';', ','},
	{"es-MX", ',', '.'},
	{"et-EE", ';', ','},
	{"fi-FI", ';', ','},
	{"fr-BE", ';', ','},
	{"fr-CA", ';', ','},
	{"fr-CH", ';', ','},
	{"fr-FR", ';', ','},
	{"he-IL", ',', '.'},
	{"hi-IN", ',', '.'},
	{"hr-HR", ';', ','},
	{"hu-HU", ';', ','},
	{"id-ID", ';', ','},
	{"it-IT", ';', ','},
	{"ja-JP", ',', '.'},
	{"ko-KR", ',', '.'},
	{"lt-LT", ';', ','},
	{"lv-LV", ';', ','},
	{"mr-IN", ',', '.'},
	{"nb-NO", ';', ','},
	{"nl-BE", ';', ','},
	{"nl-NL", ';', ','},
	{"pl-PL", ';', ','},
	{"pt-BR", ';', ','},
	{"pt-PT", ';', ','},
	{"ro-RO", ';', ','},
	{"ru-RU", ';', ','},
	{"sk-SK", ';', ','},
	{"sl-SI", ';', ','},
	{"sv-SE", ';', ','},
	{"ta-IN", ',', '.'},
	{"te-IN", ',', '.'},
	{"th-TH", ',', '.'},
	{"tr-TR", ';', ','},
	{"uk-UA", ';', ','},
	{"zh-CN", ',', '.'},
	{"zh-TW", ',', '.'},
}

// languages are those in which Excel has words of its own for true and false: what
// its functions TRUE and FALSE are called there. In the others it has the English ones.
var languages = [...]struct{ name, yes, no string }{
	{"cs", "PRAVDA", "NEPRAVDA"},
	{"da", "SAND", "FALSK"},
	{"de", "WAHR", "FALSCH"},
	{"es", "VERDADERO", "FALSO"},
	{"fi", "TOSI", "EPÄTOSI"},
	{"fr", "VRAI", "FAUX"},
	{"hu", "IGAZ", "HAMIS"},
	{"it", "VERO", "FALSO"},
	{"nb", "SANN", "USANN"},
	{"nl", "WAAR", "ONWAAR"},
	{"pl", "PRAWDA", "FAŁSZ"},
	{"pt", "VERDADEIRO", "FALSO"},
	{"ru", "ИСТИНА", "ЛОЖЬ"},
	{"sv", "SANT", "FALSKT"},
	{"tr", "DOĞRU", "YANLIŞ"},
}

// LocaleByName finds one of [LocaleNames] by its BCP 47 name, in capitals or not.
func LocaleByName(name string) (Locale, bool) {
	for _, l := range locales {
		if strings.EqualFold(l.name, name) {
			yes, no := excelWords(l.name)
			return Locale{Name: l.name, Delimiter: l.delimiter, DecimalMark: l.mark, True: yes, False: no}, true
		}
	}
	return Locale{}, false
}

func excelWords(locale string) (yes, no string) {
	language, _, _ := strings.Cut(locale, "-")
	for _, l := range languages {
		if l.name == language {
			return l.yes, l.no
		}
	}
	return "TRUE", "FALSE"
}

// LocaleNames are the names that [LocaleByName] knows, sorted.
func LocaleNames() []string {
	names := make([]string, len(locales))
	for i, l := range locales {
		names[i] = l.name
	}
	return names
}

// Complete fills what a locale leaves out: a comma between fields, a point as
// decimal mark, and the words true and false.
func (l Locale) Complete() Locale {
	if l.Delimiter == 0 {
		l.Delimiter = ','
	}
	if l.DecimalMark == 0 {
		l.DecimalMark = '.'
	}
	if l.True == "" {
		l.True = "true"
	}
	if l.False == "" {
		l.False = "false"
	}
	return l
}
