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

// Bind is the query with these values by parameter name; for another source than
// PostgreSQL it is empty and the values are only checked. The error is an
// [invalid.Error] that lists every refused value under params.<name>. The tenant
// parameter is one of the values: they are what [Definition.Given] returned.
func (d *Definition) Bind(values map[string]string) (Query, error) {
	canonical, err := d.Canonical(values)
	if err != nil {
		return Query{}, err
	}
	q := Query{SQL: d.sql, Args: make([]*string, len(d.bound))}
	for i, name := range d.bound {
		value, ok := canonical[name]
		if !ok {
			continue
		}
		if d.param(name).Type == List {
			value = arrayText(value)
		}
		q.Args[i] = &value
	}
	return q, nil
}

func (d *Definition) param(name string) *Param {
	for i := range d.Params {
		if d.Params[i].Name == name {
			return &d.Params[i]
		}
	}
	return nil
}

// DefaultTenant is the tenant of who has none.
const DefaultTenant = "default"

// Given are the values of a job of this tenant: those that its caller gave, and
// the tenant in the parameter that the report names for it. A caller that gives
// this parameter itself is refused, and so is a tenant other than
// [DefaultTenant] by a report without a tenant line, whose rows would be those
// of everybody. The error is an [invalid.Error]; values are not changed.
func (d *Definition) Given(values map[string]string, tenant string) (map[string]string, error) {
	given := maps.Clone(values)
	switch {
	case d.Shared:
		return given, nil
	case d.Tenant == "":
		if tenant != DefaultTenant {
			return nil, invalid.New("tenant", tenant, "cannot have report %s, which does not say whose rows it reads: add a line tenant: PARAM or tenant: shared to %s", d.Name, d.File)
		}
		return given, nil
	}
	if value, own := values[d.Tenant]; own {
		return nil, invalid.New("params."+d.Tenant, value, "cannot be given: it comes from the tenant of the job")
	}
	if tenant == "" {
		return nil, invalid.New("tenant", "", "is required: report %s reads the rows of one tenant", d.Name)
	}
	if _, problem := d.param(d.Tenant).canonical(tenant); problem != "" {
		return nil, invalid.New("tenant", tenant, "%s: report %s takes it for %s", problem, d.Name, d.Tenant)
	}
	if given == nil {
		given = map[string]string{}
	}
	given[d.Tenant] = tenant
	return given, nil
}

// Canonical checks the values as [Definition.Bind] does and returns them in
// their one spelling, with defaults filled in: integers without leading zeros,
// booleans and UUIDs in lower case, timestamps in UTC; decimals keep their
// digits. A list is given with commas between its members or as a JSON array; its
// one spelling is with commas, or JSON where a member is empty, holds a comma or
// begins or ends with a space. A parameter without a value is left out.
func (d *Definition) Canonical(values map[string]string) (map[string]string, error) {
	return d.canonical(d.Params, values)
}

func (d *Definition) canonical(params []Param, values map[string]string) (map[string]string, error) {
	canonical := make(map[string]string, len(params))
	refused := new(invalid.Error)
	for i := range params {
		p := &params[i]
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
		refused.Add("params."+name, "", "is no parameter: report %s %s%s", d.Name, takes, DidYouMean(name, known))
	}
}

// Key names what these values and this choice ask for: the report's name, the
// canonical values as a query string sorted by name, and behind a # what was
// chosen other than the report itself would, such as
// orders?from=2026-01-01&to=2026-02-01#xlsx;zone=Europe/Berlin. The same in
// other spellings gives the same key. The tenant parameter is no part of it: the
// export belongs to a tenant already. Where it would be longer than [MaxKey], a
// SHA-256 of what follows the name stands for it, as in orders?~1f3a….
func (d *Definition) Key(values map[string]string, c Choice) (string, error) {
	asked := slices.DeleteFunc(slices.Clone(d.Params), func(p Param) bool { return d.Tenant != "" && p.Name == d.Tenant })
	canonical, err := d.canonical(asked, values)
	if err != nil {
		return "", fmt.Errorf("name the export of report %s: %w", d.Name, err)
	}
	tail := ""
	if len(canonical) > 0 {
		pairs := url.Values{}
		for name, value := range canonical {
			pairs.Set(name, value)
		}
		tail = "?" + pairs.Encode()
	}
	if chosen := d.chosen(c); chosen != "" {
		tail += "#" + chosen
	}
	if len(d.Name)+len(tail) > MaxKey {
		sum := sha256.Sum256([]byte(tail))
		tail = "?~" + hex.EncodeToString(sum[:])
	}
	return d.Name + tail, nil
}
