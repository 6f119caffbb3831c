package xlsx

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// pythonBook is what openpyxl says of a file; nil is a blank cell.
type pythonBook struct {
	Creator, Title string
	Sheets         []struct {
		Name, Freeze, Filter string
		Bold                 bool
		Rows, Stream         [][]*string
		Formats              []string
		Formulas             int
	}
}

// python is an interpreter that has openpyxl: the one of the distribution, when
// another stands in front of it.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import openpyxl").Run() == nil {
			return name
		}
	}
	t.Fatal("no python3 with openpyxl: install the package python3-openpyxl")
	return ""
}

func readPython(t *testing.T, files ...string) []pythonBook {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python(t), append([]string{filepath.Join("testdata", "read.py")}, files...)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil || problems.Len() > 0 {
		t.Fatalf("openpyxl: %v\n%s", err, problems.String())
	}
	var books []pythonBook
	if err := json.Unmarshal(out, &books); err != nil {
		t.Fatal(err)
	}
	return books
}

func TestOpenpyxl(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	samplesFile, _ := sampleFile(t)
	l := layoutOf(field(tabular.Integer, tabular.OIDInt8), field(tabular.Text, tabular.OIDText))
	l.Title = "Orders: <2026> & 'more'"
	var rows [][]string
	for i := range 7 {
		rows = append(rows, []string{fmt.Sprint(i), "t" + fmt.Sprint(i)})
	}
	sheets, _ := mustEncode(t, l, 4, rows...)
	empty, _ := mustEncode(t, l, 0)
	long, _ := mustEncode(t, layoutOf(field(tabular.Text, tabular.OIDText)), 0, []string{strings.Repeat("a\r\n", 32768)}) // case 25
	books := readPython(t, save(t, folder, "samples.xlsx", samplesFile), save(t, folder, "sheets.xlsx", sheets),
		save(t, folder, "empty.xlsx", empty), save(t, folder, "long.xlsx", long))

	checkPythonSamples(t, books[0])
	checkPythonSheets(t, books[1])
	if s := books[2].Sheets[0]; len(s.Rows) != 1 || *s.Rows[0][1] != "c2" || s.Filter != "A1:B1" || !s.Bold {
		t.Errorf("without rows: %+v", s)
	}
	if got := *books[3].Sheets[0].Rows[1][0]; got != strings.Repeat("a\r\n", 32768)[:len(got)] || len(got) < maxUnits-2 || len(got) > maxUnits {
		t.Errorf("long text: %d", len(got))
	}
	for i, b := range books {
		if b.Creator != "Fenceline" {
			t.Errorf("made by %q", b.Creator)
		}
		for _, s := range b.Sheets {
			if !reflect.DeepEqual(s.Rows, s.Stream) {
				t.Errorf("file %d, sheet %s: read-only mode sees %v, not %v", i, s.Name, s.Stream, s.Rows)
			}
		}
	}
}

func checkPythonSamples(t *testing.T, b pythonBook) {
	s := b.Sheets[0]
	if s.Freeze != "A2" || !s.Bold || s.Formulas != 0 || len(s.Rows) != 2 {
		t.Errorf("freeze %s, bold %t, %d formulas, %d rows", s.Freeze, s.Bold, s.Formulas, len(s.Rows))
	}
	for i, sample := range samples() {
		got, want := s.Rows[1][i], sample.want
		if sample.python != "" {
			want = sample.python
		}
		switch {
		case sample.kind == "":
			if got != nil {
				t.Errorf("%s: %q, want a blank cell", sample.name, *got)
			}
		case got == nil:
			t.Errorf("%s: a blank cell, want %q", sample.name, want)
		case *got != want && (sample.kind != "n" || number(*got) != number(want)):
			t.Errorf("%s: %q, want %q", sample.name, *got, want)
		case sample.format != "" && s.Formats[i] != sample.format:
			t.Errorf("%s: format %s, want %s", sample.name, s.Formats[i], sample.format)
		}
	}
}

func number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return f
}

