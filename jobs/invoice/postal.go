package invoice

import (
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
)

// Postal is an address in parts (BG-5, BG-8, BG-15).
type Postal struct {
	Street      []string // at most three lines
	City        string
	Code        string // postal code
	Subdivision string // such as a state or a province
	Country     string // ISO 3166-1 alpha-2, or XI or 1A, which EN 16931 adds
}

// countries are the codes of ISO 3166-1 in their order, then those that the
// code list of EN 16931 adds: Northern Ireland and Kosovo.
const countries = " AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW" +
	" BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO" +
	" FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO" +
	" JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS" +
	" MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU" +
	" RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA" +
	" UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW XI 1A "

func isCountry(code string) bool { return inList(countries, code) }

// countryName is the name of a country in the language of a document.
func countryName(code, locale string) string {
	switch code {
	case "XI":
		code = "GB"
	case "1A":
		code = "XK"
	}
	region, err := language.ParseRegion(code)
	if err != nil {
		return code
	}
	names := display.Regions(language.Make(locale))
	if names == nil {
		names = display.English.Regions()
	}
	if name := names.Name(region); name != "" {
		return name
	}
	return code
}

// lines are the address as printed, with the country's name in the language of
// the document. Where people write the postal code is a custom of the country.
func (p Postal) lines(locale string) []string {
	words := func(list ...string) string { return strings.Join(strings.Fields(strings.Join(list, " ")), " ") }
	out := slices.Clone(p.Street)
	switch p.Country {
	case "US", "CA", "AU", "IN", "BD", "PK", "NZ", "ZA":
		place := p.City
		if place != "" && p.Subdivision != "" {
			place += ","
		}
		out = append(out, words(place, p.Subdivision, p.Code))
	case "GB", "XI", "IE":
		out = append(out, p.City, p.Subdivision, p.Code)
	default:
		out = append(out, words(p.Code, p.City), p.Subdivision)
	}
	out = append(out, countryName(p.Country, locale))
	return slices.DeleteFunc(out, func(line string) bool { return line == "" })
}

// printed gives an address that came in parts its lines too.
func printed(lines []string, p Postal, locale string) []string {
	if len(lines) > 0 || p.Country == "" {
		return lines
	}
	return p.lines(locale)
}
