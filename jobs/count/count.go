// Package count puts numbers of things into words: "1 attempt", "2 attempts". All
// messages, pages and mails count with it, so that none says "1 attempts". It knows
// the regular nouns of this product; a word it gets wrong is a reason to choose
// another word.
package count

import (
	"fmt"
	"strings"
)

// Number is what things are counted with.
type Number interface {
	~int | ~int32 | ~int64 | ~uint64
}

// Of is a number of things with its noun, which is given in the singular.
func Of[N Number](n N, noun string) string { return fmt.Sprintf("%d %s", n, Noun(n, noun)) }

// Noun is the noun alone, for a number that is written apart or in another form.
func Noun[N Number](n N, noun string) string {
	switch {
	case n == 1:
		return noun
	case strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "ey") && !strings.HasSuffix(noun, "ay"):
		return strings.TrimSuffix(noun, "y") + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"):
		return noun + "es"
	}
	return noun + "s"
}

// Verb is the form of a verb that goes with a number of things.
func Verb[N Number](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
