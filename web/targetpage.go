package web

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/storage"
)

// targetRoutes are the part of the table about the pages of who is told. All of it is
// for administrators: the address of a webhook may be a secret by itself.
func (s *Server) targetRoutes() []route {
	const needs = storage.VerbAdminister
	return []route{
		{"GET", "/targets", signedIn, needs, s.targetsPage},
		{"GET", "/targets/new", signedIn, needs, s.newTargetPage},
		{"POST", "/targets/new", signedIn, needs, s.newTargetForm},
		{"GET", "/targets/{id}", signedIn, needs, s.targetPage},
		{"POST", "/targets/{id}/test", signedIn, needs, s.testTargetForm},
		{"POST", "/targets/{id}/rotate", signedIn, needs, s.rotateTargetForm},
		{"POST", "/targets/{id}/enable", signedIn, needs, s.enableTargetForm},
		{"POST", "/targets/{id}/disable", signedIn, needs, s.disableTargetForm},
		{"POST", "/targets/{id}/replay", signedIn, needs, s.replayTargetForm},
		{"POST", "/targets/{id}/remove", signedIn, needs, s.removeTargetForm},
	}
}

// targetRow is a target with its state.
type targetRow struct {
	storage.Target
	Chip  chip
	Where string // where it is, without what could be a secret
}

// Path is the address of its page.
func (t targetRow) Path() string { return "/targets/" + t.ID.String() }

func newTargetRow(t storage.Target) targetRow {
	row := targetRow{Target: t, Chip: chip{"published", "active"}, Where: strings.Join(t.Addresses, ", ")}
	switch {
	case t.DisabledAt != nil:
		row.Chip = chip{"cancelled", "disabled"}
	case t.Failures > 0:
		row.Chip = chip{"failed", "failing"}
	}
	if u, err := url.Parse(t.URL); err == nil && t.URL != "" {
		row.Where = u.Host
	}
	return row
}

// targetsView is the page of all targets.
type targetsView struct {
	Rows  []targetRow
	Pager pager
	Empty emptyState
}

func (s *Server) targetsPage(w http.ResponseWriter, r *http.Request) error {
	list, err := s.store.Targets(r.Context(), of(r).principal.scope) // a thousand at most
	if err != nil {
		return err
	}
	l, next := newListing(r), ""
	if l.After != "" {
		i := slices.IndexFunc(list, func(t storage.Target) bool { return t.ID.String() == l.After })
		if i < 0 {
			return storage.ErrCursor
		}
		list = list[i+1:]
	}
	if len(list) > listRows {
		list = list[:listRows]
		next = list[listRows-1].ID.String()
	}
	v := targetsView{Pager: l.pager(next)}
	for _, t := range list {
		v.Rows = append(v.Rows, newTargetRow(t))
	}
	v.Empty = l.nothing("targets", emptyState{Title: "Nobody is told of anything yet.", Text: "A webhook or some mail addresses are told when an export is published or a job has failed.",
		Href: "/targets/new", Link: "Add a target", Command: "fenceline notify add shop --url https://shop.example.com/hooks/fenceline"})
	return s.render(w, r, http.StatusOK, "targets", v)
}

// deliveryRow is a notice for the target.
type deliveryRow struct {
	storage.Delivery
	Chip chip
}

func newDeliveryRow(d storage.Delivery) deliveryRow {
	row := deliveryRow{d, chip{"queued", "waiting"}}
	switch {
	case d.State == storage.DeliveryDelivered:
		row.Chip = chip{"published", "delivered"}
	case d.State == storage.DeliveryDead:
		row.Chip = chip{"failed", "given up"}
	case d.Attempts > 0:
		row.Chip = chip{"fenced", "tries again"}
	}
	return row
}

// targetView is the page of a target.
type targetView struct {
	targetRow
	Filters    filterBar
	Deliveries []deliveryRow
	Pager      pager
	Empty      emptyState
	Dead       int64 // deliveries that were given up
	// Secret is a new secret, which is shown this once.
	Secret string
	Nonce  string // of the form that sends a test
	// What can be done to it; nil when it cannot.
	Rotate, Disable, Replay, Remove *confirmation
}

func (s *Server) targetPage(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	return s.showTarget(w, r, http.StatusOK, id, "")
}

