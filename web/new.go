package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
)

// reportsView is the choice of a report.
type reportsView struct {
	Reports  []*report.Definition
	Mistakes []string // in the files of reports that cannot be used
}

func (s *Server) reportsPage(w http.ResponseWriter, r *http.Request) error {
	defs, err := s.reports.Catalog().List()
	v := reportsView{Reports: usable(defs, of(r).principal), Mistakes: mistakes(err)}
	if err != nil {
		s.log.Warn("some reports cannot be used", "request_id", of(r).id, "error", err)
	}
	return s.render(w, r, http.StatusOK, "reports", v)
}

// usable are the reports that a principal may ask for: a tenant has those that
// are made for tenants. Sources of invoices are no reports.
func usable(defs []*report.Definition, who principal) []*report.Definition {
	all := who.scope.All || who.scope.Tenant == jobs.DefaultTenant
	return slices.DeleteFunc(defs, func(d *report.Definition) bool {
		return d.Series != "" || !all && d.Tenant == "" && !d.Shared
	})
}

// mistakes are the lines of an error of [report.Catalog.List] that the writers of reports should read.
func mistakes(err error) []string {
	var found report.Mistakes
	if errors.As(err, &found) {
		lines := make([]string, len(found))
		for i, m := range found {
			lines[i] = m.String()
		}
		return lines
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return nil
	}
	var lines []string
	for _, part := range joined.Unwrap() {
		lines = append(lines, mistakes(part)...)
	}
	return lines
}

// formField is a control of a form.
type formField struct {
	Name, Label, Value, Hint string
	Kind                     string // text, date or select
	Mode                     string // the keyboard that a phone shows
	Required                 bool
	Options                  []formOption
	Problem                  string
}

type formOption struct {
	Value, Text string
	Chosen      bool // of a field with several
}

// newExportView is the form of a report.
type newExportView struct {
	Report   *report.Definition
	Fields   []formField
	Formats  formField
	Choices  []formField       // of how the files look
	Open     bool              // whether the choices are shown at once
	Problems []invalid.Problem // of no field
	Nonce    string
	Preview  *report.Page
}

// Wrong says that something must be corrected.
func (v newExportView) Wrong() bool {
	wrong := func(f formField) bool { return f.Problem != "" }
	return slices.ContainsFunc(v.Fields, wrong) || slices.ContainsFunc(v.Choices, wrong) || wrong(v.Formats) || len(v.Problems) > 0
}

func (s *Server) newExportPage(w http.ResponseWriter, r *http.Request) error {
	def, err := s.definition(r)
	if err != nil {
		return err
	}
	given := url.Values{"nonce": {rand.Text()}}
	for _, p := range def.Params {
		if p.Default != nil {
			given.Set(fieldName(p), *p.Default)
		}
	}
	given.Set("tenant", jobs.DefaultTenant)
	given["c.formats"] = def.Formats
	return s.showForm(w, r, http.StatusOK, def, given, nil, nil)
}

// definition is the report of a route, when who asks may use it. A report that is broken is shown with the list.
func (s *Server) definition(r *http.Request) (*report.Definition, error) {
	who := of(r).principal
	def, err := s.reports.Catalog().Get(r.PathValue("report"))
	var broken report.Mistakes
	if errors.As(err, &broken) && who.scope.All { // files and lines are for those who write reports
		return nil, &failure{http.StatusUnprocessableEntity, "report-broken", "This report cannot be used", broken.Error()}
	}
	if broken != nil || err == nil && len(usable([]*report.Definition{def}, who)) == 0 {
		return nil, errMissing
	}
	return def, err
}

