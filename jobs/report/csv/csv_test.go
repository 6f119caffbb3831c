package csv_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/csv"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestFieldsAreQuotedWhenReadersNeedIt(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"a": "a", "a b": "a b", "a,b": `"a,b"`, `a"b`: `"a""b"`, `"`: `""""`, "a\nb": "\"a\nb\"", "a\rb": "\"a\rb\"", "a\r\nb": "\"a\r\nb\"",
		" a": `" a"`, "a ": `"a "`, " ": `" "`, "\ta": "\"\ta\"", "a\v": "\"a\v\"", "a\tb": "a\tb", "": `""`, null: "", "NULL": "NULL",
		`\N`: `\N`, `\.`: `\.`, `\`: `\`, ";": ";", "'": "'", "ü,": `"ü,"`, "\u00a0x": "\u00a0x", `{"a","b c"}`: `"{""a"",""b c""}"`,
		`""`: `""""""`, "a\"\"\n": "\"a\"\"\"\"\n\"", strings.Repeat("x", 200_000): strings.Repeat("x", 200_000),
	} {
		if got, _ := mustWrite(t, layout(data, texts("x", "y")...), []string{value, "z"}); got != "\"x\",\"y\"\n"+want+",z\n" {
			t.Errorf("%.20q: got %.60q", value, got)
		}
	}
}

// TestEveryByteIsSeenAtEveryPlace: fields are looked at eight bytes at a time.
func TestEveryByteIsSeenAtEveryPlace(t *testing.T) {
	t.Parallel()
	for _, delimiter := range ",;\t|" {
		l := layout(data, texts("x", "y")...)
		l.Locale.Delimiter = byte(delimiter)
		var rows [][]string
		var want strings.Builder
		want.WriteString(`"x"` + string(delimiter) + `"y"` + "\n")
		for _, length := range []int{3, 8, 9, 10, 18} {
			for at := 1; at < length-1; at++ {
				for c := byte(1); c < 0x80; c++ {
					v := strings.Repeat("a", at) + string(rune(c)) + strings.Repeat("a", length-at-1)
					rows = append(rows, []string{v, "z"})
					if rune(c) == delimiter || c == '"' || c == '\r' || c == '\n' {
						v = `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
					}
					want.WriteString(v + string(delimiter) + "z\n")
				}
				for _, c := range []string{"\x00", "\x80", "\xff"} {
					v := strings.Repeat("a", at) + c + strings.Repeat("a", length-at-1)
					if _, _, err := write(l, []string{v, "z"}); err == nil {
						t.Fatalf("%q was written", v)
					}
				}
			}
		}
		if got, _ := mustWrite(t, l, rows...); got != want.String() {
			t.Errorf("between %q: %d bytes, want %d", delimiter, len(got), want.Len())
		}
	}
}

func TestFormulasAreCountedAndKeptForPrograms(t *testing.T) {
	t.Parallel()
	formulas := []string{"=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx", "-", "+4930123456", "-12.50", "-1e5", "-.5", "+", "=", "-.", "-1e", "--1", "-1.2.3", "a=b", " =1"}
	var rows [][]string
	for _, f := range formulas {
		rows = append(rows, []string{"x", f})
	}
	got, warnings := mustWrite(t, layout(data, texts("a", "b")...), rows...)
	// Not counted: numbers, signs alone, and what does not begin with one.
	want := []tabular.Warning{{Format: "csv", Column: "b", Kind: string(tabular.NoteFormula), Count: 10, Rows: []int64{1, 2, 3, 4, 5}}}
	if !reflect.DeepEqual(warnings, want) {
		t.Errorf("got %+v", warnings)
	}
	_, read, err := dialect{',', "\n"}.read(got)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range formulas {
		if *read[i][1] != f {
			t.Errorf("%q was written as %q", f, *read[i][1])
		}
	}
}

// TestKindsThatAreNeverFormulas: nobody can type one there.
func TestKindsThatAreNeverFormulas(t *testing.T) {
	t.Parallel()
	for _, f := range []tabular.Field{field("a", tabular.OIDInterval, tabular.Plain), field("a", tabular.OIDMoney, tabular.Plain)} {
		for _, preset := range []tabular.Preset{data, sheet} {
			if got, warnings := mustWrite(t, layout(preset, f, f), []string{"-1 days", "-$2"}); len(warnings) != 0 || !strings.Contains(got, "-1 days,-$2") {
				t.Errorf("type %d: got %q, %+v", f.OID, got, warnings)
			}
		}
	}
	// The words for what has no digits are names to a spreadsheet.
	l := layout(sheet, field("n", tabular.OIDNumeric, tabular.Decimal), field("day", tabular.OIDDate, tabular.Date), field("at", tabular.OIDTimestamp, tabular.Timestamp))
	if got, warnings := mustWrite(t, l, []string{"-Infinity", "-infinity", "-infinity"}, []string{"NaN", "infinity", "0044-03-15 10:00:00.5 BC"}); len(warnings) != 3 || !strings.HasSuffix(got, "\r\n'-Infinity,'-infinity,'-infinity\r\nNaN,infinity,0044-03-15 10:00:00.5 BC\r\n") {
		t.Errorf("got %q, %+v", got, warnings)
	}
}

func TestWrongValuesNameRowAndColumn(t *testing.T) {
	t.Parallel()
	fields := []tabular.Field{field("note", tabular.OIDText, tabular.Text), field("ok", tabular.OIDBool, tabular.Boolean), field("n", tabular.OIDInt8, tabular.Integer),
		field("doc", tabular.OIDJSON, tabular.JSON), arrayField("list", tabular.OIDInt4), field("at", tabular.OIDTimestampTZ, tabular.Timestamp)}
	good := []string{"ü", "t", "1", "{}", "{}", "infinity"}
	for _, preset := range []tabular.Preset{data, sheet} {
		for want, at := range map[string]int{
			`column "note": value "a\xffb" is not UTF-8 text`: 0, `column "note": value "a\x00b" is not UTF-8 text`: 0, `column "note": value "=\xff" is not UTF-8 text`: 0,
			`column "ok": value "yes" is not t or f`: 1, `column "ok": value "" is not t or f`: 1,
			`column "n": value "=1" is not a number`: 2, `column "n": value "" is not a number`: 2,
			`column "doc": value "{" is not JSON in UTF-8`: 3, `column "doc": value "\"\xff\"" is not JSON in UTF-8`: 3,
			`column "list": value "{x}" is not an array as PostgreSQL prints it, in UTF-8`: 4,
			`column "at": value "\xff" is not UTF-8 text`:                                  5,
		} {
			row := append([]string(nil), good...)
			if _, err := fmt.Sscanf(want[strings.Index(want, "value ")+len("value "):], "%q", &row[at]); err != nil {
				t.Fatal(want, err)
			}
			file, _, err := write(layout(preset, fields...), good, row)
			if fmt.Sprint(err) != "row 2, "+want || file != "" {
				t.Errorf("%s: got %v, want %s", preset, err, want)
			}
		}
	}
	if _, _, err := write(layout(data, fields...), good[:5]); err == nil || err.Error() != "row 1 has 5 values, and the layout needs 6" {
		t.Errorf("got %v", err)
	}
}

// TestAnErrorIsFinal: neither later rows nor Close can make a file of it.
func TestAnErrorIsFinal(t *testing.T) {
	t.Parallel()
	l := layout(data, field("ok", tabular.OIDBool, tabular.Boolean))
	var out bytes.Buffer
	e, err := csv.Format().New(&out, l, tabular.NewNotes("csv", l))
	if err != nil {
		t.Fatal(err)
	}
	bad := e.Row(1, values("x"))
	if again, end := e.Row(2, values("t")), e.Close(); bad == nil || !errors.Is(again, bad) || !errors.Is(end, bad) || out.Len() > 0 {
		t.Errorf("%v, %v, %v, %q", bad, again, end, &out)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestTheWriterGetsLargePiecesAndItsErrorsAreTold(t *testing.T) {
	t.Parallel()
	l := layout(data, texts("a", "b")...)
	var sizes []int
	total, broken := 0, errors.New("disk full")
	e, err := csv.Format().New(writerFunc(func(p []byte) (int, error) {
		sizes, total = append(sizes, len(p)), total+len(p)
		return len(p), nil
	}), l, tabular.NewNotes("csv", l))
	for i := 0; i < 10_000 && err == nil; i++ {
		err = e.Row(int64(i+1), values("0123456789", "0123456789"))
	}
	if err != nil || e.Close() != nil || total != len("\"a\",\"b\"\n")+10_000*22 {
		t.Fatal(err, total)
	}
	for _, n := range sizes[:len(sizes)-1] {
		if n < 64<<10 {
			t.Errorf("pieces of %v", sizes)
		}
	}
	for want, w := range map[error]writerFunc{
		broken:           func([]byte) (int, error) { return 0, broken },
		io.ErrShortWrite: func(p []byte) (int, error) { return len(p) - 1, nil },
	} {
		e, err := csv.Format().New(w, l, tabular.NewNotes("csv", l))
		for i := 0; i < 10_000 && err == nil; i++ {
			err = e.Row(int64(i+1), values("0123456789", "0123456789"))
		}
		if end := e.Close(); !errors.Is(err, want) || !errors.Is(end, want) {
			t.Errorf("got %v and %v, want %v", err, end, want)
		}
	}
}

func TestAbortWritesNothing(t *testing.T) {
	t.Parallel()
	l := layout(data, texts("a")...)
	var out bytes.Buffer
	e, err := csv.Format().New(&out, l, tabular.NewNotes("csv", l))
	if err != nil {
		t.Fatal(err)
	}
	e.Abort()
	if e.Row(1, values("x")) == nil || e.Close() == nil || out.Len() > 0 {
		t.Errorf("after Abort: %q", &out)
	}
}

// TestRowsDoNotAllocate guards the speed: all kinds of columns, with notes.
func TestRowsDoNotAllocate(t *testing.T) {
	for _, preset := range []tabular.Preset{data, sheet} {
		l, rows := orders(preset, map[tabular.Preset]string{sheet: "de-DE"}[preset])
		extra := []tabular.Field{field("ok", tabular.OIDBool, tabular.Boolean), enumField("state", map[string]string{"a": "A label"}), arrayField("list", tabular.OIDText), field("f", tabular.OIDText, tabular.Text), field("end", tabular.OIDTimestampTZ, tabular.Timestamp)}
		for i, f := range extra {
			f.Index = len(rows[0]) + i
			l.Fields = append(l.Fields, f)
		}
		l.Zone = zoneOf(t, "Europe/Berlin")
		e, err := csv.Format().New(io.Discard, l, tabular.NewNotes("csv", l))
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			rows[i] = append(rows[i], values("t", []string{"a", "none"}[i%2], `{"a b",NULL}`, "=1+1", []string{"infinity", "2024-10-27 02:30:00+02"}[i%2])...)
		}
		n := 0
		row := func() {
			if err := e.Row(int64(n+1), rows[n%len(rows)]); err != nil {
				t.Fatal(err)
			}
			n++
		}
		for range 2000 {
			row()
		}
		// By the hundred, because AllocsPerRun rounds a part of one down to none.
		hundred := func() {
			for range 100 {
				row()
			}
		}
		if allocs := testing.AllocsPerRun(50, hundred); allocs != 0 {
			t.Errorf("%s: %v allocations in a hundred rows", preset, allocs)
		}
	}
}

// FuzzCSV: any rows in, the same rows out, by a strict reader that tells NULL from
// empty text and by encoding/csv.
func FuzzCSV(f *testing.F) {
	f.Add(1, "a\x1f\x1e\x1f\\N\x1f\\.\x1f \x1f")
	f.Add(3, "a,b\x1f\x1e\x1f\"\x1f\r\n\x1f=\x1fü\x1f\n")
	f.Add(2, "")
	f.Add(2, "\\N\x1fx")
	f.Add(2, "=a;b\x1f+1\x1f-x\x1f＝x\x1f\t\x1f'")
	f.Fuzz(func(t *testing.T, width int, joined string) {
		if width < 1 || width > 5 {
			return
		}
		// \x1f separates fields, a field of \x1e is NULL.
		var rows [][]string
		for i, v := range strings.Split(joined, "\x1f") {
			if v == "\x1e" {
				v = null
			}
			if i%width == 0 {
				rows = append(rows, nil)
			}
			rows[i/width] = append(rows[i/width], v)
		}
		for last := len(rows) - 1; len(rows[last]) < width; {
			rows[last] = append(rows[last], null)
		}
		for _, d := range []struct {
			preset tabular.Preset
			locale tabular.Locale
			dialect
		}{{data, tabular.Locale{}, dialect{',', "\n"}}, {data, tabular.Locale{Delimiter: '\t'}, dialect{'\t', "\n"}}, {sheet, tabular.Locale{Delimiter: ';', DecimalMark: ','}, dialect{';', "\r\n"}}} {
			l := layout(d.preset, texts("a", "b", "c", "d", "e")[:width]...)
			l.Locale = d.locale
			file, _, err := write(l, rows...)
			if err != nil {
				if strings.ToValidUTF8(joined, "") != joined || strings.Contains(joined, "\x00") {
					continue
				}
				t.Fatal(err)
			}
			d.compare(t, d.preset, file, rows)
		}
	})
}

// cell is what a reader must find for a value, and whether it is NULL there.
func cell(preset tabular.Preset, v string, alone bool) (string, bool) {
	switch {
	case preset == data:
		return v, v == null
	case v == null || v == "":
		return "", !alone
	case tabular.LooksLikeFormula([]byte(v)):
		return "'" + v, false
	}
	return v, false
}

func (d dialect) compare(t *testing.T, preset tabular.Preset, file string, rows [][]string) {
	t.Helper()
	_, read, err := d.read(strings.TrimPrefix(file, bom))
	if err != nil || len(read) != len(rows) || strings.HasPrefix(file, bom) != (preset == sheet) {
		t.Fatalf("%q: read %d rows of %d, %v", file, len(read), len(rows), err)
	}
	reader := stdcsv.NewReader(strings.NewReader(strings.TrimPrefix(file, bom)))
	reader.Comma = rune(d.delimiter)
	common, err := reader.ReadAll()
	if err != nil || len(common) != len(rows)+1 {
		t.Fatalf("%q: encoding/csv read %d records, %v", file, len(common), err)
	}
	for i, row := range rows {
		for j, v := range row {
			want, isNull := cell(preset, v, len(row) == 1)
			if got := read[i][j]; isNull != (got == nil) || got != nil && *got != want {
				t.Errorf("row %d field %d: %q became %v", i, j, v, got)
			}
			if isNull {
				want = map[bool]string{true: `\N`}[len(row) == 1]
			}
			// encoding/csv turns CRLF inside a field into LF.
			if got := common[i+1][j]; got != strings.ReplaceAll(want, "\r\n", "\n") {
				t.Errorf("row %d field %d: encoding/csv read %q for %q", i, j, got, want)
			}
		}
	}
}
