package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// keepPageRoutes are the part of the table about the pages of what is kept by hand, and of what was deleted.
func (s *Server) keepPageRoutes() []route {
	const view, operate, administer = storage.VerbView, storage.VerbOperate, storage.VerbAdminister
	return append([]route{
		{"GET", "/settings/kept", signedIn, view, s.keptPage},
		{"GET", "/settings/deleted", signedIn, administer, s.deletedPage},
		{"GET", "/exports/{id}/keep", signedIn, view, s.keepPage},
		{"POST", "/exports/{id}/pin", signedIn, operate, s.pinForm},
		{"POST", "/exports/{id}/unpin", signedIn, operate, s.unpinForm},
		{"POST", "/exports/{id}/hold", signedIn, administer, s.holdForm},
		{"POST", "/exports/{id}/release", signedIn, administer, s.releaseForm},
		{"POST", "/exports/{id}/restore", signedIn, administer, s.restoreForm},
		{"GET", "/api/v1/retention/kept", api, view, s.apiKept},
		{"GET", "/api/v1/retention/deleted", api, administer, s.apiDeleted},
	}, s.tenantHoldRoutes()...)
}

// keptRow is a pin or a hold.
type keptRow struct {
	storage.Kept
	End *confirmation // takes it back; nil for who may not
}

// Label is what kind of thing it is.
func (k keptRow) Label() string {
	return map[string]string{"pin": "Pinned", "publication": "One publication pinned", "hold": "On hold"}[k.What]
}

// Path is the address of the page where it can be taken back; empty when there is none.
func (k keptRow) Path() string {
	if k.Export == nil {
		return ""
	}
	return "/exports/" + k.Export.String() + "/keep"
}

// All is what a hold without an export is on.
func (k keptRow) All() string {
	if k.Kind == nil {
		return "everything of " + k.Tenant
	}
	return "every " + *k.Kind + " of " + k.Tenant
}

// part names what a hold without an export is on, in an address.
func (k keptRow) part() string {
	q := url.Values{"tenant": {k.Tenant}}
	if k.Kind != nil {
		q.Set("kind", *k.Kind)
	}
	return q.Encode()
}

// Command takes a hold back that is on more than one export.
func (k keptRow) Command() string {
	text := "fenceline export release --tenant " + k.Tenant
	if k.Kind != nil {
		text += " --kind " + *k.Kind
	}
	return text
}

// newKeptRow says what somebody may do about it.
func newKeptRow(k storage.Kept, who principal) keptRow {
	row := keptRow{Kept: k}
	switch {
	case k.Export == nil && who.may(storage.VerbAdminister):
		row.End = &confirmation{ID: "release-" + k.ID.String(), Label: "Release", Button: "Release " + row.All(), Action: "/settings/kept/release?" + row.part(),
			Text: "Rules, deletion and clean-ups count again for " + row.All() + ", unless it is on hold besides. What is due goes with the next clean-up."}
	case k.Export == nil:
	case k.What == "hold" && who.may(storage.VerbAdminister):
		row.End = &confirmation{ID: "release", Label: "Release", Button: "Release the hold", Action: "/exports/" + k.Export.String() + "/release",
			Text: "Rules, deletion and clean-ups count for it again. What is due goes with the next clean-up."}
	case k.What != "hold" && who.may(storage.VerbOperate):
		row.End = &confirmation{ID: "unpin-" + k.ID.String(), Label: "Unpin", Button: "Unpin it", Action: "/exports/" + k.Export.String() + "/unpin",
			Text: "The rules count for it again. What is due goes with the next clean-up."}
		if k.What == "publication" {
			row.End.Action += "?attempt=" + k.ID.String()
		}
	}
	return row
}

func (s *Server) keptPage(w http.ResponseWriter, r *http.Request) error {
	return s.showKept(w, r, http.StatusOK, nil, nil)
}

