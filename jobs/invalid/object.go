package invalid

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
)

// Object reads a JSON object into the values of its fields, which are pointers.
// Unknown fields, fields given twice, values of another type and anything behind
// the object are refused by name, as an [*Error]. prefix comes before the names,
// such as "jobs[3]."; what is the name of the whole, for when it is no object.
func Object(raw []byte, what, prefix string, fields map[string]any) error {
	notObject := New(what, "", "must be one JSON object in UTF-8")
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return notObject
	}
	refused, seen := new(Error), map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		name, isName := tok.(string)
		var value json.RawMessage
		if err != nil || !isName || dec.Decode(&value) != nil {
			return notObject
		}
		into, known := fields[name]
		switch {
		case !known:
			refused.Add(prefix+name, "", "is not a known field; there are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case seen[name]:
			refused.Add(prefix+name, "", "is given twice")
		case json.Unmarshal(value, into) != nil:
			refused.Add(prefix+name, string(value), "must be %s", kindOf(into))
		}
		seen[name] = true
	}
	if _, err := dec.Token(); err != nil {
		return notObject
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return New(what, "", "holds more than one JSON value")
	}
	return refused.OrNil()
}

// kindOf is what people who write JSON call the type of a field.
func kindOf(into any) string {
	switch into.(type) {
	case *bool, **bool:
		return "true or false"
	case *int, **int, *int64, **int64:
		return "a whole number"
	case *[]string:
		return "a list of texts"
	case *[]json.RawMessage, *[][]json.RawMessage:
		return "a list"
	}
	return "text"
}
