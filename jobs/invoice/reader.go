package invoice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/invalid"
)

const (
	maxBytes    = 1 << 20
	maxProblems = 100 // listed one by one; the rest are counted
	rootField   = "document"
)

// reader walks the tokens of one JSON text, and collects every problem that it
// meets under the path of the field. A value that is refused reads as the zero
// value, so that reading can go on.
type reader struct {
	dec      *json.Decoder
	problems invalid.Error
	unlisted int
	broken   error
}

// newReader refuses what is too large or not JSON at all, so that the tokens
// that follow can be trusted to be well formed.
func newReader(raw []byte) (*reader, error) {
	if len(raw) > maxBytes {
		return nil, invalid.New(rootField, "", "is %d bytes long; at most %d (1 MiB) are taken", len(raw), maxBytes)
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff")) // RFC 8259, section 8.1: may be ignored
	if !utf8.Valid(raw) {
		return nil, invalid.New(rootField, "", "is not UTF-8 text: the first wrong byte is in %s", position(raw, validPrefix(raw)))
	}
	if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil {
		return nil, notJSON(raw, err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return &reader{dec: dec}, nil
}

func notJSON(raw []byte, err error) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return invalid.New(rootField, "", "is empty; it must be one JSON object")
	}
	at := len(raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = int(syntax.Offset)
	}
	return invalid.New(rootField, "", "is not JSON: %s: %v", position(raw, at), err)
}

// position names an offset as a person counts: line and column from 1.
func position(raw []byte, at int) string {
	before := raw[:min(at, len(raw))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", line, max(column, 1))
}

func validPrefix(raw []byte) int {
	n := 0
	for n < len(raw) {
		r, size := utf8.DecodeRune(raw[n:])
		if r == utf8.RuneError && size == 1 {
			return n + 1
		}
		n += size
	}
	return n
}

// add records a problem, or only counts it when enough are listed.
func (r *reader) add(field, value, format string, args ...any) {
	if len(r.problems.Problems) >= maxProblems {
		r.unlisted++
		return
	}
	r.problems.Add(field, value, format, args...)
}

// count is how many problems were met so far.
func (r *reader) count() int { return len(r.problems.Problems) + r.unlisted }

func (r *reader) err() error {
	if r.broken != nil {
		return fmt.Errorf("read invoice document: %w", r.broken)
	}
	if r.unlisted > 0 {
		r.problems.Add(rootField, "", "has %d more problems, not listed here", r.unlisted)
	}
	return r.problems.OrNil()
}

func (r *reader) next() json.Token {
	tok, err := r.dec.Token()
	if err != nil && r.broken == nil {
		r.broken = err // cannot be: newReader has seen the whole text
	}
	return tok
}

func (r *reader) more() bool { return r.broken == nil && r.dec.More() }

// skip passes over the value that tok begins.
func (r *reader) skip(tok json.Token) {
	depth := 0
	for {
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 || r.broken != nil {
			return
		}
		tok = r.next()
	}
}

// refuse records that a value is of the wrong kind and passes over it.
func (r *reader) refuse(path string, tok json.Token, want string) {
	switch v := tok.(type) {
	case json.Delim:
		kind := "an object"
		if v == '[' {
			kind = "a list"
		}
		r.add(path, "", "is %s; it must be %s", kind, want)
		r.skip(tok)
	case string:
		r.add(path, v, "is text; it must be %s", want)
	case nil:
		r.add(path, "", "is null; it must be %s", want)
	default:
		r.add(path, fmt.Sprint(v), "must be %s", want)
	}
}

// field is one field of an object and how to read it. read gets the first token
// of the value, which is never null: null is the same as leaving the field out.
type field struct {
	name     string
	required bool
	read     func(path string, tok json.Token)
}

// object reads an object field by field; unknown, doubled and missing fields
// are problems. The fields of the document itself have no path before them.
func (r *reader) object(path string, tok json.Token, fields []field) {
	if tok != json.Delim('{') {
		r.refuse(pathOrRoot(path), tok, "an object")
		return
	}
	seen := make([]bool, len(fields))
	given := make([]bool, len(fields))
	for r.more() {
		key, _ := r.next().(string)
		at, value := join(path, key), r.next()
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
		switch {
		case i < 0:
			r.add(at, "", "is not a field that is known here; known are %s", names(fields))
			r.skip(value)
		case seen[i]:
			r.add(at, "", "is given twice")
			r.skip(value)
		default:
			seen[i] = true
			if given[i] = value != nil; given[i] {
				fields[i].read(at, value)
			}
		}
	}
	r.next() // the closing brace
	for i, f := range fields {
		if f.required && !given[i] {
			r.add(join(path, f.name), "", "is missing")
		}
	}
}

// list reads a list of at most limit items; what is beyond is a problem.
func (r *reader) list(path string, tok json.Token, limit int, read func(path string, tok json.Token)) {
	if tok != json.Delim('[') {
		r.refuse(path, tok, "a list")
		return
	}
	n := 0
	for ; r.more(); n++ {
		item := r.next()
		if n < limit {
			read(index(path, n), item)
			continue
		}
		r.skip(item)
	}
	r.next() // the closing bracket
	switch {
	case n == 0:
		r.add(path, "", "is empty; it needs at least one item")
	case n > limit:
		r.add(path, "", "has %d items; at most %d are taken", n, limit)
	}
}

// join extends a path by a key. A key that is no plain name is quoted and
// shortened: it came from outside.
func join(path, key string) string {
	if !plainName(key) {
		if r := []rune(key); len(r) > 40 {
			key = string(r[:39]) + "…"
		}
		return pathOrRoot(path) + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func plainName(key string) bool {
	for _, c := range key {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return key != "" && len(key) <= 40
}

func pathOrRoot(path string) string {
	if path == "" {
		return rootField
	}
	return path
}

func names(fields []field) string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return strings.Join(out, ", ")
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