// showKept lists pins and holds, with the form that puts a tenant on hold as it was sent when there are problems.
func (s *Server) showKept(w http.ResponseWriter, r *http.Request, status int, given url.Values, problems []invalid.Problem) error {
	who, l := of(r).principal, listing{Path: "/settings/kept", After: r.URL.Query().Get("after")}
	page, err := s.store.Kept(r.Context(), who.scope, storage.KeptFilter{After: l.After, Limit: settingsPageSize})
	if err != nil {
		return err
	}
	v := settingsView{Tab: "kept", Pager: l.pager(page.Next), Fields: askTenantHold(who, given), Done: doneWord(r.URL.Query().Get("done"))}
	for _, k := range page.Items {
		row := keptRow{Kept: k}
		if k.Export == nil { // the others have a page of their own
			row = newKeptRow(k, who)
		}
		v.Kept = append(v.Kept, row)
	}
	v.Problem = place(v.Fields, problems)
	return s.showSettings(w, r, status, v)
}

// deletedRow is an export that can be restored.
type deletedRow struct {
	storage.DeletedExport
	Name    string
	Restore confirmation
}

func (s *Server) deletedPage(w http.ResponseWriter, r *http.Request) error {
	l := newListing(r)
	page, err := s.store.DeletedExports(r.Context(), of(r).principal.scope, l.After, settingsPageSize)
	if err != nil {
		return err
	}
	v := settingsView{Tab: "deleted", Pager: l.pager(page.Next), Done: doneWord(r.URL.Query().Get("done")), Grace: showDuration(s.superseded())}
	for _, d := range page.Items {
		text := "It can be opened and published to again. Jobs that were cancelled stay so."
		if d.Expired {
			text += " Pin it too, or its rule lets it expire again."
		}
		v.Deleted = append(v.Deleted, deletedRow{d, exportName(storage.Export{Title: d.Title, Key: d.Key}),
			confirmation{ID: "restore-" + d.ID.String(), Label: "Restore", Button: "Restore it", Safe: true, Text: text, Action: "/exports/" + d.ID.String() + "/restore"}})
	}
	return s.showSettings(w, r, http.StatusOK, v)
}

// keepView is the page of what keeps one export.
type keepView struct {
	storage.Export
	Name      string
	Done      string
	Keeping   string // until when the current publication stays
	Kept      []keptRow
	More      bool // there are more
	Held      bool // by a hold of its own
	Pin, Hold []formField
	Problem   string
}

// maxKeepers is how many pins and holds the page of one export lists.
const maxKeepers = 50

func (s *Server) keepPage(w http.ResponseWriter, r *http.Request) error {
	return s.showKeep(w, r, http.StatusOK, "", nil)
}

// showKeep shows the pins and holds of an export. form is pin or hold when it was sent with problems.
func (s *Server) showKeep(w http.ResponseWriter, r *http.Request, status int, form string, problems []invalid.Problem) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	e, err := s.store.Export(r.Context(), who.scope, id)
	if err != nil {
		return err
	}
	v := keepView{Export: e, Name: exportName(e), Done: doneWord(r.URL.Query().Get("done"))}
	if e.AttemptID != nil {
		if v.Keeping, err = s.keeping(r, id); err != nil {
			return err
		}
	}
	kept, err := s.store.Kept(r.Context(), storage.Scope{Tenant: e.Tenant}, storage.KeptFilter{Export: id, Limit: maxKeepers})
	if err != nil {
		return err
	}
	v.More = kept.Next != ""
	for _, k := range kept.Items {
		v.Kept = append(v.Kept, newKeptRow(k, who))
		v.Held = v.Held || k.What == "hold" && k.Export != nil
	}
	if err := s.offerKeep(r, &v, form); err != nil {
		return err
	}
	if form == "pin" {
		v.Problem = place(v.Pin, problems)
	} else {
		v.Problem = place(v.Hold, problems)
	}
	return s.render(w, r, status, "keep", v)
}

// offerKeep makes the forms that somebody may send.
func (s *Server) offerKeep(r *http.Request, v *keepView, sent string) error {
	who := of(r).principal
	why := func(form, name string) formField { // another name in each form, as it is an id in the page
		f := formField{Name: name, Label: "Why", Kind: "text", Required: true, Hint: "For who finds it a year later."}
		if form == sent {
			f.Value = r.PostForm.Get(name)
		}
		return f
	}
	if who.may(storage.VerbAdminister) && !v.Held {
		v.Hold = []formField{why("hold", "reason")}
	}
	if !who.may(storage.VerbOperate) {
		return nil
	}
	list, err := s.store.Publications(r.Context(), v.ID, 0, maxPublications)
	if err != nil {
		return err
	}
	what := formField{Name: "attempt", Label: "What", Kind: "select", Options: []formOption{{Value: "", Text: "The export: all its publications"}}}
	for _, p := range list {
		if p.State != storage.AttemptDeleted {
			what.Options = append(what.Options, formOption{Value: p.ID.String(), Text: "Only the publication of token " + showNumber(p.Token)})
		}
	}
	if sent == "pin" {
		what.Value = r.PostForm.Get("attempt")
	}
	v.Pin = []formField{what, why("pin", "note")}
	return nil
}

