package invoice

import (
	"encoding/json"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// Fields splits a document into the fields of its outermost object without
// reading them, for callers that keep something of their own beside them. It
// refuses, as an [*invalid.Error], what is not one JSON object of at most 1 MiB,
// and a field that is given twice: a map would keep the last one and lose the
// other without a word. What is inside the values is for [Parse] to refuse. The
// values share no memory with raw.
func Fields(raw []byte) (map[string]json.RawMessage, error) {
	r, err := newObjectReader(raw)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for r.more() {
		key, _ := r.next().(string)
		if _, known := fields[key]; known {
			r.add(join("", key), "", "is given twice")
		}
		var value json.RawMessage
		if err := r.dec.Decode(&value); err != nil && r.broken == nil {
			r.broken = err
		}
		fields[key] = value
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return fields, nil
}

// newObjectReader is a reader that has passed the opening brace.
func newObjectReader(raw []byte) (*reader, error) {
	r, err := newReader(raw)
	if err == nil && r.next() != json.Delim('{') {
		err = invalid.New(rootField, "", "must be a JSON object")
	}
	return r, err
}
