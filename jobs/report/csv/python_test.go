package csv_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// readAll is what a Python program does who reads a file as its manual says.
const readAll = `
import csv, json, sys
with open(sys.argv[1], encoding=sys.argv[2], newline='') as f:
    json.dump(list(csv.reader(f, delimiter=sys.argv[3], strict=True)), sys.stdout)
`

func python(t *testing.T, file, encoding string, delimiter byte) (records [][]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.csv")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "python3", "-c", readAll, path, encoding, string(delimiter))
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("python3 (Debian package python3): %v\n%s", err, &stderr)
	}
	if err := json.Unmarshal(out.Bytes(), &records); err != nil {
		t.Fatal(err)
	}
	return records
}

// difficult are rows of what readers stumble over.
func difficult(width int) (rows [][]string) {
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "Z", "0", "5", ".", "-", "+", "=", "@", ",", ";", "\t", "|", `"`, `""`, "'", "\r", "\n", "\r\n", " ", `\`, `\N`, "é", "মে", "\u2028", "\u0085", "\ufeff", "😀", "\x01", "\x1a", "＝"}
	for range 1000 {
		row := make([]string, width)
		for i := range row {
			switch n := random.IntN(8); n {
			case 0:
				row[i] = null
			case 7:
				row[i] = strings.Repeat("long, ", random.IntN(300))
			default:
				for range n - 1 {
					row[i] += pieces[random.IntN(len(pieces))]
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func TestPythonReadsTheSameCells(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		preset    tabular.Preset
		locale    string
		encoding  string
		delimiter byte
		width     int
	}{
		"data": {data, "", "utf-8", ',', 3}, "data alone": {data, "", "utf-8", ',', 1},
		"en-US": {sheet, "en-US", "utf-8-sig", ',', 3}, "de-DE": {sheet, "de-DE", "utf-8-sig", ';', 3}, "de-DE alone": {sheet, "de-DE", "utf-8-sig", ';', 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := layout(x.preset, texts("a", `b "b"`, "c")[:x.width]...)
			if x.locale != "" {
				l.Locale = localeOf(t, x.locale)
			}
			rows := difficult(x.width)
			file, _ := mustWrite(t, l, rows...)
			got := python(t, file, x.encoding, x.delimiter)
			if len(got) != len(rows)+1 || got[0][0] != "a" {
				t.Fatalf("%d records for %d rows; the header is %q", len(got), len(rows), got[0])
			}
			for i, row := range rows {
				for j, v := range row {
					want, isNull := cell(x.preset, v, x.width == 1)
					if isNull {
						want = map[bool]string{true: `\N`}[x.width == 1]
					}
					if len(got[i+1]) != x.width || got[i+1][j] != want {
						t.Fatalf("row %d: wrote %q, read %q", i+1, row, got[i+1])
					}
				}
			}
		})
	}
}

// TestPythonReadsTheSameTypes: numbers, times and JSON of the data preset mean to
// Python what they meant to PostgreSQL.
func TestPythonReadsTheSameTypes(t *testing.T) {
	t.Parallel()
	l := layout(data, field("n", tabular.OIDNumeric, tabular.Decimal), field("at", tabular.OIDTimestampTZ, tabular.Timestamp), field("doc", tabular.OIDJSONB, tabular.JSON), arrayField("list", tabular.OIDText))
	file, _ := mustWrite(t, l, []string{"12345678901234567890.10", "2026-01-31 09:30:00.5+05:30", `{"a": "x,\"y\"", "b": [1]}`, `{"a,b","\"",NULL}`})
	got := python(t, file, "utf-8", ',')
	want := [][]string{{"n", "at", "doc", "list"}, {"12345678901234567890.10", "2026-01-31T09:30:00.5+05:30", `{"a":"x,\"y\"","b":[1]}`, `["a,b","\"",null]`}}
	for i := range want {
		if strings.Join(got[i], "|") != strings.Join(want[i], "|") {
			t.Errorf("got %q", got[i])
		}
	}
}
