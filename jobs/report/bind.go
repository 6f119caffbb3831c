package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// MaxKey bounds what [Definition.Key] returns, in bytes.
const MaxKey = 1024

// Query is a statement with its arguments.
type Query struct {
	// SQL holds $1, $2 … each with a cast, and no semicolon at its end.
	SQL string
	// Args are the values of $1, $2 … in PostgreSQL's text format; nil is NULL.
	Args []*string
}

// Bind is the query with these values by parameter name. The error is an
// [invalid.Error] that lists every refused value under params.<name>.
func (d *Definition) Bind(values map[string]string) (Query, error) {
	canonical, err := d.Canonical(values)
	if err != nil {
		return Query{}, err
	}
	q := Query{SQL: d.sql, Args: make([]*string, len(d.bound))}
	for i, name := range d.bound {
		if value, ok := canonical[name]; ok {
			q.Args[i] = &value
		}
	}
	return q, nil
}

// Canonical checks the values as [Definition.Bind] does and returns them in
// their one spelling, with defaults filled in: integers without leading zeros,
// booleans and UUIDs in lower case, timestamps in UTC; decimals keep their
// digits. A parameter without a value is left out.
func (d *Definition) Canonical(values map[string]string) (map[string]string, error) {
	canonical := make(map[string]string, len(d.Params))
	refused := new(invalid.Error)
	for i := range d.Params {
		p := &d.Params[i]
		value, given := values[p.Name]
		switch {
		case given:
			spelled, problem := p.canonical(value)
			if problem != "" {
				refused.Add("params."+p.Name, value, "%s", problem)
			}
			canonical[p.Name] = spelled
		case p.Required:
			refused.Add("params."+p.Name, "", "is required: %s (%s)", p.want(), p.Label)
		case p.Default != nil:
			canonical[p.Name] = *p.Default
		}
	}
	d.refuseUnknown(values, refused)
	if err := refused.OrNil(); err != nil {
		return nil, err
	}
	return canonical, nil
}

func (d *Definition) refuseUnknown(values map[string]string, refused *invalid.Error) {
	known := paramNames(d.Params)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(known, name) {
			continue
		}
		takes := "takes no parameters"
		if len(known) > 0 {
			takes = "has " + strings.Join(known, ", ")
		}
		refused.Add("params."+name, "", "is no parameter: report %s %s%s", d.Name, takes, didYouMean(name, known))
	}
}

// Key names what these values ask for: the report's name, then the canonical
// values as a query string sorted by name, such as
// orders?from=2026-01-01&to=2026-02-01. The same values in other spellings give
// the same key. Where that would be longer than [MaxKey], a SHA-256 of the query
// string stands for it, as in orders?~1f3a….
func (d *Definition) Key(values map[string]string) (string, error) {
	canonical, err := d.Canonical(values)
	if err != nil {
		return "", fmt.Errorf("name the export of report %s: %w", d.Name, err)
	}
	if len(canonical) == 0 {
		return d.Name, nil
	}
	pairs := url.Values{}
	for name, value := range canonical {
		pairs.Set(name, value)
	}
	key := d.Name + "?" + pairs.Encode()
	if len(key) > MaxKey {
		sum := sha256.Sum256([]byte(pairs.Encode()))
		key = d.Name + "?~" + hex.EncodeToString(sum[:])
	}
	return key, nil
}
