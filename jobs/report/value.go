package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Type is what a parameter's values are.
type Type string

// The types of parameters, as a front matter spells them.
const (
	Text      Type = "text"      // any UTF-8 text
	Integer   Type = "integer"   // 64 bits with a sign
	Decimal   Type = "decimal"   // -12.50: digits, no exponent, no NaN
	Boolean   Type = "boolean"   // true or false
	Date      Type = "date"      // 2026-01-31
	Timestamp Type = "timestamp" // RFC 3339 with an offset, or a date: its midnight in UTC
	UUID      Type = "uuid"
	Enum      Type = "enum" // one of Param.Values
	List      Type = "list" // any number of values of Param.Elem, see Definition.Canonical
)

// maxValue bounds a parameter's value, in bytes.
const maxValue = 10_000

// typeRule says how values of a type are checked and bound.
type typeRule struct {
	typ  Type
	cast string // the PostgreSQL type
	want string // what a right value looks like, for messages
	// canonical is the one spelling of a value; false when it is no value.
	canonical func(string) (string, bool)
}

var typeRules = []typeRule{
	{Text, "text", "UTF-8 text", canonicalText},
	{Integer, "int8", "a whole number from -9223372036854775808 to 9223372036854775807", canonicalInteger},
	{Decimal, "numeric", "a number such as 12.50 (a dot, no exponent)", canonicalDecimal},
	{Boolean, "bool", "true or false", canonicalBoolean},
	{Date, "date", "a date such as 2026-01-31", canonicalDate},
	{Timestamp, "timestamptz", "a time such as 2026-01-31T09:30:00+01:00, or a date (midnight UTC)", canonicalTimestamp},
	{UUID, "uuid", "a UUID such as 123e4567-e89b-12d3-a456-426614174000", canonicalUUID},
	{Enum, "text", "", canonicalText},
}

func (t Type) rule() *typeRule {
	i := slices.IndexFunc(typeRules, func(r typeRule) bool { return r.typ == t })
	if i < 0 {
		return nil
	}
	return &typeRules[i]
}

// cast is the PostgreSQL type that a placeholder of the parameter gets.
func (p *Param) cast() string {
	if p.Type == List {
		return p.elem().cast() + "[]"
	}
	return p.Type.rule().cast
}

func typeNames() string {
	var names strings.Builder
	for _, r := range typeRules {
		names.WriteString(string(r.typ) + ", ")
	}
	return names.String() + "list(TYPE)"
}

func typeWords() []string {
	words := []string{string(List)}
	for _, r := range typeRules {
		words = append(words, string(r.typ))
	}
	return words
}

// canonical is the one spelling of the value, or what is wrong with it.
func (p *Param) canonical(value string) (canonical, problem string) {
	if p.Type == List {
		return p.canonicalList(value)
	}
	if len(value) > maxValue {
		return "", fmt.Sprintf("is longer than %d bytes", maxValue)
	}
	rule := p.Type.rule()
	canonical, ok := rule.canonical(value)
	switch {
	case !ok:
		return "", "is not " + rule.want
	case p.Type == Enum && !slices.Contains(p.Values, value):
		return "", "is not one of " + strings.Join(p.Values, ", ") + DidYouMean(value, p.Values)
	}
	return canonical, ""
}

// want describes a right value.
func (p *Param) want() string {
	if p.Type == List {
		return "a list such as a,b or [\"a\",\"b\"], each " + p.elem().want()
	}
	if p.Type == Enum {
		return "one of " + strings.Join(p.Values, ", ")
	}
	return p.Type.rule().want
}

// DidYouMean is the end of a sentence that refuses a name: which of the known
// names it may have been, and nothing when none is near.
func DidYouMean(given string, known []string) string {
	if near := nearest(given, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// canonicalText refuses what PostgreSQL's text cannot hold.
func canonicalText(s string) (string, bool) {
	return s, utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

func canonicalInteger(s string) (string, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return strconv.FormatInt(n, 10), err == nil
}

func canonicalBoolean(s string) (string, bool) {
	s = strings.ToLower(s)
	return s, s == "true" || s == "false"
}

func canonicalDate(s string) (string, bool) {
	t, err := time.Parse(time.DateOnly, s)
	return s, err == nil && t.Year() >= 1
}

// canonicalTimestamp is the instant in UTC, so that one instant has one
// spelling. Digits below PostgreSQL's microsecond are refused, not rounded.
func canonicalTimestamp(s string) (string, bool) {
	if _, ok := canonicalDate(s); ok {
		return s + "T00:00:00Z", true
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(s)); err != nil || !hasMicroseconds(s) {
		return "", false
	}
	t = t.UTC()
	return t.Format(time.RFC3339Nano), 1 <= t.Year() && t.Year() <= 9999
}

func hasMicroseconds(s string) bool {
	_, fraction, _ := strings.Cut(s, ".")
	return strings.IndexAny(fraction, "Z+-") <= 6
}

func canonicalUUID(s string) (string, bool) {
	return strings.ToLower(s), uuidShape.MatchString(s)
}

func canonicalDecimal(s string) (string, bool) {
	return s, decimalShape.MatchString(s)
}

var (
	uuidShape    = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
	decimalShape = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
)
