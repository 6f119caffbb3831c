package tabular

import "time"

// Preset is a way to write values as text.
type Preset string

// The presets. They change CSV only: every other format has types.
const (
	Data        Preset = "data"        // for programs: exact, the same everywhere
	Spreadsheet Preset = "spreadsheet" // for a person who opens the file with Excel
)

// Layout is how a file shall look. It is read only while a file is written.
type Layout struct {
	Title  string  // names the sheet and the document
	Fields []Field // at least one, each with its own Label; hidden columns are left out already
	Preset Preset
	Locale Locale
	// Zone is the zone in which timestamptz values arrive and are shown, UTC
	// when the run names none.
	Zone *time.Location
	// Strict fails where a value would be cut, replaced or turned into text.
	Strict bool
}

// Field is a column of the file.
type Field struct {
	Column
	// Index is the value's place in a row of the source.
	Index int
	// Label is the header. Formats for programs (JSON Lines, Parquet) use Key.
	Label string
	// Key is unique among the fields of a layout: the column's name, with _label
	// behind it for the second field of an enum that is shown as both.
	Key  string
	Kind Kind
	// Currency of Money is an ISO 4217 code, or empty when the column does not
	// fix one.
	Currency string
	// Decimals are how many digits after the mark are shown where a format has
	// number formats; -1 is as many as the value has.
	Decimals int
	// Labels of an Enum, by code. nil when the code itself is to be written.
	Labels map[string]string
	// Width in characters; 0 lets the format choose.
	Width int
}

// Locale is how a spreadsheet of some country reads text.
type Locale struct {
	Name        string // BCP 47, such as de-DE
	Delimiter   byte   // between fields of CSV
	DecimalMark byte
	True, False string
}
