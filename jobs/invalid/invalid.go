// Package invalid describes bad input: which field, which value, what is wrong
// and what to do. Everything that a user sends (a job's payload, a report's
// parameter, an invoice document) is refused with an [Error], so that the
// command line, the API and the pages can show the same list.
package invalid

import (
	"errors"
	"fmt"
	"strings"
)

// maxValue bounds how much of a refused value is repeated back, in runes.
const maxValue = 80

// Problem is one refused field.
type Problem struct {
	// Field is the path of the field, such as "params.from" or "lines[2].rate".
	Field string `json:"field"`
	// Value is what was given, shortened; empty when the field was missing.
	Value string `json:"value,omitempty"`
	// Message says what is wrong and what would be right.
	Message string `json:"message"`
}

// String is the problem as one line for a person.
func (p Problem) String() string {
	if p.Value == "" {
		return p.Field + ": " + p.Message
	}
	return fmt.Sprintf("%s: %q %s", p.Field, p.Value, p.Message)
}

// Error is a list of problems, in the order in which they were found. The zero
// value is an empty list. It is not safe for concurrent use.
type Error struct {
	Problems []Problem
}

// Error joins the problems, one per line when there is more than one.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Add records a problem. A long value is shortened; a secret value must not be
// given at all.
func (e *Error) Add(field, value, format string, args ...any) {
	e.Problems = append(e.Problems, Problem{Field: field, Value: shorten(value), Message: fmt.Sprintf(format, args...)})
}

// OrNil is e when there is a problem and nil (not a nil *Error in an error)
// when there is none.
func (e *Error) OrNil() error {
	if e == nil || len(e.Problems) == 0 {
		return nil
	}
	return e
}

// New is an error about a single field.
func New(field, value, format string, args ...any) error {
	e := new(Error)
	e.Add(field, value, format, args...)
	return e
}

func shorten(s string) string {
	r := []rune(s)
	if len(r) <= maxValue {
		return s
	}
	return string(r[:maxValue-1]) + "…"
}

// Join is one error with the problems of all that are an [*Error], or the first
// other error when there is one; nil when all are nil.
func Join(errs ...error) error {
	all := new(Error)
	for _, err := range errs {
		var one *Error
		switch {
		case err == nil:
		case errors.As(err, &one):
			all.Problems = append(all.Problems, one.Problems...)
		default:
			return err
		}
	}
	return all.OrNil()
}
