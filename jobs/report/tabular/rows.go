package tabular

// Rows is a result, read once from its first row to its last. Closing what is
// behind it belongs to whoever opened it. It need not be safe for concurrent use.
type Rows interface {
	// Columns are the columns of every row. It is called before Next.
	Columns() []Column
	// Next goes to the next row; false when there is none or reading failed.
	Next() bool
	// Values are the fields of the row in PostgreSQL's text format (DateStyle
	// ISO, bytea_output hex, IntervalStyle postgres, timestamptz in the zone of
	// the run); nil is NULL. They are valid until the next Next and must not be
	// changed.
	Values() [][]byte
	// Err says why Next was false; nil after the last row.
	Err() error
}

// Column is a column of a result, as its source describes it.
type Column struct {
	Name string
	// OID is the type (pg_type.oid) in whose text format the values are; 0 is
	// plain text. For a domain it is the type below it.
	OID uint32
	// Type is the type's name for people, such as numeric(12,2); may be empty.
	Type string
	// Elem is the type of an array's elements; 0 when the column is no array.
	Elem uint32
	// Precision and Scale are those of a numeric(p,s); Precision is 0 when the
	// type does not bound its digits.
	Precision, Scale int
}

// OIDs of PostgreSQL's pg_type.dat. They never change. Types of an installation
// (enums, composites, extensions) have others.
const (
	OIDBool        uint32 = 16
	OIDBytea       uint32 = 17
	OIDChar        uint32 = 18 // "char", one byte
	OIDName        uint32 = 19
	OIDInt8        uint32 = 20
	OIDInt2        uint32 = 21
	OIDInt4        uint32 = 23
	OIDText        uint32 = 25
	OIDOID         uint32 = 26
	OIDJSON        uint32 = 114
	OIDFloat4      uint32 = 700
	OIDFloat8      uint32 = 701
	OIDMoney       uint32 = 790 // a text such as $1,234.50, by the server's locale
	OIDBPChar      uint32 = 1042
	OIDVarchar     uint32 = 1043
	OIDDate        uint32 = 1082
	OIDTime        uint32 = 1083
	OIDTimestamp   uint32 = 1114
	OIDTimestampTZ uint32 = 1184
	OIDInterval    uint32 = 1186
	OIDTimeTZ      uint32 = 1266
	OIDNumeric     uint32 = 1700
	OIDUUID        uint32 = 2950
	OIDJSONB       uint32 = 3802
)
