package report

import (
	"context"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// Source answers reports with rows: another PostgreSQL, MySQL, an HTTP API. A
// report asks for it by name in the source line of its front matter, and what
// stands below the front matter is the source's own language. A Source is safe
// for concurrent use; the readings that it opens are not.
//
// It decides nothing about files. It gives each value as PostgreSQL would print
// it and names the type whose text that is (see [tabular.Rows]): 12.50 with
// [tabular.OIDNumeric], t with [tabular.OIDBool], {"a": 1} with [tabular.OIDJSON],
// 2026-01-31 09:30:00+01 with [tabular.OIDTimestampTZ] in the zone of the request,
// and nil for NULL. A column whose type it does not know is text: OID 0.
//
// A source that refuses what the report says returns [Mistakes], made with
// [Definition.Mistake], so that people read the file and the line.
type Source interface {
	// Describe is the columns that the report has, without reading its rows; it
	// is how reports are checked before a job exists. A parameter may be NULL or
	// missing then.
	Describe(ctx context.Context, r Request) ([]tabular.Column, error)
	// Open begins to read. The reading ends with ctx: its Next returns false soon
	// after, and its Err says why. The rows should be those of one moment.
	Open(ctx context.Context, r Request) (Reading, error)
}

// Request is what a source is asked.
type Request struct {
	Report *Definition
	// Values are in their one spelling (see [Definition.Canonical]), the tenant's
	// parameter among them; one that is missing is NULL. They are data: a source
	// binds or encodes them and never puts them into a text that it executes.
	Values map[string]string
	// Query is the statement for PostgreSQL, empty when the report names a source.
	Query Query
	// Zone is the IANA name of the zone in which instants are wanted.
	Zone string
}

// Reading is an answer that is read once. Whoever opened it closes it, also after
// an error. A reading may also have a method Count() (int64, bool): the number of
// rows that the server says it sent, known after the last one; [Write] then fails
// when another number arrived.
type Reading interface {
	tabular.Rows
	// Close frees what is behind it. It may be called while Next waits, when that
	// did not end with its context, and then makes it return.
	Close() error
	// AsOf is a time that the rows are not older than. It is known from the start.
	AsOf() time.Time
}