func checkPythonSheets(t *testing.T, b pythonBook) {
	var names, got []string
	for _, s := range b.Sheets {
		names = append(names, s.Name)
		if s.Freeze != "A2" || !s.Bold || s.Filter != fmt.Sprintf("A1:B%d", len(s.Rows)) || *s.Rows[0][0] != "c1" {
			t.Errorf("sheet %s: %+v", s.Name, s)
		}
		for _, row := range s.Rows[1:] {
			got = append(got, *row[1])
		}
	}
	if want := []string{"Orders- <2026> & 'more", "Orders- <2026> & 'more (2)", "Orders- <2026> & 'more (3)"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%q", names)
	}
	if strings.Join(got, " ") != "t0 t1 t2 t3 t4 t5 t6" {
		t.Error(got)
	}
	if b.Title != "Orders: <2026> & 'more'" {
		t.Error(b.Title)
	}
}

// moments are a few thousand times of all years that Excel knows, some with
// milliseconds, as PostgreSQL's text.
func moments() (rows [][]string) {
	r := rand.New(rand.NewPCG(1, 2))
	first, last := time.Date(1900, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()
	for i := range 5000 {
		at := time.UnixMilli(first + r.Int64N(last-first))
		if i%2 == 0 {
			at = time.UnixMilli(1_600_000_000_000 + r.Int64N(400_000_000_000)) // the years of most reports
		}
		if i%5 > 0 {
			at = at.Truncate(time.Second)
		}
		rows = append(rows, []string{at.UTC().Format("2006-01-02 15:04:05.999")})
	}
	return rows
}

func TestLibreOffice(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	samplesFile, _ := sampleFile(t)
	times := moments()
	timesFile, _ := mustEncode(t, layoutOf(field(tabular.Timestamp, tabular.OIDTimestamp)), 0, times...)
	files := []string{save(t, folder, "samples.xlsx", samplesFile), save(t, folder, "times.xlsx", timesFile)}
	// UTF-8, cells as they are shown.
	args := append([]string{"-env:UserInstallation=file://" + filepath.ToSlash(filepath.Join(folder, "profile")), "--headless",
		"--convert-to", "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,true,false", "--outdir", folder}, files...)
	if out, err := exec.CommandContext(t.Context(), "soffice", args...).CombinedOutput(); err != nil {
		t.Fatalf("LibreOffice (package libreoffice-calc-nogui): %v\n%s", err, out)
	}
	row := officeRows(t, filepath.Join(folder, "samples.csv"))[1]
	for i, s := range samples() {
		want := s.want
		if s.office != "" {
			want = s.office
		}
		if row[i] != want {
			t.Errorf("%s: LibreOffice shows %q, want %q", s.name, row[i], want)
		}
	}
	for i, row := range officeRows(t, filepath.Join(folder, "times.csv"))[1:] {
		want := times[i][0]
		if strings.Contains(want, ".") {
			want = (want + "00")[:len("2026-01-31 09:30:00.000")]
		}
		if row[0] != want {
			t.Errorf("row %d: LibreOffice shows %s, want %s", i+1, row[0], want)
		}
	}
}

func officeRows(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// csv.Reader would take \r\n inside a field for \n, which TestCells looks at.
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestExcelize(t *testing.T) {
	t.Parallel()
	file, _ := sampleFile(t)
	row := excelizeRows(t, file, "Data")[1]
	for i, s := range samples() {
		got, want := "", s.want
		if i < len(row) {
			got = row[i]
		}
		if strings.HasPrefix(s.name, "escape") {
			want = s.value // it reads escapes as Excel does
		}
		if got != want && (s.kind != "n" || number(got) != number(want)) {
			t.Errorf("%s: excelize reads %q, want %q", s.name, got, want)
		}
	}
}

// excelizeRows are the cells of a sheet as they are stored.
func excelizeRows(tb testing.TB, file []byte, sheet string) [][]string {
	tb.Helper()
	f, err := excelize.OpenReader(bytes.NewReader(file), excelize.Options{RawCellValue: true})
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	rows, err := f.GetRows(sheet)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}
