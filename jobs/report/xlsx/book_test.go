package xlsx

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	wide, fixed, zoned := field(tabular.Text, tabular.OIDText), field(tabular.Text, tabular.OIDText), field(tabular.Timestamp, tabular.OIDTimestampTZ)
	wide.Label, fixed.Width = "_x0041_ <Name> \x01", 12
	money := numeric(tabular.Money, -1, "EUR")
	l := layoutOf(wide, fixed, zoned, field(tabular.Code, tabular.OIDText), money)
	l.Zone = nil
	for _, rows := range [][][]string{nil, {{"first\nlonger line 株式", strings.Repeat("x", 99), "2026-01-31 00:00:00+00", "02138", "1234567.1"}}} {
		file, warnings := mustEncode(t, l, 0, rows...)
		if got := noted(warnings); got != "c1:replaced×1@[0]" {
			t.Error(got)
		}
		s := sheetOf(t, file, 1)
		_, isBold := formatsOf(t, file)
		want := []string{"_x005F_x0041_ <Name> \uFFFD", "c2", "c3 (UTC)", "c4", "c5"}
		for i, c := range s.Rows[0].Cells {
			if c.value() != want[i] || !isBold[c.S] {
				t.Errorf("label %+v, want %q in bold", c, want[i])
			}
		}
		if s.View.Pane.State != "frozen" || s.View.Pane.YSplit != "1" || s.View.Pane.TopLeft != "A2" {
			t.Errorf("pane %+v", s.View.Pane)
		}
		if s.Filter.Ref != fmt.Sprintf("A1:E%d", 1+len(rows)) {
			t.Error(s.Filter.Ref)
		}
		var widths []int
		for _, c := range s.Columns {
			widths = append(widths, int(c.Width))
		}
		wantWidths, wantIgnored := []int{19, 12, 11, 6, 6}, 0
		if rows != nil {
			wantWidths, wantIgnored = []int{19, 12, 20, 6, 17}, 1 // 1,234,567.10 EUR
		}
		if !slices.Equal(widths, wantWidths) {
			t.Errorf("widths %v, want %v", widths, wantWidths)
		}
		if len(s.Ignored) != wantIgnored || wantIgnored > 0 && (s.Ignored[0].Where != "A2:B2 D2:D2" || s.Ignored[0].What != "1") {
			t.Errorf("ignored errors %+v", s.Ignored)
		}
	}
}

func TestWidthsComeFromTheFirstRows(t *testing.T) {
	t.Parallel()
	var rows [][]string
	for i := range 400 {
		rows = append(rows, []string{strings.Repeat("x", 10+i/300*20)}) // wider from row 301 on
	}
	l := layoutOf(field(tabular.Text, tabular.OIDText))
	file, _ := mustEncode(t, l, 0, rows...)
	if s := sheetOf(t, file, 1); int(s.Columns[0].Width) != 11 || len(s.Rows) != 401 {
		t.Errorf("%+v, %d rows", s.Columns, len(s.Rows))
	}
	file, _ = mustEncode(t, l, 0, []string{strings.Repeat("y", 300)})
	if s := sheetOf(t, file, 1); int(s.Columns[0].Width) != broadest {
		t.Errorf("%+v", s.Columns)
	}
	var large [][]string // more than is kept for the sample
	for range 30 {
		large = append(large, []string{strings.Repeat("z", 30_000)})
	}
	file, _ = mustEncode(t, l, 0, large...)
	if s := sheetOf(t, file, 1); len(s.Rows) != 31 {
		t.Errorf("%d rows", len(s.Rows))
	}
}

func TestNextSheet(t *testing.T) {
	t.Parallel()
	l := layoutOf(field(tabular.Text, tabular.OIDText), field(tabular.Code, tabular.OIDText))
	l.Fields[0].Width = 33
	for n, want := range map[int]struct{ sheets, notes string }{
		0: {"Data", ""}, 3: {"Data", ""}, 4: {"Data, Data (2)", "c1:more_sheets×1@[4]"},
		10: {"Data, Data (2), Data (3), Data (4)", "c1:more_sheets×3@[4 7 10]"},
	} {
		var rows [][]string
		for i := range n {
			rows = append(rows, []string{fmt.Sprint("row ", i+1), "01"})
		}
		file, warnings := mustEncode(t, l, 4, rows...)
		names := sheetNames(t, file)
		if got := strings.Join(names, ", "); got != want.sheets || noted(warnings) != want.notes {
			t.Errorf("%d rows: sheets %s, notes %s", n, got, noted(warnings))
		}
		seen := 0
		for k := range names {
			s := sheetOf(t, file, k+1)
			if s.find("A1").value() != "c1" || s.View.Pane.State != "frozen" || int(s.Columns[0].Width) != 33 || s.Filter.Ref != fmt.Sprintf("A1:B%d", len(s.Rows)) || len(s.Rows) > 4 {
				t.Errorf("%d rows, sheet %d: %+v", n, k+1, s)
			}
			if (s.View.Selected == "1") != (k == 0) {
				t.Errorf("%d rows, sheet %d: selected %q", n, k+1, s.View.Selected)
			}
			for i, row := range s.Rows[1:] {
				if seen++; row.R != i+2 || s.find(fmt.Sprint("A", row.R)).value() != fmt.Sprint("row ", seen) {
					t.Errorf("%d rows, sheet %d: row %+v", n, k+1, row)
				}
			}
		}
		if seen != n {
			t.Errorf("%d rows, %d in the file", n, seen)
		}
		strict := *l
		strict.Strict = true
		if _, err := encode(io.Discard, &strict, 4, rows...); (err != nil) != (n > 3) || n > 3 && !strings.Contains(err.Error(), "row 4: a sheet of Excel holds 3 rows") {
			t.Errorf("%d rows, strict: %v", n, err)
		}
	}
}

func TestSheetNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 27) + " (2)"
	for title, want := range map[string]string{
		"":                              "Data | Data (2)",
		" '' ":                          "Data | Data (2)",
		"Orders":                        "Orders | Orders (2)",
		"It's":                          "It's | It's (2)",
		"'Quoted'":                      "Quoted | Quoted (2)",
		"a[b]c:d*e?f/g\\h":              "a(b)c-d-e-f-g-h | a(b)c-d-e-f-g-h (2)",
		"history":                       "history - | history - (2)",
		"tab\tand\nline\x00":            "tab and line | tab and line (2)",
		strings.Repeat("x", 40):         strings.Repeat("x", 31) + " | " + strings.Repeat("x", 27) + " (2)",
		strings.Repeat("😀", 16):         strings.Repeat("😀", 15) + " | " + strings.Repeat("😀", 13) + " (2)",
		strings.Repeat("x", 30) + "'yy": strings.Repeat("x", 30) + " | " + strings.Repeat("x", 27) + " (2)",
		long:                            long + " | " + strings.Repeat("x", 25) + " (2)",
		long[1:]:                        long[1:] + " | " + strings.Repeat("x", 25) + " (2)",
	} {
		name := sheetTitle(title)
		if got := name + " | " + sheetName(name, 2); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
		for n := 1; n < 1200; n++ {
			if size := len(utf16.Encode([]rune(sheetName(name, n)))); size == 0 || size > maxSheetName {
				t.Errorf("%q: sheet %d has a name of %d", title, n, size)
			}
		}
	}
}

func TestBadLayouts(t *testing.T) {
	t.Parallel()
	many := layoutOf(make([]tabular.Field, maxColumns+1)...)
	if _, err := Format().New(io.Discard, many, tabular.NewNotes("xlsx", many)); err == nil || !strings.Contains(err.Error(), "16385 columns and an Excel sheet holds 16384") {
		t.Error(err)
	}
	if _, err := encode(io.Discard, layoutOf(numeric(tabular.Money, -1, `E"R`)), 0); err == nil || !strings.Contains(err.Error(), "columns.c1.currency") {
		t.Error(err)
	}
	most := layoutOf(make([]tabular.Field, maxColumns)...)
	file, _ := mustEncode(t, most, 0)
	if s := sheetOf(t, file, 1); s.Filter.Ref != "A1:XFD1" || s.find("XFD1").value() != "c16384" || s.find("AAA1").value() != "c703" {
		t.Error(s.Filter.Ref)
	}
}

// Every part is XML, is announced, and is reached from the package's relations.
func TestParts(t *testing.T) {
	t.Parallel()
	l := layoutOf(field(tabular.Text, tabular.OIDText))
	l.Title = `<Tom> & "Jerry's" ` + "\x02"
	file, _ := mustEncode(t, l, 2, []string{"a"}, []string{"b"})
	again, _ := mustEncode(t, l, 2, []string{"a"}, []string{"b"})
	if !bytes.Equal(file, again) {
		t.Error("the same rows gave other bytes")
	}
	parts := partsOf(t, file)
	for name, text := range parts {
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
		}
		announced := strings.Contains(parts["[Content_Types].xml"], `PartName="/`+name+`"`) || strings.HasSuffix(name, ".rels") || name == "[Content_Types].xml"
		if !announced {
			t.Errorf("%s is not announced", name)
		}
	}
	for _, from := range []string{"_rels/.rels", "xl/_rels/workbook.xml.rels"} {
		var r struct {
			All []struct {
				Target string `xml:"Target,attr"`
			} `xml:"Relationship"`
		}
		if err := xml.Unmarshal([]byte(parts[from]), &r); err != nil || len(r.All) != 3 {
			t.Fatal(r, err)
		}
		for _, to := range r.All {
			if parts[path.Join(path.Dir(path.Dir(from)), to.Target)] == "" {
				t.Errorf("%s leads to %s, which is missing", from, to.Target)
			}
		}
	}
	if len(parts) != 9 || !strings.Contains(parts["docProps/app.xml"], "<Application>Fenceline<") {
		t.Errorf("%d parts", len(parts))
	}
}

