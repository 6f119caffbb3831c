package xlsx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// attribute is the end of a cell's name with the style that follows it:
// `" s="3"`, or just `"` for the style General.
type attribute string

// The styles that every workbook has.
const (
	general attribute = `"`
	bold    attribute = `" s="1"`
	asText  attribute = `" s="2"` // Excel does not read a number into it, also not when a person edits the cell
)

// Number formats of every workbook, and the first number of the others
// (ECMA-376 part 1, 18.8.30).
const (
	formatGeneral = "General"
	formatText    = "@"
	firstCustom   = 164
)

// builtIn are the numbers of formats that need no definition.
func builtIn(code string) (int, bool) {
	switch code {
	case formatGeneral:
		return 0, true
	case "0":
		return 1, true
	case "0.00":
		return 2, true
	case "#,##0":
		return 3, true
	case "#,##0.00":
		return 4, true
	case "0%":
		return 9, true
	case "0.00%":
		return 10, true
	case formatText:
		return 49, true
	}
	return 0, false
}

// styles collects the number formats of a workbook.
type styles struct{ codes []string }

// attribute is the style of a number format.
func (s *styles) attribute(code string) attribute {
	if code == formatGeneral {
		return general
	}
	i := slices.Index(s.codes, code)
	if i < 0 {
		i = len(s.codes)
		s.codes = append(s.codes, code)
	}
	return attribute(fmt.Sprintf(`" s="%d"`, 3+i))
}

func (s *styles) document() string {
	var custom, xfs strings.Builder
	customs := 0
	xf := func(format, font int) {
		fmt.Fprintf(&xfs, `<xf numFmtId="%d" fontId="%d" fillId="0" borderId="0" xfId="0"`, format, font)
		if format > 0 {
			xfs.WriteString(` applyNumberFormat="1"`)
		}
		if font > 0 {
			xfs.WriteString(` applyFont="1"`)
		}
		xfs.WriteString(`/>`)
	}
	xf(0, 0)
	xf(0, 1)
	xf(49, 0)
	for _, code := range s.codes {
		number, ok := builtIn(code)
		if !ok {
			number = firstCustom + customs
			customs++
			fmt.Fprintf(&custom, `<numFmt numFmtId="%d" formatCode="%s"/>`, number, escaped(code))
		}
		xf(number, 0)
	}
	formats := ""
	if customs > 0 {
		formats = fmt.Sprintf(`<numFmts count="%d">%s</numFmts>`, customs, custom.String())
	}
	return xmlHead + `<styleSheet xmlns="` + mainNS + `">` + formats +
		`<fonts count="2"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font>` +
		`<font><b/><sz val="11"/><name val="Calibri"/><family val="2"/></font></fonts>` +
		`<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>` +
		`<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>` +
		`<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>` +
		fmt.Sprintf(`<cellXfs count="%d">%s</cellXfs>`, 3+len(s.codes), xfs.String()) +
		`<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>`
}

// Formats of moments: the language of the reader's Excel does not change them.
const (
	dateFormat     = `yyyy\-mm\-dd`
	secondFormat   = `yyyy\-mm\-dd\ hh:mm:ss`
	fractionFormat = `yyyy\-mm\-dd\ hh:mm:ss.000`
)

// maxDecimals is how many a number format of Excel can show.
const maxDecimals = 30

// numberFormat is that of a numeric field.
func numberFormat(f *tabular.Field) string {
	decimals := min(f.Decimals, maxDecimals)
	switch f.Kind {
	case tabular.Integer:
		return "0"
	case tabular.Percent:
		if decimals < 0 {
			return "0.0#############%" // all that a number can have
		}
		return fixed("0", decimals) + "%"
	case tabular.Money:
		if decimals < 0 {
			decimals = minorUnits(f.Currency)
		}
		if f.Currency != "" {
			return fixed("#,##0", decimals) + `\ [$` + f.Currency + "]"
		}
		return fixed("#,##0", decimals)
	}
	if decimals < 0 {
		return formatGeneral
	}
	return fixed("0", decimals)
}

func fixed(whole string, decimals int) string {
	if decimals == 0 {
		return whole
	}
	return whole + "." + strings.Repeat("0", decimals)
}

// minorUnits are the decimals of a currency by ISO 4217; those that the standard
// gives no other number, and no currency, have 2. (golang.org/x/text/currency has
// CLDR's digits, which hide the cents of a dozen currencies that do have them.)
func minorUnits(code string) int {
	switch code {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF":
		return 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3
	case "CLF", "UYW":
		return 4
	}
	return 2
}
