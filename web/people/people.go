// Package people checks what is said about users and API tokens before it is stored, the
// same for the settings pages and the command line.
package people

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/password"
)

// MaxName bounds a name, in characters; the database has the same bound.
const MaxName = 100

// Name is a name as it is kept: without space around it, and in the spelling of Unicode
// that all keyboards agree on.
func Name(text string) string { return norm.NFC.String(strings.TrimSpace(text)) }

// reserved are what jobs are asked for by that no user asked for: who had such a name
// could cancel them as their own.
var reserved = [...]string{"token ", "schedule ", "fenceline ", "cli", "batch "}

// CheckName answers what is wrong with a user's name, as a sentence, or empty.
func CheckName(name string) string {
	switch {
	case name == "":
		return "Enter your name, as others should read it."
	case utf8.RuneCountInString(name) > MaxName:
		return "Enter a shorter name: at most 100 characters."
	case !utf8.ValidString(name) || strings.ContainsFunc(name, hidden):
		return "Enter a name without control characters."
	}
	for _, word := range reserved {
		if strings.EqualFold(name, word) || strings.HasSuffix(word, " ") && len(name) > len(word) && strings.EqualFold(name[:len(word)], word) {
			return "Enter another name: this one is for programs."
		}
	}
	return ""
}

// hidden is true for characters that are not seen, or that turn the text around them.
func hidden(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// User checks what a new user is to be; text is the password, hashed by the caller
// afterwards, and may be empty. An empty tenant is all.
func User(name, role, tenant, text string) (storage.NewUser, error) {
	var refused invalid.Error
	n := storage.NewUser{Name: Name(name), Role: storage.Role(role), Tenant: strings.TrimSpace(tenant)}
	if problem := CheckName(n.Name); problem != "" {
		refused.Add("name", n.Name, "%s", lower(problem))
	}
	Role(&refused, role)
	Tenant(&refused, n.Tenant)
	if text != "" {
		if problem := password.Check(text, n.Name); problem != "" {
			refused.Add("password", "", "%s", problem)
		}
	}
	return n, refused.OrNil()
}

func lower(sentence string) string { return strings.ToLower(sentence[:1]) + sentence[1:] }

// Role refuses what is no role.
func Role(refused *invalid.Error, role string) {
	if !slices.Contains(storage.Roles(), storage.Role(role)) {
		refused.Add("role", role, "must be one of %s", strings.Join(words(storage.Roles()), ", "))
	}
}

// Tenant refuses what cannot name a tenant; empty is all.
func Tenant(refused *invalid.Error, tenant string) {
	if tenant != "" && jobs.CheckName("tenant", tenant) != nil {
		refused.Add("tenant", tenant, "must be 1 to 63 letters, digits, dots, hyphens or underscores")
	}
}

func words[T ~string](list []T) (texts []string) {
	for _, w := range list {
		texts = append(texts, string(w))
	}
	return texts
}

// Token checks what a new API token is to be. Without verbs it may only look; expires is
// empty for never, or as [Expiry] reads it.
func Token(name, tenant string, verbs []string, expires string, now time.Time) (storage.TokenSpec, error) {
	var refused invalid.Error
	spec := storage.TokenSpec{Name: Name(name), Tenant: strings.TrimSpace(tenant)}
	if spec.Name == "" || utf8.RuneCountInString(spec.Name) > MaxName || !utf8.ValidString(spec.Name) || strings.ContainsFunc(spec.Name, hidden) {
		refused.Add("name", spec.Name, "must be 1 to %d characters that are seen", MaxName)
	}
	Tenant(&refused, spec.Tenant)
	for _, text := range verbs {
		v := storage.Verb(strings.TrimSpace(text))
		if !slices.Contains(storage.Verbs(), v) {
			refused.Add("verbs", text, "must be of %s", strings.Join(words(storage.Verbs()), ", "))
		} else if !slices.Contains(spec.Verbs, v) {
			spec.Verbs = append(spec.Verbs, v)
		}
	}
	if len(verbs) == 0 {
		refused.Add("verbs", "", "must name at least one of %s", strings.Join(words(storage.Verbs()), ", "))
	}
	var err error
	if spec.ExpiresAt, err = Expiry(expires, now); err != nil {
		refused.Add("expires", expires, "%s", err)
	}
	return spec, refused.OrNil()
}

// maxDays bounds how long a token may last that is to expire.
const maxDays = 3660

// Expiry reads when something is to end: a number of days such as 90d, hours such as 12h,
// or a day such as 2027-01-31, of which it is the end in UTC. Nil is never.
func Expiry(text string, now time.Time) (*time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "never" {
		return nil, nil
	}
	at := now
	if day, err := time.ParseInLocation(time.DateOnly, text, time.UTC); err == nil {
		at = day.AddDate(0, 0, 1)
	} else if n, err := strconv.Atoi(strings.TrimSuffix(text, "d")); err == nil && strings.HasSuffix(text, "d") && n <= maxDays {
		at = now.AddDate(0, 0, n)
	} else if d, err := time.ParseDuration(text); err == nil {
		at = now.Add(d)
	}
	if !at.After(now) || at.After(now.AddDate(0, 0, maxDays)) {
		return nil, fmt.Errorf("must be days such as 90d, hours such as 12h, or a day to come such as %s, within ten years", now.AddDate(1, 0, 0).Format(time.DateOnly))
	}
	return &at, nil
}