// headers are the local file headers, as they stand in front of the data.
func headers(file []byte) (all [][]byte) {
	for rest := file; ; {
		at := bytes.Index(rest, []byte("PK\x03\x04"))
		if at < 0 {
			return all
		}
		all = append(all, rest[at:at+30])
		rest = rest[at+30:]
	}
}

func TestArchiveHeaders(t *testing.T) {
	t.Parallel()
	file, _ := mustEncode(t, layoutOf(field(tabular.Text, tabular.OIDText)), 0, []string{"a"})
	r, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	local := headers(file)
	if len(local) != len(r.File) {
		t.Fatalf("%d headers, %d files", len(local), len(r.File))
	}
	for i, f := range r.File {
		version, flags := binary.LittleEndian.Uint16(local[i][4:]), binary.LittleEndian.Uint16(local[i][6:])
		if version != 45 || f.ReaderVersion != 45 || flags != f.Flags || (flags == 8) != strings.Contains(f.Name, "sheet1") {
			t.Errorf("%s: version %d and %d, flags %x and %x", f.Name, version, f.ReaderVersion, flags, f.Flags)
		}
		if !f.Modified.Equal(time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: %s", f.Name, f.Modified)
		}
	}
}

// A sheet of 5 GiB is pretended by its counter: the lengths behind the data and
// in the directory then have 64 bits.
func TestZip64(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := layoutOf(field(tabular.Text, tabular.OIDText))
	e, err := begin(&out, l, tabular.NewNotes("xlsx", l), settings{rows: maxRows, level: level})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.openSheet(); err != nil {
		t.Fatal(err)
	}
	e.book.part.size = 5 << 30
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	f := r.File[slices.IndexFunc(r.File, func(f *zip.File) bool { return strings.Contains(f.Name, "sheet1") })]
	if f.UncompressedSize64 < 5<<30 || f.ReaderVersion != 45 {
		t.Errorf("%d bytes, version %d", f.UncompressedSize64, f.ReaderVersion)
	}
	descriptor := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(
		binary.LittleEndian.AppendUint32([]byte("PK\x07\x08"), f.CRC32), f.CompressedSize64), f.UncompressedSize64)
	if !bytes.Contains(out.Bytes(), descriptor) {
		t.Error("no lengths of 64 bits behind the data")
	}
}

// failing takes so many bytes.
type failing struct{ left int }

var errFull = errors.New("no space left")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// However far a file comes, a writer's error is told and no goroutine stays.
func TestWriterFails(t *testing.T) {
	t.Parallel()
	for _, space := range []int{0, 1, 70_000, 200_000, 1_000_000} {
		synctest.Test(t, func(t *testing.T) {
			l := ordersLayout()
			e, err := Format().New(&failing{space}, l, tabular.NewNotes("xlsx", l))
			if err != nil {
				t.Fatal(err)
			}
			if err := writeOrders(e, 20_000); !errors.Is(err, errFull) {
				t.Errorf("%d bytes: %v", space, err)
			}
			e.Abort()
		})
	}
}

// Close alone ends what runs, also when it fails: at its last piece, or because
// an earlier one has failed meanwhile.
func TestCloseFails(t *testing.T) {
	t.Parallel()
	for _, rows := range []int64{0, 10, 300, 1000} {
		synctest.Test(t, func(t *testing.T) {
			l := ordersLayout()
			e, err := Format().New(&failing{0}, l, tabular.NewNotes("xlsx", l))
			if err != nil {
				t.Fatal(err)
			}
			o, names := newOrders(), customers()
			for i := range rows {
				if err := e.Row(i+1, o.row(i+1, names)); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if err := e.Close(); !errors.Is(err, errFull) {
				t.Error(err)
			}
		})
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	for _, rows := range []int64{0, 10, 5000} {
		synctest.Test(t, func(t *testing.T) { // which fails when a goroutine stays
			l := ordersLayout()
			e, err := Format().New(io.Discard, l, tabular.NewNotes("xlsx", l))
			if err != nil {
				t.Fatal(err)
			}
			o, names := newOrders(), customers()
			for i := range rows {
				if err := e.Row(i+1, o.row(i+1, names)); err != nil {
					t.Fatal(err)
				}
			}
			e.Abort()
		})
	}
}
