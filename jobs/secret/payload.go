package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// Name is the reserved name. A sealed value inside JSON is an object with this
// one member, whose value is what [Keyring.Seal] answered; shown to people, the
// value is true.
const Name = "$sealed"

// Context is the context for [Keyring.Seal] that a list of parts makes: two
// lists that differ give contexts that differ.
func Context(parts ...string) string {
	raw, err := json.Marshal(parts)
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return string(raw)
}

// Field is a value that is secret, at its place in a JSON text.
type Field struct {
	Path string // its members and numbers, as one text that no other place has
	JSON string // the value
}

// Sealed is a JSON text before and after its secret values were sealed.
type Sealed struct {
	// JSON has the values sealed.
	JSON json.RawMessage
	// Masked has {"$sealed":true} in their places: it says nothing about them.
	Masked json.RawMessage
	// Fields are the values themselves, in the order of their places.
	Fields []Field
}

// CheckPaths refuses what is no list of paths: names with dots between them,
// where * stands for every element of a list and every member of an object.
func CheckPaths(paths []string) error {
	for _, p := range paths {
		if p == "" || slices.Contains(strings.Split(p, "."), "") {
			return fmt.Errorf("%q is not the path of a secret field: write names with dots between them, such as items.*.token", p)
		}
	}
	return nil
}

// Find finds the values at the paths, and what the text looks like without them,
// sealing nothing: JSON is nil. Names match in capitals or small letters, as they
// do when encoding/json reads them into a struct. It refuses a text that has the
// reserved name anywhere with an [*invalid.Error].
func Find(raw json.RawMessage, paths []string) (Sealed, error) {
	return walk(raw, paths, nil)
}

// SealJSON is [Find] that also seals each value with the first key, bound to
// where, which says whose text it is, and to its place in the text.
func (k *Keyring) SealJSON(where string, raw json.RawMessage, paths []string) (Sealed, error) {
	if err := k.Ready(); err != nil {
		return Sealed{}, err
	}
	return walk(raw, paths, func(path, plain string) string { return k.Seal(Context(where, path), plain) })
}

func walk(raw json.RawMessage, paths []string, seal func(path, plain string) string) (Sealed, error) {
	v, err := decode(raw)
	if err != nil {
		return Sealed{}, err
	}
	if err := refuseReserved(v, nil); err != nil {
		return Sealed{}, err
	}
	patterns := make([][]string, len(paths))
	for i, p := range paths {
		patterns[i] = strings.Split(p, ".")
	}
	var s Sealed
	sealed := replace(v, nil, func(at []string, v any) (any, bool) {
		if !slices.ContainsFunc(patterns, func(p []string) bool { return matches(p, at) }) {
			return nil, false
		}
		f := Field{Path: Context(at...), JSON: encode(v)}
		s.Fields = append(s.Fields, f)
		if seal == nil {
			return map[string]any{Name: true}, true
		}
		return map[string]any{Name: seal(f.Path, f.JSON)}, true
	})
	s.JSON = json.RawMessage(encode(sealed))
	s.Masked = Mask(s.JSON)
	if seal == nil {
		s.JSON = nil
	}
	return s, nil
}

// OpenJSON opens every sealed value of a text that SealJSON made for where, by
// whichever paths, and answers the text as it was and the values. The error says
// which key is missing; see [Keyring.Open].
func (k *Keyring) OpenJSON(where string, raw json.RawMessage) (json.RawMessage, []Field, error) {
	if !HasSealed(raw) {
		return raw, nil, nil
	}
	v, err := decode(raw)
	if err != nil {
		return nil, nil, err
	}
	var fields []Field
	var failed error
	plain := replace(v, nil, func(at []string, v any) (any, bool) {
		text, is := sealedText(v)
		if !is || failed != nil {
			return nil, is
		}
		f := Field{Path: Context(at...)}
		opened, err := k.Open(Context(where, f.Path), text)
		if err != nil {
			failed = err
			return nil, true
		}
		f.JSON = string(opened)
		fields = append(fields, f)
		return json.RawMessage(opened), true
	})
	if failed != nil {
		return nil, nil, failed
	}
	return json.RawMessage(encode(plain)), fields, nil
}

// ResealJSON seals again with the first key whatever another key has sealed, and
// answers how many values that were; with 0 the text is the given one.
func (k *Keyring) ResealJSON(where string, raw json.RawMessage) (json.RawMessage, int, error) {
	if err := k.Ready(); err != nil {
		return nil, 0, err
	}
	v, err := decode(raw)
	if err != nil {
		return nil, 0, err
	}
	n := 0
	var failed error
	fresh := replace(v, nil, func(at []string, v any) (any, bool) {
		text, is := sealedText(v)
		if name, err := KeyOf(text); !is || failed != nil || err == nil && name == k.First() {
			return v, is
		}
		context := Context(where, Context(at...))
		opened, err := k.Open(context, text)
		if err != nil {
			failed = err
			return v, true
		}
		n++
		return map[string]any{Name: k.Seal(context, string(opened))}, true
	})
	if failed != nil || n == 0 {
		return raw, 0, failed
	}
	return json.RawMessage(encode(fresh)), n, nil
}

// HasSealed reports whether a text may hold a sealed value: quick, and right when it says no.
func HasSealed(raw []byte) bool { return bytes.Contains(raw, []byte(`"`+Name+`"`)) }

// Mask is a text for people: {"$sealed":true} in the place of every sealed value.
func Mask(raw json.RawMessage) json.RawMessage {
	if !HasSealed(raw) {
		return raw
	}
	v, err := decode(raw)
	if err != nil {
		return raw
	}
	masked := replace(v, nil, func(_ []string, v any) (any, bool) {
		_, is := sealedText(v)
		return map[string]any{Name: true}, is
	})
	return json.RawMessage(encode(masked))
}

// sealedText is the text of a sealed value.
func sealedText(v any) (string, bool) {
	m, _ := v.(map[string]any)
	text, is := m[Name].(string)
	return text, is && len(m) == 1
}

// refuseReserved refuses every object with the reserved name: opened later, it
// would be taken for what Fenceline itself has sealed.
func refuseReserved(v any, at []string) error {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if err := refuseReserved(item, append(at, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if name == Name {
				return invalid.New(strings.Join(append(at, name), "."), "", "is a reserved name; where a value was hidden, put the value itself")
			}
			if err := refuseReserved(v[name], append(at, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// matches is true when a place is what a pattern says.
func matches(pattern, at []string) bool {
	return slices.EqualFunc(pattern, at, func(p, name string) bool { return p == "*" || strings.EqualFold(p, name) })
}

// replace copies a decoded text; what fn takes is not looked into any further.
func replace(v any, at []string, fn func(at []string, v any) (any, bool)) any {
	if len(at) > 0 {
		if other, taken := fn(at, v); taken {
			return other
		}
	}
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = replace(item, append(at[:len(at):len(at)], strconv.Itoa(i)), fn)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			object[name] = replace(v[name], append(at[:len(at):len(at)], name), fn)
		}
		return object
	}
	return v
}

func decode(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil { // its text may hold a part of a value
		return nil, invalid.New("payload", "", "is not valid JSON")
	}
	return v, nil
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(raw)
}