// showTarget shows a target, with a new secret unless that is empty.
func (s *Server) showTarget(w http.ResponseWriter, r *http.Request, status int, id uuid.UUID, secret string) error {
	scope := of(r).principal.scope
	t, err := s.store.Target(r.Context(), scope, id)
	if err != nil {
		return err
	}
	v := targetView{targetRow: newTargetRow(t), Secret: secret, Nonce: rand.Text()}
	if v.Dead, err = s.store.CountDead(r.Context(), scope, id); err != nil {
		return err
	}
	l := newListing(r, "state")
	l.Path = v.Path()
	f := storage.DeliveryFilter{State: storage.DeliveryState(l.Get("state")), Target: id, After: l.After, Limit: listRows}
	if !f.State.Known() {
		return invalid.New("state", l.Get("state"), "is no state of deliveries; use pending, delivered or dead")
	}
	page, err := s.store.Deliveries(r.Context(), scope, f)
	if err != nil {
		return err
	}
	for _, d := range page.Items {
		v.Deliveries = append(v.Deliveries, newDeliveryRow(d))
	}
	v.Filters = l.filters(1, formField{Name: "state", Label: "State", Kind: "select", Options: []formOption{
		{"", "Any", false}, {"pending", "Waiting", false}, {"delivered", "Delivered", false}, {"dead", "Given up", false}}})
	v.Pager = l.pager(page.Next)
	v.Empty = l.nothing("deliveries", emptyState{Title: "Nothing was sent yet.", Text: "“Send a test” shows whether it arrives."})
	v.offer()
	w.Header().Set("Cache-Control", "no-store") // it may hold a secret
	return s.render(w, r, status, "target", v)
}

// offer fills in what can be done to the target.
func (v *targetView) offer() {
	path := v.Path()
	if v.Kind == storage.TargetWebhook {
		v.Rotate = &confirmation{ID: "rotate", Label: "New secret", Action: path + "/rotate", Button: "Give it a new secret", Nonce: rand.Text(),
			Text: fmt.Sprintf("It is shown once. For %s both it and the one before sign; after that only the new one does.", count.Of(int(notify.BothValid.Hours()), "hour"))}
	}
	if v.DisabledAt == nil {
		v.Disable = &confirmation{ID: "disable", Label: "Disable", Action: path + "/disable", Button: "Disable it",
			Text: "It is told nothing that happens from now on. What waits for it waits on."}
	}
	if v.Dead > 0 {
		v.Replay = &confirmation{ID: "replay", Label: "Send again", Action: path + "/replay", Button: "Send " + numberOf(v.Dead, "notice", "notices") + " again", Safe: true,
			Text: numberOf(v.Dead, "notice", "notices") + " for it were given up. They are sent again as they were."}
	}
	v.Remove = &confirmation{ID: "remove", Label: "Remove", Action: path + "/remove", Button: "Remove it for good",
		Text: "This target and the record of all its deliveries are removed. What waits for it is not sent."}
}

// onTarget does something to a target, writes it down and shows the target.
func (s *Server) onTarget(w http.ResponseWriter, r *http.Request, action string, do func(uuid.UUID, storage.AuditEntry) error) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	t, err := s.store.Target(r.Context(), of(r).principal.scope, id)
	if err != nil {
		return err
	}
	e, err := auditEntry(r, action, targetObject(t), nil)
	if err == nil {
		err = do(id, e)
	}
	if err != nil {
		return err
	}
	s.log.Info(action, "request_id", of(r).id, "target", id, "who", of(r).principal.name)
	to := "/targets/" + id.String()
	if action == auditTargetRemoved {
		to = "/targets"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

func (s *Server) testTargetForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	return s.onTarget(w, r, auditTargetTested, func(id uuid.UUID, e storage.AuditEntry) error {
		_, _, err := formOnce(s, r, func(storage.Tx) (storage.Delivery, error) {
			return s.targets.Test(r.Context(), of(r).principal.scope, id, e)
		})
		return err
	})
}

func (s *Server) enableTargetForm(w http.ResponseWriter, r *http.Request) error {
	return s.onTarget(w, r, auditTargetEnabled, func(id uuid.UUID, e storage.AuditEntry) error {
		_, err := s.store.EnableTarget(r.Context(), of(r).principal.scope, id, e)
		return err
	})
}

func (s *Server) disableTargetForm(w http.ResponseWriter, r *http.Request) error {
	return s.onTarget(w, r, auditTargetDisabled, func(id uuid.UUID, e storage.AuditEntry) error {
		_, err := s.store.DisableTarget(r.Context(), of(r).principal.scope, id, "by "+of(r).principal.name, e)
		return err
	})
}

func (s *Server) removeTargetForm(w http.ResponseWriter, r *http.Request) error {
	return s.onTarget(w, r, auditTargetRemoved, func(id uuid.UUID, e storage.AuditEntry) error {
		return s.store.RemoveTarget(r.Context(), of(r).principal.scope, id, e)
	})
}

func (s *Server) replayTargetForm(w http.ResponseWriter, r *http.Request) error {
	return s.onTarget(w, r, auditDeliveryReplayed, func(id uuid.UUID, e storage.AuditEntry) error {
		n, err := s.store.ReplayDead(r.Context(), of(r).principal.scope, id)
		return errors.Join(err, s.audit(r, auditDeliveryReplayed, object{e.ObjectKind, e.ObjectID, *e.Tenant}, map[string]any{"deliveries": n}))
	})
}

