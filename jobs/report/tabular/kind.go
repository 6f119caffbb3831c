package tabular

import "slices"

// Kind is what the values of a column mean to people. Formats choose by it
// together with the column's type.
type Kind string

// The kinds, as a front matter spells them.
const (
	Text      Kind = "text"      // what a person may have typed
	Code      Kind = "code"      // identifiers such as ZIP codes: always text, never computed with
	Integer   Kind = "integer"   // whole numbers
	Decimal   Kind = "decimal"   // numbers with a fraction
	Money     Kind = "money"     // an amount, in Field.Currency when that is set
	Percent   Kind = "percent"   // a fraction: 0.125 is 12.5 %
	Date      Kind = "date"      // a day
	Timestamp Kind = "timestamp" // an instant (timestamptz) or a local time (timestamp)
	Boolean   Kind = "boolean"
	JSON      Kind = "json"  // json, jsonb, and arrays of any type
	Enum      Kind = "enum"  // a code that has labels
	Plain     Kind = "plain" // PostgreSQL's text of any other type: interval, range, inet, bit … It is never a formula.
)

// Kinds are those that a front matter may give a column; Plain is only derived.
func Kinds() []Kind {
	return []Kind{Text, Code, Integer, Decimal, Money, Percent, Date, Timestamp, Boolean, JSON, Enum}
}

// DefaultKind is the kind of a column for which nobody chose one.
func DefaultKind(c Column) Kind {
	if c.Elem != 0 {
		return JSON
	}
	switch c.OID {
	case OIDBool:
		return Boolean
	case OIDInt2, OIDInt4, OIDInt8, OIDOID:
		return Integer
	case OIDNumeric, OIDFloat4, OIDFloat8:
		return Decimal
	case OIDDate:
		return Date
	case OIDTimestamp, OIDTimestampTZ:
		return Timestamp
	case OIDJSON, OIDJSONB:
		return JSON
	case OIDBytea, OIDUUID, OIDMoney, OIDTime, OIDTimeTZ, OIDInterval, 22, 27, 28, 30, 1560, 1562, 869, 650, 829, 774: // int2vector tid xid oidvector bit varbit inet cidr macaddr macaddr8
		return Plain
	}
	return Text
}

// Fits reports whether a column can be of the kind. Everything can be text, a
// code or an enum.
func (k Kind) Fits(c Column) bool {
	switch k {
	case Text, Code, Enum:
		return c.Elem == 0
	case Plain:
		return true
	case Integer:
		return DefaultKind(c) == Integer
	case Decimal, Money, Percent:
		return slices.Contains([]Kind{Integer, Decimal}, DefaultKind(c))
	case Timestamp:
		return DefaultKind(c) == Timestamp
	}
	return DefaultKind(c) == k
}
