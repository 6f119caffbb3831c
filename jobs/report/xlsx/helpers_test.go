package xlsx

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// null is the value of a column that has none.
const null = "\xff no value"

// field is one of a kind, over a type.
func field(kind tabular.Kind, oid uint32) tabular.Field {
	return tabular.Field{Column: tabular.Column{OID: oid}, Kind: kind, Decimals: -1}
}

// layoutOf numbers fields, and names those that have no label.
func layoutOf(fields ...tabular.Field) *tabular.Layout {
	for i := range fields {
		f := &fields[i]
		f.Index, f.Key = i, fmt.Sprintf("c%d", i+1)
		if f.Label == "" {
			f.Label = f.Key
		}
	}
	return &tabular.Layout{Title: "Data", Fields: fields, Zone: time.UTC}
}

func values(row []string) [][]byte {
	v := make([][]byte, len(row))
	for i, s := range row {
		if s != null {
			v[i] = []byte(s)
		}
	}
	return v
}

// encode writes rows, on sheets of at most so many rows when most is not 0.
func encode(w io.Writer, l *tabular.Layout, most int, rows ...[]string) ([]tabular.Warning, error) {
	if most == 0 {
		most = maxRows
	}
	notes := tabular.NewNotes("xlsx", l)
	e, err := begin(w, l, notes, settings{rows: most, level: level})
	if err != nil {
		return nil, err
	}
	defer e.Abort()
	for i, row := range rows {
		if err := e.Row(int64(i+1), values(row)); err != nil {
			return nil, err
		}
	}
	return notes.Warnings(), e.Close()
}

func mustEncode(tb testing.TB, l *tabular.Layout, most int, rows ...[]string) (file []byte, warnings []tabular.Warning) {
	tb.Helper()
	var out bytes.Buffer
	warnings, err := encode(&out, l, most, rows...)
	if err != nil {
		tb.Fatal(err)
	}
	return out.Bytes(), warnings
}

// save writes a file into a folder for other programs.
func save(t *testing.T, folder, name string, file []byte) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// xmlSheet is what the tests read off a sheet.
type xmlSheet struct {
	View struct {
		Selected string `xml:"tabSelected,attr"`
		Pane     struct {
			YSplit  string `xml:"ySplit,attr"`
			TopLeft string `xml:"topLeftCell,attr"`
			State   string `xml:"state,attr"`
		} `xml:"pane"`
	} `xml:"sheetViews>sheetView"`
	Columns []struct {
		Min   int     `xml:"min,attr"`
		Width float64 `xml:"width,attr"`
	} `xml:"cols>col"`
	Rows []struct {
		R     int       `xml:"r,attr"`
		Cells []xmlCell `xml:"c"`
	} `xml:"sheetData>row"`
	Filter struct {
		Ref string `xml:"ref,attr"`
	} `xml:"autoFilter"`
	Ignored []struct {
		Where string `xml:"sqref,attr"`
		What  string `xml:"numberStoredAsText,attr"`
	} `xml:"ignoredErrors>ignoredError"`
}

type xmlCell struct {
	R    string `xml:"r,attr"`
	T    string `xml:"t,attr"`
	S    int    `xml:"s,attr"`
	V    string `xml:"v"`
	Text struct {
		Space string `xml:"http://www.w3.org/XML/1998/namespace space,attr"`
		Text  string `xml:",chardata"`
	} `xml:"is>t"`
}

// value is the text of a cell, or its number.
func (c xmlCell) value() string {
	if c.T == "inlineStr" {
		return c.Text.Text
	}
	return c.V
}

// find is the cell of a name; the zero value when it is blank.
func (s xmlSheet) find(name string) xmlCell {
	for _, row := range s.Rows {
		for _, c := range row.Cells {
			if c.R == name {
				return c
			}
		}
	}
	return xmlCell{}
}

// partsOf unpacks a file.
func partsOf(tb testing.TB, file []byte) map[string]string {
	tb.Helper()
	r, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		tb.Fatal(err)
	}
	parts := map[string]string{}
	for _, f := range r.File {
		rc, err := f.Open()
		if err != nil {
			tb.Fatal(err)
		}
		text, err := io.ReadAll(rc) // compares lengths and checksum, too
		if err != nil {
			tb.Fatalf("%s: %v", f.Name, err)
		}
		parts[f.Name] = string(text)
	}
	return parts
}

func sheetOf(tb testing.TB, file []byte, n int) xmlSheet {
	tb.Helper()
	var s xmlSheet
	if err := xml.Unmarshal([]byte(partsOf(tb, file)[fmt.Sprintf("xl/worksheets/sheet%d.xml", n)]), &s); err != nil {
		tb.Fatal(err)
	}
	return s
}

// formatsOf are the number formats of a file by style, and whether it is bold.
func formatsOf(tb testing.TB, file []byte) (codes []string, isBold []bool) {
	tb.Helper()
	var s struct {
		Custom []struct {
			ID   int    `xml:"numFmtId,attr"`
			Code string `xml:"formatCode,attr"`
		} `xml:"numFmts>numFmt"`
		Fonts []struct {
			Bold *struct{} `xml:"b"`
		} `xml:"fonts>font"`
		Xfs []struct {
			Format int `xml:"numFmtId,attr"`
			Font   int `xml:"fontId,attr"`
		} `xml:"cellXfs>xf"`
	}
	if err := xml.Unmarshal([]byte(partsOf(tb, file)["xl/styles.xml"]), &s); err != nil {
		tb.Fatal(err)
	}
	standard := map[int]string{0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 49: "@"} // ECMA-376 part 1, 18.8.30
	for _, c := range s.Custom {
		standard[c.ID] = c.Code
	}
	for _, xf := range s.Xfs {
		codes, isBold = append(codes, standard[xf.Format]), append(isBold, s.Fonts[xf.Font].Bold != nil)
	}
	return codes, isBold
}

// sheetNames are those of the workbook, in order.
func sheetNames(tb testing.TB, file []byte) (names []string) {
	tb.Helper()
	var w struct {
		Sheets []struct {
			Name string `xml:"name,attr"`
		} `xml:"sheets>sheet"`
	}
	if err := xml.Unmarshal([]byte(partsOf(tb, file)["xl/workbook.xml"]), &w); err != nil {
		tb.Fatal(err)
	}
	for _, s := range w.Sheets {
		names = append(names, s.Name)
	}
	return names
}

// noted is a short form of warnings: column:note×count@rows.
func noted(warnings []tabular.Warning) string {
	var all []string
	for _, w := range warnings {
		all = append(all, fmt.Sprintf("%s:%s×%d@%v", w.Column, w.Kind, w.Count, w.Rows))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