// keepForm does something to an export by a form, and shows what keeps it then.
// What is wrong with the form is shown in it.
func (s *Server) keepForm(w http.ResponseWriter, r *http.Request, form, action, done string, do func(storage.Scope, uuid.UUID, storage.AuditEntry) error) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	scope := of(r).principal.scope
	if _, err := s.store.Keeping(r.Context(), scope, id, s.superseded()); err != nil {
		return err
	}
	if err := parseForm(w, r); err != nil {
		return err
	}
	e, err := auditEntry(r, action, object{}, nil)
	if err != nil {
		return err
	}
	err = do(scope, id, e)
	var bad *invalid.Error
	if errors.As(err, &bad) && form != "" {
		return s.showKeep(w, r, http.StatusUnprocessableEntity, form, bad.Problems)
	}
	if err != nil {
		return err
	}
	s.log.Info(action, "request_id", of(r).id, "export", id, "who", of(r).principal.name)
	http.Redirect(w, r, "/exports/"+id.String()+"/keep?done="+done, http.StatusSeeOther)
	return nil
}

// noteOf reads why; a note is needed.
func noteOf(form url.Values, name string) (string, error) {
	note := strings.TrimSpace(form.Get(name))
	if note == "" {
		return "", invalid.New(name, "", "is needed: say why, for who finds it later")
	}
	return note, nil
}

// publicationOf reads an attempt; nil when there is none.
func publicationOf(text string) (*uuid.UUID, error) {
	if text == "" {
		return nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, invalid.New("attempt", text, "must be the id of a publication")
	}
	return &id, nil
}

func (s *Server) pinForm(w http.ResponseWriter, r *http.Request) error {
	return s.keepForm(w, r, "pin", auditPinned, "pinned", func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		note, err := noteOf(r.PostForm, "note")
		if err != nil {
			return err
		}
		attempt, err := publicationOf(r.PostForm.Get("attempt"))
		if err != nil {
			return err
		}
		return s.store.PinExport(r.Context(), scope, id, attempt, note, e)
	})
}

func (s *Server) unpinForm(w http.ResponseWriter, r *http.Request) error {
	return s.keepForm(w, r, "", auditUnpinned, "unpinned", func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		attempt, err := publicationOf(r.URL.Query().Get("attempt"))
		if err != nil {
			return err
		}
		return s.store.UnpinExport(r.Context(), scope, id, attempt, e)
	})
}

func (s *Server) holdForm(w http.ResponseWriter, r *http.Request) error {
	return s.keepForm(w, r, "hold", auditHeld, "held", func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		note, err := noteOf(r.PostForm, "reason")
		if err != nil {
			return err
		}
		return s.store.HoldExport(r.Context(), scope, id, note, e)
	})
}

func (s *Server) releaseForm(w http.ResponseWriter, r *http.Request) error {
	return s.keepForm(w, r, "", auditReleased, "released", func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		return s.store.ReleaseExport(r.Context(), scope, id, e)
	})
}

func (s *Server) restoreForm(w http.ResponseWriter, r *http.Request) error {
	return s.keepForm(w, r, "", auditRestored, "restored", func(scope storage.Scope, id uuid.UUID, e storage.AuditEntry) error {
		return s.store.RestoreExport(r.Context(), scope, id, e)
	})
}

// apiKept lists pins and holds.
func (s *Server) apiKept(w http.ResponseWriter, r *http.Request) error {
	q, refused := r.URL.Query(), new(invalid.Error)
	f := storage.KeptFilter{Export: optionalID("export", q.Get("export"), refused), After: q.Get("after"), Limit: limit(q, refused)}
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.Kept(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}

// apiDeleted lists exports that can be restored.
func (s *Server) apiDeleted(w http.ResponseWriter, r *http.Request) error {
	q, refused := r.URL.Query(), new(invalid.Error)
	most := limit(q, refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.DeletedExports(r.Context(), of(r).principal.scope, q.Get("after"), most)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}