// newExportForm dispatches a report. The same form sent twice is one job: the
// idempotency key is made of the form and its values. So is what the same person
// asks for again in a new form while the first waits or runs.
func (s *Server) newExportForm(w http.ResponseWriter, r *http.Request) error {
	def, err := s.definition(r)
	if err != nil {
		return err
	}
	if err := parseForm(w, r); err != nil {
		return err
	}
	who := of(r).principal
	req, err := formRequest(who, def, r.PostForm)
	if err != nil {
		return err
	}
	receipt, err := s.dispatcher.Dispatch(r.Context(), nil, req,
		jobs.RequestedBy(who.name), jobs.IdempotencyKey(formKey(r.PostForm.Get("nonce"), req)), jobs.UniqueWhileActive(""))
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showForm(w, r, http.StatusUnprocessableEntity, def, r.PostForm, bad.Problems, nil)
	}
	if err != nil {
		return err
	}
	s.log.Info("dispatched", "request_id", of(r).id, "job", receipt.Job.ID, "kind", req.Kind, "reused", receipt.Reused, "who", who.name)
	if err := s.auditJob(r, auditAsked, receipt); err != nil {
		return err
	}
	to := "/jobs/" + receipt.Job.ID.String()
	if receipt.Reused {
		to += "?reused=1"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// formRequest is what a form asks for. What was left empty is not given.
func formRequest(who principal, def *report.Definition, form url.Values) (jobs.Request, error) {
	tenant, err := tenantFor(who, strings.TrimSpace(form.Get("tenant")))
	if err != nil {
		return jobs.Request{}, err
	}
	payload, err := json.Marshal(jobs.ReportPayload{Report: def.Name, Params: formParams(def, form), Choice: formChoice(form)})
	if err != nil {
		return jobs.Request{}, fmt.Errorf("encode the form of report %s: %w", def.Name, err)
	}
	return jobs.Request{Kind: "report", Tenant: tenant, Payload: payload}, nil
}

func formParams(def *report.Definition, form url.Values) map[string]string {
	params := map[string]string{}
	for _, p := range def.Params {
		if v := form.Get(fieldName(p)); v != "" {
			params[p.Name] = v
		}
	}
	return params
}

// formKey is empty (no key) for a form that has no nonce.
func formKey(nonce string, r jobs.Request) string {
	if nonce == "" {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q ", nonce, r.Tenant)
	h.Write(r.Payload)
	return "form-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// tenantFor is the tenant that a principal asks for: its own, unless it sees all.
func tenantFor(who principal, asked string) (string, error) {
	if who.scope.All {
		return asked, nil
	}
	if asked != "" && asked != who.scope.Tenant {
		return "", errTenant
	}
	return who.scope.Tenant, nil
}

func (s *Server) showForm(w http.ResponseWriter, r *http.Request, status int, def *report.Definition, given url.Values, problems []invalid.Problem, preview *report.Page) error {
	v := newExportView{Report: def, Nonce: given.Get("nonce"), Preview: preview}
	if of(r).principal.scope.All {
		v.Fields = append(v.Fields, formField{Name: "tenant", Label: "Tenant", Kind: "text", Value: given.Get("tenant"), Required: true,
			Hint: "Whose export it will be: letters, digits, dots, hyphens or underscores."})
	}
	for _, p := range def.Params {
		if p.Name == def.Tenant {
			continue
		}
		f := paramField(p)
		f.Value = given.Get(f.Name)
		v.Fields = append(v.Fields, f)
	}
	v.Formats = s.formatField(given["c.formats"])
	v.Choices = s.choiceFields(def, given)
	for _, p := range problems {
		v.Problems = append(v.Problems, v.place(p)...)
	}
	w.Header().Set("Cache-Control", "no-store") // going back must give a new form, not the key of the old one
	return s.render(w, r, status, "new", v)
}

// place puts a problem at its field, or gives it back when there is none.
func (v *newExportView) place(p invalid.Problem) []invalid.Problem {
	name, _, _ := strings.Cut(p.Field, "[")
	if param, ok := strings.CutPrefix(name, "params."); ok {
		name = "p." + param
	} else if name != "tenant" {
		name = "c." + name
	}
	for _, fields := range [][]formField{v.Fields, v.Choices} {
		for i := range fields {
			if fields[i].Name == name {
				fields[i].Problem = problemText(p)
				v.Open = v.Open || strings.HasPrefix(name, "c.")
				return nil
			}
		}
	}
	if name == v.Formats.Name {
		v.Formats.Problem = problemText(p)
		return nil
	}
	return []invalid.Problem{p}
}

func problemText(p invalid.Problem) string {
	if p.Value == "" {
		return upperFirst(p.Message)
	}
	return "“" + p.Value + "” " + p.Message
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] // our messages begin with plain letters
}

func fieldName(p report.Param) string { return "p." + p.Name }

// paramField is the control for a parameter.
func paramField(p report.Param) formField {
	f := formField{Name: fieldName(p), Label: p.Label, Required: p.Required, Kind: "text"}
	switch p.Type {
	case report.Date:
		f.Kind = "date"
	case report.Integer:
		f.Mode, f.Hint = "numeric", "A whole number."
	case report.Decimal:
		f.Mode, f.Hint = "decimal", "A number such as 12.50."
	case report.Timestamp:
		f.Hint = "A time with its offset, such as 2026-01-31T09:30:00+01:00, or a date (midnight UTC)."
	case report.List:
		f.Hint = "Several values with commas between them, or a JSON list."
	case report.UUID:
		f.Hint = "A UUID such as 123e4567-e89b-12d3-a456-426614174000."
	case report.Boolean:
		f.Kind, f.Options = "select", options(p.Required, "either", "true", "false")
	case report.Enum:
		f.Kind, f.Options = "select", options(p.Required, "any", p.Values...)
	}
	if p.Default != nil {
		f.Hint = strings.TrimSpace(f.Hint + " Left empty it is " + *p.Default + ".")
	}
	return f
}

func options(required bool, none string, values ...string) []formOption {
	list := []formOption{{Text: none}}
	if required {
		list[0].Text = "choose…"
	}
	for _, v := range values {
		list = append(list, formOption{Value: v, Text: v})
	}
	return list
}
