// Package tabular is what row sources and file formats agree on: a source gives
// [Rows] whose values are PostgreSQL's text, a [Layout] says how each column is
// to look, and a [Format] turns rows into the bytes of a file.
//
// PostgreSQL's text format is the common language because it holds every value
// exactly: digits of a numeric, microseconds, infinities, NULL apart from empty
// text. A source that is no PostgreSQL names the type whose text its values have
// ([OIDNumeric] for 12.50, [OIDTimestampTZ] for 2026-01-31 09:30:00+01), or none
// for plain text. Formats never see a connection, and sources never see a file.
//
// A format that cannot hold a value as it is counts what it did instead in
// [Notes]; in a strict layout it fails.
package tabular
