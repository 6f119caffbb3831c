package secret

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// Hidden is what stands in a text where a secret was.
const Hidden = "•••"

// shortest is the shortest value, in bytes, that is looked for in texts: shorter
// ones are in every other sentence.
const shortest = 4

// Redactor takes secrets out of texts and errors. It is safe for concurrent use.
// The zero value takes out nothing.
type Redactor struct {
	texts *strings.Replacer
	plain []string // what texts looks for
	names []string // of the secret fields
}

// NewRedactor takes out the values of these fields, and of what is inside them,
// in the ways in which Go and JSON quote them.
func NewRedactor(fields []Field) Redactor {
	var r Redactor
	for _, f := range fields {
		var place []string
		if json.Unmarshal([]byte(f.Path), &place) == nil {
			if name := lastName(place); name != "" {
				r.names = append(r.names, name)
			}
		}
		v, err := decode(json.RawMessage(f.JSON))
		if err != nil {
			continue
		}
		eachLeaf(v, func(text string) {
			for _, form := range []string{text, unquoted(strconv.Quote(text)), unquoted(strconv.QuoteToASCII(text)), unquoted(encode(text))} {
				if len(form) >= shortest && !slices.Contains(r.plain, form) {
					r.plain = append(r.plain, form)
				}
			}
		})
	}
	if len(r.plain) == 0 {
		return r
	}
	slices.SortFunc(r.plain, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // the longest first: one may be a part of another
	pairs := make([]string, 0, 2*len(r.plain))
	for _, text := range r.plain {
		pairs = append(pairs, text, Hidden)
	}
	r.texts = strings.NewReplacer(pairs...)
	return r
}

// lastName is the last part of a place that is no number of a list.
func lastName(place []string) string {
	for i := len(place) - 1; i >= 0; i-- {
		if _, err := strconv.Atoi(place[i]); err != nil {
			return place[i]
		}
	}
	return ""
}

func unquoted(s string) string { return s[1 : len(s)-1] }

func eachLeaf(v any, fn func(string)) {
	switch v := v.(type) {
	case string:
		fn(v)
	case json.Number:
		fn(v.String())
	case []any:
		for _, item := range v {
			eachLeaf(item, fn)
		}
	case map[string]any:
		for _, item := range v {
			eachLeaf(item, fn)
		}
	}
}

// Text is s without the secrets.
func (r Redactor) Text(s string) string {
	if r.texts == nil {
		return s
	}
	return r.texts.Replace(s)
}

// Empty reports whether there is nothing to take out.
func (r Redactor) Empty() bool { return len(r.names) == 0 && r.texts == nil }

// Holds reports whether a secret is in s.
func (r Redactor) Holds(s string) bool { return r.Text(s) != s }

// Error is err without the secrets in its text; nil stays nil. An [*invalid.Error]
// in it is one that repeats no value of a secret field. errors.Is and errors.As
// find what they found before, but an error that As finds may have its secrets
// still: print the outermost.
func (r Redactor) Error(err error) error {
	if err == nil || r.Empty() {
		return err
	}
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return r.problems(bad)
	}
	if !r.Holds(err.Error()) {
		return err
	}
	return &redacted{text: r.Text(err.Error()), err: err}
}

type redacted struct {
	text string
	err  error
}

func (e *redacted) Error() string { return e.text }
func (e *redacted) Unwrap() error { return e.err }

var fieldNames = regexp.MustCompile(`[^.\[\]]+`)

func (r Redactor) problems(bad *invalid.Error) error {
	clean := &invalid.Error{Problems: slices.Clone(bad.Problems)}
	for i, p := range clean.Problems {
		isSecret := slices.ContainsFunc(fieldNames.FindAllString(p.Field, -1), func(name string) bool {
			return slices.ContainsFunc(r.names, func(secret string) bool { return strings.EqualFold(name, secret) })
		})
		if isSecret || r.Holds(p.Value) || r.begins(p.Value) {
			clean.Problems[i].Value = ""
		}
		clean.Problems[i].Field, clean.Problems[i].Message = r.Text(p.Field), r.Text(p.Message)
	}
	return clean
}

// begins is true for a value that was shortened and begins a secret.
func (r Redactor) begins(value string) bool {
	head, short := strings.CutSuffix(value, "…")
	return short && slices.ContainsFunc(r.plain, func(text string) bool { return strings.Contains(text, head) })
}
