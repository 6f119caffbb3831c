package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// retentionRoutes are the part of the table about the pages of rules.
func (s *Server) retentionRoutes() []route {
	const view, administer = storage.VerbView, storage.VerbAdminister
	return []route{
		{"GET", "/settings/retention", signedIn, view, s.retentionPage},
		{"GET", "/settings/retention/change", signedIn, administer, s.changeRetentionPage},
		{"POST", "/settings/retention/change", signedIn, administer, s.changeRetentionForm},
		{"GET", "/api/v1/retention/in-force", api, view, s.apiRulesInForce},
		{"POST", "/api/v1/retention/preview", api, administer, s.apiPreviewRetention},
	}
}

// retentionView is the page of rules.
type retentionView struct {
	Rules   []ruleRow
	InForce []inForceRow
	Pager   pager
	Fields  []formField // of a rule, empty for who may not set one
	Edits   string      // the rule that the form holds; empty for a new one
	Without string      // what counts where there is no rule
}

// ruleRow is a rule that was set.
type ruleRow struct {
	storage.RetentionRule
	For          string // what it is for
	Edit, Remove string // addresses; empty for who may not
}

// inForceRow is a tenant's kind with what counts for it.
type inForceRow struct {
	storage.RuleInForce
	Current, Replaced, From string
}

func (s *Server) retentionPage(w http.ResponseWriter, r *http.Request) error {
	given := url.Values{"tenant": {r.URL.Query().Get("tenant")}, "kind": {r.URL.Query().Get("kind")}}
	return s.showRetention(w, r, http.StatusOK, given, nil)
}

// showRetention shows the rules with the form, as it was sent when there are problems.
func (s *Server) showRetention(w http.ResponseWriter, r *http.Request, status int, given url.Values, problems []invalid.Problem) error {
	who := of(r).principal
	rules, err := s.store.RetentionRules(r.Context(), who.scope)
	if err != nil {
		return err
	}
	l := listing{Path: "/settings/retention", After: r.URL.Query().Get("after")}
	page, err := s.store.RulesInForce(r.Context(), who.scope, l.After, settingsPageSize)
	if err != nil {
		return err
	}
	v := &retentionView{Pager: l.pager(page.Next), Without: "current publications stay for ever, replaced ones for " + showDuration(s.superseded())}
	for _, rule := range rules {
		row := ruleRow{RetentionRule: rule, For: upperFirst(strings.TrimPrefix(rule.Name(), "the rule for "))}
		if who.may(storage.VerbAdminister) && (who.scope.All || rule.Tenant != nil) {
			at := url.Values{"tenant": {deref(rule.Tenant)}, "kind": {deref(rule.Kind)}}.Encode()
			row.Edit, row.Remove = "/settings/retention?"+at+"#rule", "/settings/retention/change?do=remove&"+at
		}
		v.Rules = append(v.Rules, row)
	}
	for _, f := range page.Items {
		v.InForce = append(v.InForce, s.inForce(f))
	}
	shown := settingsView{Tab: "retention", Facts: s.retention, Rules: v, Done: doneWord(r.URL.Query().Get("done"))}
	if who.may(storage.VerbAdminister) {
		v.fill(rules, who, given, len(problems) > 0)
		shown.Problem = place(v.Fields, problems)
	}
	return s.showSettings(w, r, status, shown)
}

// deref is a text, or empty.
func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// doneWord says what was just done; only what is known is said.
func doneWord(word string) string {
	return map[string]string{
		"set": "The rule is set. The next clean-up goes by it.", "removed": "The rule is removed. The next clean-up goes without it.",
		"pinned": "It is pinned, and stays until it is unpinned.", "unpinned": "It is unpinned. The rules count for it again.",
		"held": "It is on hold. Nothing of it is deleted.", "released": "Its hold is released. The rules count for it again.",
		"restored": "It is there again. Ask for it anew to bring it up to date: jobs that were cancelled stay so.",
		"deleted":  "It is deleted. Until a clean-up takes its files it can be restored here.",
	}[word]
}

