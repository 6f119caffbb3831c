package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fenceline/fenceline/jobs/report/csv"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Page is the first rows of a report.
type Page struct {
	Columns []PageColumn `json:"columns"`
	// Rows are the values as the preset data writes them; nil is NULL.
	Rows [][]*string `json:"rows"`
	// More is true when there are further rows.
	More bool `json:"more"`
	// About is how many rows there are when there are more, as the source guesses; nil when nobody knows.
	About *int64 `json:"about,omitempty"`
}

// PageColumn is a column of a page.
type PageColumn struct {
	Key   string       `json:"key"`
	Label string       `json:"label"`
	Kind  tabular.Kind `json:"kind"`
	Type  string       `json:"type,omitempty"` // as PostgreSQL calls it; may be empty
}

// Preview reads at most n+1 rows and shows n of them. Where the layout has
// labels of an enum, the page has them, too. It fails where [Write] to CSV would,
// but never because of a strict layout. It ends with ctx when rows does.
func Preview(ctx context.Context, rows tabular.Rows, layout *tabular.Layout, n int) (Page, error) {
	l := *layout
	l.Preset, l.Locale, l.Strict = tabular.Data, dataLocale(), false
	page := Page{Rows: [][]*string{}}
	for _, f := range l.Fields {
		page.Columns = append(page.Columns, PageColumn{Key: f.Key, Label: f.Label, Kind: f.Kind, Type: f.Type})
	}
	// By way of the format itself: a preview that had its own idea of a value
	// would promise what the file does not hold.
	var file bytes.Buffer
	enc, err := csv.Format().New(&file, &l, tabular.NewNotes("preview", &l))
	if err != nil {
		return Page{}, fmt.Errorf("preview: %w", err)
	}
	count := 0
	for ; count < n && rows.Next() && ctx.Err() == nil; count++ {
		if err := enc.Row(int64(count+1), rows.Values()); err != nil {
			enc.Abort()
			return Page{}, fmt.Errorf("preview: %w", err)
		}
	}
	page.More = count == n && rows.Next()
	if err := errors.Join(enc.Close(), previewEnd(ctx, rows)); err != nil {
		return Page{}, err
	}
	records := readCSV(file.String(), len(l.Fields))
	page.Rows = append(page.Rows, records[1:]...)
	return page, nil
}

func previewEnd(ctx context.Context, rows tabular.Rows) error {
	// Before Err: a source may end its rows quietly when the context ends.
	if ctx.Err() != nil {
		return fmt.Errorf("preview: %w", context.Cause(ctx))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("preview: read rows: %w", err)
	}
	return nil
}

// readCSV takes a file of the preset data apart again, its header first. A nil
// field is NULL: nothing without quotes, or \N in a file with one column.
func readCSV(file string, width int) (records [][]*string) {
	for file != "" {
		record := make([]*string, width)
		for i := range record {
			var value string
			var quoted bool
			value, quoted, file = readField(file)
			if null := !quoted && (value == "" || width == 1 && value == `\N`); !null {
				record[i] = &value
			}
		}
		records = append(records, record)
	}
	return records
}

// readField reads up to the mark behind a field, which is a comma or LF.
func readField(file string) (value string, quoted bool, rest string) {
	if !strings.HasPrefix(file, `"`) {
		end := strings.IndexAny(file, ",\n")
		return file[:end], false, file[end+1:]
	}
	end := quoteEnd(file, 0, false)
	return unquote(file[:end]), true, file[end+1:]
}
