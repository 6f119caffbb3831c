package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/secret"
)

// Task is a request that was checked: what will be made, and how.
type Task struct {
	// Key names the export inside its tenant and kind. The same key is the same document. A plain job has none.
	Key string
	// Title is what people read in lists.
	Title string
	// Check, which may be nil, is what can only be checked by asking others, such as
	// a database for the types of a report's columns. It is called at dispatch.
	Check func(ctx context.Context) error
	// Render reads and writes. It is called once per attempt, never while another call of the same
	// attempt runs, but two attempts may run at once. It must stop soon when its context ends.
	Render func(ctx context.Context, r *Run) error
	// Do is the work of a plain job, which has no Key and no Render; see [Handle].
	Do Handler
}

// Payload is what a request asks of its kind.
type Payload struct {
	Version int // of Body
	Tenant  string
	Body    json.RawMessage
}

// Kind is a kind of job, registered by its name.
type Kind struct {
	Name string
	// Version is the newest version of the payload, from 1. New jobs get it.
	Version int
	// Decode checks a payload of any version up to Version. It is called at dispatch, where its error
	// is what the user sees (an [*invalid.Error] where fields are at fault), and again by the worker.
	Decode func(p Payload) (Task, error)
	// Middleware is around the work, the first outermost.
	Middleware []Middleware
	// Secret are the paths of the payload's fields that are sealed wherever the payload is kept, such as
	// "password" or "items.*.token": names with dots between them, * for every element and member. Decode
	// sees them as they were sent; the task's key and title must not hold them. See [Registry.WithKeys].
	Secret []string
}

// Registry knows the kinds. It is built once and safe for concurrent use.
type Registry struct {
	kinds map[string]Kind
	keys  *secret.Keyring // nil for none
}

// NewRegistry registers kinds. Two of the same name, or one without a name,
// version or decoder, are a mistake of the program.
func NewRegistry(kinds ...Kind) (*Registry, error) {
	r := &Registry{kinds: make(map[string]Kind, len(kinds))}
	for _, k := range kinds {
		if k.Name == "" || k.Version < 1 || k.Decode == nil {
			return nil, fmt.Errorf("register kind %q: it needs a name, a version and a decoder", k.Name)
		}
		if _, twice := r.kinds[k.Name]; twice {
			return nil, fmt.Errorf("register kind %q: it is registered already", k.Name)
		}
		if err := secret.CheckPaths(k.Secret); err != nil {
			return nil, fmt.Errorf("register kind %q: %w", k.Name, err)
		}
		r.kinds[k.Name] = k
	}
	return r, nil
}

// Names lists the kinds in order.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.kinds))
	for name := range r.kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// kind finds a kind; the error names those that exist.
func (r *Registry) kind(name string) (Kind, error) {
	k, ok := r.kinds[name]
	if !ok {
		return Kind{}, invalid.New("kind", name, "is not a kind of job; use one of %s", strings.Join(r.Names(), ", "))
	}
	return k, nil
}

// decode reads a stored payload. A newer version than this program knows was
// written by a newer Fenceline: an older worker must leave it alone.
// What it knows nothing of is not the job's failure: [errNotForUs].
func (r *Registry) decode(name string, p Payload) (Kind, Task, error) {
	k, err := r.kind(name)
	if err != nil {
		return Kind{}, Task{}, fmt.Errorf("%w: %w", errNotForUs, err)
	}
	if p.Version > k.Version {
		return k, Task{}, fmt.Errorf("%w: job of kind %s has payload version %d, this worker knows %d at most: update it", errNotForUs, name, p.Version, k.Version)
	}
	p, hidden, err := r.open(name, p)
	if err != nil {
		return k, Task{}, fmt.Errorf("%w: %w", errNotForUs, err)
	}
	task, err := k.Decode(p)
	if err != nil {
		return k, Task{}, &permanentError{hidden.Error(err)}
	}
	return k, discreet(task, hidden), nil
}

// errNotForUs means that another worker, a newer one, or one with more kinds or keys,
// must run the job: it waits, with the reason shown.
var errNotForUs = errors.New("this worker cannot run the job")

// jsonName is what people who write JSON call a type.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a number"
}

// jsonKind is the same for the names that the decoder has.
func jsonKind(name string) string {
	switch name {
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + name
}

// strictJSON decodes one JSON value into v and refuses unknown fields and
// anything after the value. The error names the field under prefix.
func strictJSON(raw []byte, v any, prefix string) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return invalid.New(prefix, "", "holds more than one JSON value")
		}
		return nil
	}
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return bad
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		field := wrong.Field
		for _, embedded := range []string{"Choice.", "ScheduleOptions."} { // no names of JSON
			field = strings.TrimPrefix(field, embedded)
		}
		if strings.HasPrefix(wrong.Value, "number ") { // of the right type
			return invalid.New(prefix+"."+field, strings.TrimPrefix(wrong.Value, "number "), "is no number that fits here")
		}
		return invalid.New(prefix+"."+field, "", "must be %s, not %s", jsonName(wrong.Type), jsonKind(wrong.Value))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return invalid.New(prefix+"."+strings.Trim(name, `"`), "", "is not a known field")
	}
	return invalid.New(prefix, "", "is not valid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
}
