package jobs

import (
	"reflect"
	"slices"
	"strings"
)

// secretPaths are the paths (see [Kind.Secret]) of the fields of a struct type
// that have the tag `fenceline:"secret"`, by their names in JSON: in structs inside
// it, in lists and in maps, too. A type that holds itself is sealed as a whole where it comes
// again, if there is a secret in it; a name with a dot, which a path cannot say, becomes *, which
// seals its neighbours with it.
func secretPaths(t reflect.Type) []string {
	w := secretWalk{open: map[reflect.Type]bool{}}
	w.inside(t, nil)
	slices.Sort(w.paths)
	return slices.Compact(w.paths)
}

type secretWalk struct {
	open  map[reflect.Type]bool // the structs that the walk is inside of
	paths []string
}

// inside walks through the type of the value at a path.
func (w *secretWalk) inside(t reflect.Type, at []string) {
	switch t.Kind() {
	case reflect.Pointer:
		w.inside(t.Elem(), at)
	case reflect.Slice, reflect.Array, reflect.Map:
		w.inside(t.Elem(), append(at[:len(at):len(at)], "*"))
	case reflect.Struct:
		if w.open[t] {
			if len(at) > 0 && holdsSecret(t, map[reflect.Type]bool{}) {
				w.add(at)
			}
			return
		}
		w.open[t] = true
		for i := range t.NumField() {
			w.field(t.Field(i), at)
		}
		delete(w.open, t)
	}
}

func (w *secretWalk) field(f reflect.StructField, at []string) {
	name, ok, flat := jsonField(f)
	if !ok {
		return
	}
	if !flat {
		at = append(at[:len(at):len(at)], name)
	}
	switch {
	case !isSecret(f):
		w.inside(f.Type, at)
	case flat: // it has no place of its own: all that is in it
		w.all(f.Type, at)
	default:
		w.add(at)
	}
}

// all adds every field of an embedded struct.
func (w *secretWalk) all(t reflect.Type, at []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		name, ok, flat := jsonField(t.Field(i))
		switch {
		case ok && flat:
			w.all(t.Field(i).Type, at)
		case ok:
			w.add(append(at[:len(at):len(at)], name))
		}
	}
}

func (w *secretWalk) add(at []string) { w.paths = append(w.paths, strings.Join(at, ".")) }

func isSecret(f reflect.StructField) bool {
	return slices.Contains(strings.Split(f.Tag.Get("fenceline"), ","), "secret")
}

// jsonField is how encoding/json sees a field: its name, whether it sees it at
// all, and whether the fields inside it stand in its place.
func jsonField(f reflect.StructField) (name string, ok, flat bool) {
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "", false, false
	}
	name, _, _ = strings.Cut(tag, ",")
	inner := f.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	if f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
		return "", true, true
	}
	if !f.IsExported() {
		return "", false, false
	}
	if name == "" {
		name = f.Name
	}
	if strings.Contains(name, ".") {
		name = "*"
	}
	return name, true, false
}

// holdsSecret reports whether a marked field is anywhere inside a type.
func holdsSecret(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsSecret(t.Elem(), seen)
	case reflect.Struct:
	default:
		return false
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if _, ok, _ := jsonField(f); ok && (isSecret(f) || holdsSecret(f.Type, seen)) {
			return true
		}
	}
	return false
}
