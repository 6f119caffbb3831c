package invalid

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Twice refuses every field that stands twice in one object of a JSON text, at
// any depth, by its path: decoders keep the last one and lose the other without a
// word. What is no JSON is for the decoder to refuse; Twice stops there.
func Twice(raw []byte) error {
	w := twiceWalk{dec: json.NewDecoder(bytes.NewReader(raw))}
	w.value("")
	return w.refused.OrNil()
}

type twiceWalk struct {
	dec     *json.Decoder
	refused Error
}

// value passes over one value and reports whether it could be read.
func (w *twiceWalk) value(path string) bool {
	tok, err := w.dec.Token()
	if err != nil {
		return false
	}
	switch tok {
	case json.Delim('['):
		for n := 0; w.dec.More(); n++ {
			if !w.value(fmt.Sprintf("%s[%d]", path, n)) {
				return false
			}
		}
	case json.Delim('{'):
		if !w.object(path) {
			return false
		}
	default:
		return true
	}
	_, err = w.dec.Token() // the closing bracket or brace
	return err == nil
}

func (w *twiceWalk) object(path string) bool {
	if path != "" {
		path += "."
	}
	seen := map[string]bool{}
	for w.dec.More() {
		tok, err := w.dec.Token()
		name, isName := tok.(string)
		if err != nil || !isName {
			return false
		}
		if seen[name] {
			w.refused.Add(path+name, "", "is given twice")
		}
		seen[name] = true
		if !w.value(path + name) {
			return false
		}
	}
	return true
}