func (s *Server) inForce(f storage.RuleInForce) inForceRow {
	if f.Rule == nil {
		return inForceRow{f, "for ever", showDuration(s.superseded()), "no rule"}
	}
	return inForceRow{f, f.Rule.Current(), f.Rule.Superseded(), f.Rule.Name()}
}

// fill makes the form: with what was sent, or else with the rule that it names.
func (v *retentionView) fill(rules []storage.RetentionRule, who principal, given url.Values, sent bool) {
	for _, rule := range rules {
		if tenant := cmp.Or(given.Get("tenant"), who.scope.Tenant); sent || tenant != deref(rule.Tenant) || given.Get("kind") != deref(rule.Kind) || tenant+given.Get("kind") == "" {
			continue
		}
		v.Edits = rule.Name()
		given.Set("current_days", number(rule.CurrentDays))
		given.Set("superseded_days", number(rule.SupersededDays))
		given.Set("superseded_keep", strconv.Itoa(rule.SupersededKeep))
	}
	if who.scope.All {
		v.Fields = append(v.Fields, formField{Name: "tenant", Label: "Tenant", Kind: "text", Hint: "Only exports of this tenant. Empty: every tenant."})
	}
	v.Fields = append(v.Fields,
		formField{Name: "kind", Label: "Kind", Kind: "text", Hint: "Such as report or invoice. Empty: every kind."},
		formField{Name: "current_days", Label: "Days that a current publication stays", Kind: "text", Mode: "numeric", Hint: "From its publication on, while nothing newer replaces it. Then its export expires. Empty: for ever."},
		formField{Name: "superseded_days", Label: "Days that a replaced publication stays", Kind: "text", Mode: "numeric", Hint: "From its replacement on; at least as long as links open. Empty: for ever."},
		formField{Name: "superseded_keep", Label: "How many replaced ones stay, however old", Kind: "text", Mode: "numeric", Hint: "The newest of each export. Empty: none."})
	for i := range v.Fields {
		v.Fields[i].Value = given.Get(v.Fields[i].Name)
	}
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// ruleOf reads a change from a form or a query. What is wrong with its fields is an [invalid.Error].
func (s *Server) ruleOf(r *http.Request, given url.Values) (c storage.RetentionChange, err error) {
	text := func(name string) string { return strings.TrimSpace(given.Get(name)) }
	if c.Rule, err = ruleFor(r, text("tenant"), text("kind")); err != nil {
		return c, err
	}
	switch do := given.Get("do"); do {
	case "remove":
		c.Remove = true
		return c, nil
	case "set", "":
	default:
		return c, invalid.New("do", do, "must be set or remove")
	}
	var bad invalid.Error
	whole := func(name, empty string) *int {
		if text(name) == "" {
			return nil
		}
		n, err := strconv.Atoi(text(name))
		if err != nil {
			bad.Add(name, text(name), "must be a whole number, or be left empty: %s", empty)
			return nil
		}
		return &n
	}
	c.Rule.CurrentDays, c.Rule.SupersededDays = whole("current_days", "for ever"), whole("superseded_days", "for ever")
	if n := whole("superseded_keep", "none"); n != nil {
		c.Rule.SupersededKeep = *n
	}
	var more *invalid.Error
	if err := s.checkRule(c.Rule); errors.As(err, &more) && len(bad.Problems) == 0 {
		bad.Problems = more.Problems
	}
	return c, bad.OrNil()
}

// checkRule refuses a rule that cannot be.
func (s *Server) checkRule(rule storage.RetentionRule) error {
	return jobs.CheckRetention(rule, max(s.linkMax, s.superseded()), func(field string) string { return field })
}

// previewPatience is how long somebody waits for the count of what a change makes due.
const previewPatience = 5 * time.Second

// changeView is the page that says what a change would do, before it does.
type changeView struct {
	storage.RetentionChange
	storage.RetentionPreview
	Name   string // of the rule
	Before string // what the same rule keeps now; empty when there is none
	Grace  string // for how long what expires can be restored
	Hidden []formOption
}

// Due says that the change takes something with it.
func (v changeView) Due() bool { return v.Current+v.Replaced > 0 }

// Patience is how long was counted, when that was not enough.
func (v changeView) Patience() string { return showDuration(previewPatience) }

// changeRetentionPage shows what a change would make due, and asks.
func (s *Server) changeRetentionPage(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query()
	c, err := s.ruleOf(r, given)
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showRetention(w, r, http.StatusUnprocessableEntity, given, bad.Problems)
	}
	if err != nil {
		return err
	}
	v := changeView{RetentionChange: c, Name: c.Rule.Name(), Grace: showDuration(s.superseded())}
	rules, err := s.store.RetentionRules(r.Context(), of(r).principal.scope)
	if err != nil {
		return err
	}
	for _, rule := range rules {
		if rule.Name() == v.Name {
			v.Before = "current publications " + rule.Current() + ", replaced ones " + rule.Superseded()
		}
	}
	if c.Remove && v.Before == "" {
		return errMissing
	}
	if v.RetentionPreview, err = s.store.PreviewRetention(r.Context(), c, s.superseded(), previewPatience); err != nil {
		return err
	}
	for _, name := range []string{"do", "tenant", "kind", "current_days", "superseded_days", "superseded_keep"} {
		if text := strings.TrimSpace(given.Get(name)); text != "" {
			v.Hidden = append(v.Hidden, formOption{Text: name, Value: text})
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, http.StatusOK, "retentionchange", v)
}

// changeRetentionForm sets or removes a rule.
func (s *Server) changeRetentionForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	c, err := s.ruleOf(r, r.PostForm)
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showRetention(w, r, http.StatusUnprocessableEntity, r.PostForm, bad.Problems)
	}
	if err != nil {
		return err
	}
	e, err := auditEntry(r, auditRetentionChanged, object{}, nil)
	if err != nil {
		return err
	}
	done := "set"
	if c.Remove {
		done, err = "removed", s.store.RemoveRetention(r.Context(), c.Rule.Tenant, c.Rule.Kind, e)
	} else {
		err = s.store.SetRetention(r.Context(), c.Rule, e)
	}
	if err != nil {
		return err
	}
	s.log.Info(auditRetentionChanged, "request_id", of(r).id, "rule", c.Rule.Name(), "removed", c.Remove, "who", of(r).principal.name)
	http.Redirect(w, r, "/settings/retention?done="+done, http.StatusSeeOther)
	return nil
}

// apiRulesInForce lists what counts for each kind of each tenant.
func (s *Server) apiRulesInForce(w http.ResponseWriter, r *http.Request) error {
	q, refused := r.URL.Query(), new(invalid.Error)
	most := limit(q, refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.RulesInForce(r.Context(), of(r).principal.scope, q.Get("after"), most)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}

// apiPreviewRetention counts what setting or removing a rule would make due.
func (s *Server) apiPreviewRetention(w http.ResponseWriter, r *http.Request) error {
	var tenant, kind string
	var c storage.RetentionChange
	given := &c.Rule
	err := readObject(w, r, map[string]any{
		"tenant": &tenant, "kind": &kind, "current_days": &given.CurrentDays, "superseded_days": &given.SupersededDays, "superseded_keep": &given.SupersededKeep, "remove": &c.Remove,
	})
	if err != nil {
		return err
	}
	rule, err := ruleFor(r, tenant, kind)
	if err != nil {
		return err
	}
	given.Tenant, given.Kind = rule.Tenant, rule.Kind
	if !c.Remove {
		if err := s.checkRule(*given); err != nil {
			return err
		}
	}
	p, err := s.store.PreviewRetention(r.Context(), c, s.superseded(), previewPatience)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, p)
}