// rotateTargetForm gives a webhook another secret and shows it, this once.
func (s *Server) rotateTargetForm(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	if err := parseForm(w, r); err != nil {
		return err
	}
	secret, _, err := formOnce(s, r, func(storage.Tx) (string, error) {
		e, err := auditEntry(r, auditTargetRotated, object{}, nil)
		if err != nil {
			return "", err
		}
		_, secret, err := s.targets.Rotate(r.Context(), of(r).principal.scope, id, e)
		s.log.Info(auditTargetRotated, "request_id", of(r).id, "target", id, "who", of(r).principal.name, "error", err)
		return secret, err
	})
	if err != nil {
		return err
	}
	return s.showTarget(w, r, http.StatusOK, id, secret)
}

// targetFormView is the form of a new target.
type targetFormView struct {
	Fields   []formField
	Problems []string
	Wrong    bool
	Nonce    string
}

func (s *Server) newTargetPage(w http.ResponseWriter, r *http.Request) error {
	return s.showTargetForm(w, r, http.StatusOK, url.Values{"kind": {"webhook"}}, nil)
}

// newTargetForm adds a target, and shows it with the secret of a webhook, this once.
func (s *Server) newTargetForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	who, text := of(r).principal, func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	split := func(name string) (list []string) { // nil when there is nothing
		return append(list, strings.FieldsFunc(text(name), func(c rune) bool { return c == ',' || c == '\n' || c == '\r' || c == ' ' })...)
	}
	tenant, err := tenantFor(who, text("tenant"))
	if err != nil {
		return err
	}
	ask := notify.Request{Tenant: cmp.Or(tenant, jobs.DefaultTenant), Name: text("name"), Kind: text("kind"), URL: text("url"),
		Addresses: split("addresses"), Topics: split("topics"), JobKinds: split("job_kinds")}
	made, _, err := formOnce(s, r, func(storage.Tx) (m secretMade[storage.Target], err error) {
		m.What, m.Secret, err = s.addTarget(r, ask)
		return m, err
	})
	var bad *invalid.Error
	switch {
	case errors.As(err, &bad):
		return s.showTargetForm(w, r, http.StatusUnprocessableEntity, r.PostForm, bad.Problems)
	case errors.Is(err, storage.ErrTargetExists):
		return s.showTargetForm(w, r, http.StatusConflict, r.PostForm, []invalid.Problem{{Field: "name", Value: text("name"), Message: "is taken"}})
	case err != nil:
		return err
	}
	return s.showTarget(w, r, http.StatusCreated, made.What.ID, made.Secret)
}

// addTarget adds a target, with its entry in the log.
func (s *Server) addTarget(r *http.Request, ask notify.Request) (t storage.Target, secret string, err error) {
	e, err := auditEntry(r, auditTargetAdded, object{}, map[string]any{"name": ask.Name, "kind": ask.Kind})
	if err == nil {
		t, secret, err = s.targets.Add(r.Context(), ask, e)
	}
	if err == nil {
		s.log.Info(auditTargetAdded, "request_id", of(r).id, "target", t.ID, "kind", t.Kind, "who", of(r).principal.name)
	}
	return t, secret, err
}

func (s *Server) showTargetForm(w http.ResponseWriter, r *http.Request, status int, given url.Values, problems []invalid.Problem) error {
	v := targetFormView{Wrong: len(problems) > 0, Nonce: rand.Text(), Fields: []formField{
		{Name: "name", Label: "Name", Kind: "text", Required: true, Hint: "Small letters, digits, dots, hyphens or underscores."},
		{Name: "kind", Label: "Who is told", Kind: "select", Options: []formOption{{Value: "webhook", Text: "a webhook"}, {Value: "mail", Text: "mail addresses"}}},
		{Name: "url", Label: "URL of the webhook", Kind: "url", Hint: "https://… What is sent there is signed with a secret, which is shown once."},
		{Name: "addresses", Label: "Mail addresses", Kind: "text", Hint: "Several with commas between them."},
		{Name: "topics", Label: "Topics", Kind: "text", Hint: "export.published, job.failed, custom.NAME, custom.* or *. Left empty: export.published and job.failed."},
		{Name: "job_kinds", Label: "Kinds of jobs", Kind: "text", Hint: "Left empty: all of them."}}}
	if of(r).principal.scope.All {
		v.Fields = slices.Insert(v.Fields, 1, formField{Name: "tenant", Label: "Tenant", Kind: "text", Hint: "Whose notices it gets. Left empty it is " + jobs.DefaultTenant + "."})
	}
	for i := range v.Fields {
		v.Fields[i].Value = given.Get(v.Fields[i].Name)
	}
	for _, p := range problems {
		i := slices.IndexFunc(v.Fields, func(f formField) bool { return f.Name == p.Field })
		if i < 0 {
			v.Problems = append(v.Problems, p.Field+": "+problemText(p))
		} else if v.Fields[i].Problem == "" {
			v.Fields[i].Problem = problemText(p)
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, status, "targetform", v)
}
