package xlsx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// FuzzCells writes rows and compares them with the cells that excelize reads.
func FuzzCells(f *testing.F) {
	f.Add("a", int64(1), uint8(2), int64(0), true)
	f.Add("_x0041_ \r\n<&>]]>", int64(-352776136104522888), uint8(30), int64(1_700_000_000_123_456), false)
	f.Add(" \x01\uFFFE\U0001F600", int64(math.MaxInt64), uint8(0), int64(-3_000_000_000_000_000), true)
	f.Add("=1+1", int64(math.MinInt64), uint8(18), int64(253_402_300_799_999_999), true)
	f.Add("\xff", int64(0), uint8(1), int64(-2_203_891_200_000_000), false)
	f.Fuzz(func(t *testing.T, text string, n int64, scale uint8, micros int64, flag bool) {
		l := layoutOf(field(tabular.Text, tabular.OIDText), field(tabular.Code, tabular.OIDText), field(tabular.Integer, tabular.OIDInt8),
			field(tabular.Decimal, tabular.OIDNumeric), field(tabular.Timestamp, tabular.OIDTimestamp), field(tabular.Boolean, tabular.OIDBool))
		at := time.UnixMicro(micros % 300_000_000_000_000_000).UTC()
		row := []string{text, text, strconv.FormatInt(n, 10), decimal(n, int(scale%40)), timestamp(at), strconv.FormatBool(flag)}
		var out strings.Builder
		warnings, err := encode(&out, l, 0, row)
		if !utf8.ValidString(text) {
			if err == nil {
				t.Fatalf("%q was written", text)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		notes := noted(warnings)
		rows := excelizeRows(t, []byte(out.String()), "Data")
		if len(rows) != 2 || len(rows[1]) != len(row) {
			t.Fatalf("cells %q", rows)
		}
		got := rows[1]
		want := readable(text)
		if got[0] != want || got[1] != want {
			t.Errorf("text %q became %q and %q", text, got[0], got[1])
		}
		checkNumber(t, row[2], got[2], strings.Contains(notes, "c3:as_text"))
		checkNumber(t, row[3], got[3], strings.Contains(notes, "c4:as_text"))
		checkTime(t, at, got[4], strings.Contains(notes, "c5:time_as_text"))
		if (got[5] == "1") != flag && (got[5] == "TRUE") != flag {
			t.Errorf("boolean %t became %q", flag, got[5])
		}
	})
}

// decimal is n divided by a power of ten, as PostgreSQL writes it.
func decimal(n int64, scale int) string {
	digits, sign := strings.TrimPrefix(strconv.FormatInt(n, 10), "-"), ""
	if n < 0 {
		sign = "-"
	}
	if scale == 0 {
		return sign + digits
	}
	digits = strings.Repeat("0", max(0, scale+1-len(digits))) + digits
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

func timestamp(t time.Time) string {
	if t.Year() < 1 {
		return fmt.Sprintf("%04d", 1-t.Year()) + t.Format("-01-02 15:04:05.999999") + " BC"
	}
	return fmt.Sprintf("%04d", t.Year()) + t.Format("-01-02 15:04:05.999999")
}

// readable is text with what XML cannot hold replaced, and as long as a cell.
func readable(text string) string {
	return string(cut([]byte(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, text))))
}

func checkNumber(t *testing.T, value, got string, asText bool) {
	t.Helper()
	digits := len(strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(value), "0"))
	if asText != (digits > maxDigits) {
		t.Errorf("%s of %d digits: as text %t", value, digits, asText)
	}
	if got != value && (asText || number(got) != number(value)) {
		t.Errorf("number %s became %q", value, got)
	}
}

func checkTime(t *testing.T, at time.Time, got string, asText bool) {
	t.Helper()
	inRange := !at.Before(time.Date(1900, 3, 1, 0, 0, 0, 0, time.UTC)) && at.Year() < 10000
	if asText == inRange {
		t.Errorf("%s: as text %t", at, asText)
	}
	if asText {
		if plain := timestamp(at); got != plain && got != strings.Replace(plain, " ", "T", 1) {
			t.Errorf("%s became %q", plain, got)
		}
		return
	}
	serial := number(got)
	step := (math.Nextafter(serial, math.Inf(1)) - serial) * 86_400e6 // microseconds
	day := math.Floor(serial)
	micros := int64((day-unixEpoch)*86_400e6) + int64(math.Round((serial-day)*86_400e6))
	if late := float64(micros - at.UnixMicro()); math.Abs(late) > 1.5*step+1 {
		t.Errorf("%s became %s, %g microseconds off", at, got, late)
	}
}
