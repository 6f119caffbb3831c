package parquet

import (
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// columnType is how a column is stored.
type columnType struct {
	schema  format.SchemaElement // without its name
	order   order
	convert converter
}

// converter appends the PLAIN encoding of a value to dst. With an error or
// [tabular.NoteNoValue], what it appended is not used. Its errors end a sentence
// that begins with the value.
type converter func(dst, v []byte) ([]byte, tabular.Note, error)

// typeOf is the type for a field: that of its kind when that one asks for text,
// otherwise that of its values.
func typeOf(f *tabular.Field) columnType {
	switch {
	case f.Elem != 0:
		return logical(format.ByteArray, &format.JsonType{}, deprecated.Json, arrayConverter(f.Elem))
	case f.Kind == tabular.Enum && f.Labels != nil:
		return text(labelConverter(f.Labels))
	case f.Kind == tabular.Text || f.Kind == tabular.Code || f.Kind == tabular.Enum:
		return text(appendText)
	}
	switch f.OID {
	case tabular.OIDNumeric:
		return numericType(f)
	case tabular.OIDDate, tabular.OIDTime, tabular.OIDTimestamp, tabular.OIDTimestampTZ:
		return timeType(f.OID)
	case tabular.OIDJSON, tabular.OIDJSONB:
		return logical(format.ByteArray, &format.JsonType{}, deprecated.Json, appendJSON)
	}
	if t, ok := plainType(f.OID); ok {
		return t
	}
	return text(appendText)
}

// plainType are the types that need nothing but their OID.
func plainType(oid uint32) (columnType, bool) {
	switch oid {
	case tabular.OIDBool:
		return physical(format.Boolean, orderBool, appendBool), true
	case tabular.OIDInt2:
		return logical(format.Int32, &format.IntType{BitWidth: 16, IsSigned: true}, deprecated.Int16, intConverter(16)), true
	case tabular.OIDInt4:
		return logical(format.Int32, &format.IntType{BitWidth: 32, IsSigned: true}, deprecated.Int32, intConverter(32)), true
	case tabular.OIDInt8, tabular.OIDOID:
		return logical(format.Int64, &format.IntType{BitWidth: 64, IsSigned: true}, deprecated.Int64, intConverter(64)), true
	case tabular.OIDFloat4:
		return physical(format.Float, orderFloat, appendFloat), true
	case tabular.OIDFloat8:
		return physical(format.Double, orderDouble, appendDouble), true
	case tabular.OIDBytea:
		return physical(format.ByteArray, orderBytes, appendBytea), true
	case tabular.OIDUUID:
		t := physical(format.FixedLenByteArray, orderFixed, appendUUID)
		t.schema.TypeLength.Set(16)
		t.schema.LogicalType.Value = &format.UUIDType{}
		return t, true
	}
	return columnType{}, false
}

func timeType(oid uint32) columnType {
	micros := format.TimeUnit{Value: &format.MicroSeconds{}}
	switch oid {
	case tabular.OIDDate:
		return logical(format.Int32, &format.DateType{}, deprecated.Date, appendDate)
	case tabular.OIDTimestampTZ:
		return logical(format.Int64, &format.TimestampType{IsAdjustedToUTC: true, Unit: micros}, deprecated.TimestampMicros, appendInstant)
	}
	// The older annotations of times mean UTC, so that local ones go without.
	if oid == tabular.OIDTime {
		t := physical(format.Int64, orderInt64, appendTime)
		t.schema.LogicalType.Value = &format.TimeType{Unit: micros}
		return t
	}
	t := physical(format.Int64, orderInt64, appendLocalTime)
	t.schema.LogicalType.Value = &format.TimestampType{Unit: micros}
	return t
}

// numericType is a DECIMAL as wide as the type says, or else as the field's
// declared decimals do, or else text.
func numericType(f *tabular.Field) columnType {
	precision, scale := decimalShape(f)
	if precision == 0 {
		return text(appendNumericText)
	}
	kind, order := format.FixedLenByteArray, orderSigned
	switch {
	case precision <= 9:
		kind, order = format.Int32, orderInt32
	case precision <= 18:
		kind, order = format.Int64, orderInt64
	}
	t := logical(kind, &format.DecimalType{Scale: int32(scale), Precision: int32(precision)}, deprecated.Decimal, decimalConverter(precision, scale))
	t.order = order
	t.schema.Precision.Set(int32(precision))
	t.schema.Scale.Set(int32(scale))
	if kind == format.FixedLenByteArray {
		t.schema.TypeLength.Set(16)
	}
	return t
}

// maxPrecision is how many digits fit into the widest DECIMAL that readers know.
const maxPrecision = 38

// decimalShape is 0, 0 when no DECIMAL holds the column's values. PostgreSQL
// allows numeric(3,5), which is 0.00999 at most, and numeric(3,-2), 99900.
func decimalShape(f *tabular.Field) (precision, scale int) {
	precision, scale = f.Precision, f.Scale
	if scale < 0 {
		precision, scale = precision-scale, 0
	}
	precision = max(precision, scale)
	if f.Precision > 0 && precision <= maxPrecision {
		return precision, scale
	}
	scale = f.Decimals
	if f.Kind == tabular.Percent {
		scale += 2 // decimals count digits of the percentage, the value is a fraction
	}
	if f.Decimals < 0 || scale > maxPrecision || f.Kind == tabular.Integer || f.Kind == tabular.Plain {
		return 0, 0
	}
	return maxPrecision, scale
}

func text(convert converter) columnType {
	return logical(format.ByteArray, &format.StringType{}, deprecated.UTF8, convert)
}

// logical is a type with both annotations, the present and the older one.
func logical(kind format.Type, value format.LogicalTypeValue, old deprecated.ConvertedType, convert converter) columnType {
	order := orderBytes
	switch kind {
	case format.Int32:
		order = orderInt32
	case format.Int64:
		order = orderInt64
	}
	t := physical(kind, order, convert)
	t.schema.LogicalType.Value = value
	t.schema.ConvertedType.Set(old)
	return t
}

func physical(kind format.Type, order order, convert converter) columnType {
	t := columnType{order: order, convert: convert}
	t.schema.Type.Set(kind)
	return t
}
