package tabular

import "unicode/utf8"

// oidBox is the one type of PostgreSQL's own whose arrays have another delimiter
// (pg_type.typdelim).
const oidBox = 603

// AppendArrayJSON adds an array in PostgreSQL's text, such as {1,NULL,"a b"} or
// {{1,2},{3,4}}, as JSON. elem is the type of the elements ([Column].Elem):
//
//   - integers, numerics and floats are numbers with exactly their digits; NaN
//     and the infinities are strings;
//   - booleans are true and false, NULL is null, json and jsonb are themselves
//     without white space;
//   - timestamptz is RFC 3339 and timestamp the same without an offset, where
//     that can be; all else is a string of PostgreSQL's text.
//
// bounds reports that the first index is not 1, as in [2:3]={5,6}: JSON has no
// place for it. ok is false, and nothing is added, when v is no such array, or not
// UTF-8. It allocates nothing but room in dst.
func AppendArrayJSON(dst, v []byte, elem uint32) (out []byte, bounds, ok bool) {
	if !utf8.Valid(v) {
		return dst, false, false
	}
	rest := v
	if len(v) > 0 && v[0] == '[' {
		if rest, bounds = afterBounds(v); !bounds {
			return dst, false, false
		}
	}
	a := arrayReader{v: rest, elem: elem, delimiter: ','}
	if elem == oidBox {
		a.delimiter = ';'
	}
	if out, ok = a.appendAll(dst); !ok {
		return dst, false, false
	}
	return out, bounds, true
}

// afterBounds is what follows [1:2][-3:4]= at the start of v.
func afterBounds(v []byte) (rest []byte, ok bool) {
	for len(v) > 0 && v[0] == '[' {
		v = v[1:]
		for _, end := range []byte(":]") {
			if len(v) > 0 && v[0] == '-' {
				v = v[1:]
			}
			n := digits(v)
			if n == 0 || n == len(v) || v[n] != end {
				return nil, false
			}
			v = v[n+1:]
		}
	}
	if len(v) == 0 || v[0] != '=' {
		return nil, false
	}
	return v[1:], true
}

type arrayReader struct {
	v         []byte
	at        int
	elem      uint32
	delimiter byte
}

func (a *arrayReader) peek() byte {
	if a.at < len(a.v) {
		return a.v[a.at]
	}
	return 0
}

func (a *arrayReader) appendAll(dst []byte) ([]byte, bool) {
	if string(a.v) == "{}" {
		return append(dst, "[]"...), true
	}
	depth := 0
	for {
		for a.peek() == '{' {
			dst = append(dst, '[')
			a.at++
			depth++
		}
		var ok bool
		if depth == 0 {
			return dst, false
		}
		if dst, ok = a.appendElement(dst); !ok {
			return dst, false
		}
		for depth > 0 && a.peek() == '}' {
			dst = append(dst, ']')
			a.at++
			depth--
		}
		if depth == 0 {
			return dst, a.at == len(a.v)
		}
		if a.peek() != a.delimiter {
			return dst, false
		}
		dst = append(dst, ',')
		a.at++
	}
}

func (a *arrayReader) appendElement(dst []byte) ([]byte, bool) {
	if a.peek() == '"' {
		return a.appendQuotedElement(dst)
	}
	start := a.at
	for a.at < len(a.v) {
		switch a.v[a.at] {
		case a.delimiter, '}':
			text := a.v[start:a.at]
			if string(text) == "NULL" {
				return append(dst, "null"...), true
			}
			if len(text) == 0 {
				return dst, false
			}
			return appendScalarJSON(dst, text, a.elem)
		case '{', '"', '\\':
			return dst, false
		}
		a.at++
	}
	return dst, false
}

// appendQuotedElement reads "…", where a backslash stands before quotes and
// backslashes.
func (a *arrayReader) appendQuotedElement(dst []byte) ([]byte, bool) {
	begin := len(dst)
	a.at++
	for start := a.at; a.at < len(a.v); a.at++ {
		switch a.v[a.at] {
		case '"':
			dst = append(dst, a.v[start:a.at]...)
			a.at++
			return convertTail(dst, begin, a.elem)
		case '\\':
			dst = append(dst, a.v[start:a.at]...)
			a.at++
			start = a.at
		}
	}
	return dst, false
}

// convertTail replaces the plain text behind begin by its JSON, which is built
// behind it first.
func convertTail(dst []byte, begin int, elem uint32) ([]byte, bool) {
	end := len(dst)
	dst, ok := appendScalarJSON(dst, dst[begin:end:end], elem)
	n := copy(dst[begin:], dst[end:])
	return dst[:begin+n], ok
}

// appendScalarJSON adds one value that is not NULL.
func appendScalarJSON(dst, v []byte, oid uint32) ([]byte, bool) {
	switch oid {
	case OIDBool:
		return AppendJSONBool(dst, v)
	case OIDInt2, OIDInt4, OIDInt8, OIDOID, OIDNumeric, OIDFloat4, OIDFloat8:
		return AppendJSONNumber(dst, v)
	case OIDJSON, OIDJSONB:
		return AppendJSON(dst, v)
	case OIDTimestampTZ:
		if out, ok := AppendRFC3339(append(dst, '"'), v); ok {
			return append(out, '"'), true
		}
	case OIDTimestamp:
		if out, ok := AppendLocalTime(append(dst, '"'), v); ok {
			return append(out, '"'), true
		}
	}
	return AppendJSONString(dst, v), true
}

// AppendJSONBool adds true or false for PostgreSQL's t and f (or true and
// false). It reports false, and adds nothing, for all else.
func AppendJSONBool(dst, v []byte) ([]byte, bool) {
	switch string(v) {
	case "t", "true":
		return append(dst, "true"...), true
	case "f", "false":
		return append(dst, "false"...), true
	}
	return dst, false
}
