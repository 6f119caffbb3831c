package web

import (
	"cmp"
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// linkRoutes are the part of the table about signed links.
func (s *Server) linkRoutes() []route {
	return []route{
		{"GET", "/l/{secret}", open, "", s.linkRate(s.linkPage)},
		{"GET", "/l/{secret}/file", open, "", s.linkRate(s.linkFile)},
		{"POST", "/exports/{id}/links", signedIn, storage.VerbRequest, s.linkForm},
		{"POST", "/exports/{id}/links/{link}/revoke", signedIn, storage.VerbRequest, s.revokeLinkForm},
		{"GET", "/api/v1/exports/{id}/links", api, storage.VerbView, s.apiLinks},
		{"POST", "/api/v1/exports/{id}/links", api, storage.VerbRequest, s.apiMakeLink},
		{"DELETE", "/api/v1/exports/{id}/links/{link}", api, storage.VerbRequest, s.apiRevokeLink},
	}
}

const (
	// linkValid is how long a link lives when nobody says.
	linkValid = 24 * time.Hour
	// maxLinks is how many links the page of an export lists.
	maxLinks = 20
	// mostUses bounds for how many downloads a link may be made.
	mostUses = 1_000_000
)

// linksView is the part of an export's page about its links.
type linksView struct {
	Rows      []linkRow
	More      bool // there are older ones
	Lifetimes []formOption
	Nonce     string
}

// linkRow is a line of the list of links.
type linkRow struct {
	storage.Link
	Chip chip
}

// showShared fills in the links to an export and what the form offers.
func (s *Server) showShared(r *http.Request, v *exportView) error {
	page, err := s.store.Links(r.Context(), of(r).principal.scope, v.ID, "", maxLinks)
	if err != nil {
		return err
	}
	v.Links.More, v.Links.Nonce = page.Next != "", rand.Text()
	for _, l := range page.Items {
		v.Links.Rows = append(v.Links.Rows, linkRow{l, linkChip(l, time.Now())})
	}
	for _, d := range []time.Duration{time.Hour, linkValid, 3 * 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, s.linkMax} {
		if d < s.linkMax || d == s.linkMax && (len(v.Links.Lifetimes) == 0 || v.Links.Lifetimes[len(v.Links.Lifetimes)-1].Value != d.String()) {
			v.Links.Lifetimes = append(v.Links.Lifetimes, formOption{Value: d.String(), Text: showDuration(d), Chosen: d == linkValid})
		}
	}
	return nil
}

func linkChip(l storage.Link, now time.Time) chip {
	switch {
	case l.RevokedAt != nil:
		return chip{"cancelled", "revoked"}
	case !now.Before(l.ExpiresAt):
		return chip{"superseded", "expired"}
	case l.Ended(now):
		return chip{"superseded", "used up"}
	}
	return chip{"published", "open"}
}

// linkJSON is a link with its address, which is told once.
type linkJSON struct {
	storage.Link
	URL string `json:"url"`
}

// makeLink makes a link to a file of an export: lifetime is a duration such as 24h,
// empty for a day; what is no use of it is refused.
func (s *Server) makeLink(r *http.Request, tx storage.Tx, n storage.NewLink, lifetime string) (linkJSON, error) {
	refused := new(invalid.Error)
	n.Valid = linkValid
	if lifetime != "" {
		var err error
		if n.Valid, err = time.ParseDuration(lifetime); err != nil || n.Valid < time.Second || n.Valid > s.linkMax {
			refused.Add("lifetime", lifetime, "must be a duration from 1s to %s, such as 24h", s.linkMax)
		}
	}
	n.Valid = min(n.Valid, s.linkMax)
	if n.File == "" {
		refused.Add("file", "", "must be the name of a file of the export")
	}
	if n.MaxUses < 0 || n.MaxUses > mostUses {
		refused.Add("max_uses", strconv.Itoa(n.MaxUses), "must be a number from 1 to %d, or be left out", mostUses)
	}
	if err := refused.OrNil(); err != nil {
		return linkJSON{}, err
	}
	who := of(r).principal
	n.MadeBy = who.name
	l, secret, err := s.store.MakeLinkIn(r.Context(), tx, who.scope, n)
	if errors.Is(err, storage.ErrGone) {
		err = errFilesGone
	}
	if err != nil {
		return linkJSON{}, err
	}
	if err := s.auditLink(r, tx, auditLinked, l, map[string]any{"expires": l.ExpiresAt, "max_uses": l.MaxUses}); err != nil {
		return linkJSON{}, err
	}
	return linkJSON{l, s.base(r) + "/l/" + secret}, nil
}

// auditLink writes down what became of a link: whose it is, and what it opens. tx is nil for what was done already.
func (s *Server) auditLink(r *http.Request, tx storage.Tx, action string, l storage.Link, more map[string]any) error {
	e, err := s.store.Export(r.Context(), storage.Scope{All: true}, l.ExportID)
	if err != nil {
		return err
	}
	details := map[string]any{"file": l.FileName, "attempt": l.AttemptID, "link": l.ID, "made_by": l.MadeBy}
	for name, v := range more {
		if most, is := v.(*int); !is || most != nil {
			details[name] = v
		}
	}
	if tx != nil {
		return s.auditIn(r, tx, action, exportObject(e), details)
	}
	return s.audit(r, action, exportObject(e), details)
}

// linkedView is the page that shows a new link, once.
type linkedView struct {
	linkJSON
	Name string // of the export
}

// Most is how often the link opens; 0 is any number.
func (v linkedView) Most() int {
	if v.MaxUses == nil {
		return 0
	}
	return *v.MaxUses
}

// linkForm makes a link and shows it.
func (s *Server) linkForm(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	if err := parseForm(w, r); err != nil {
		return err
	}
	n := storage.NewLink{Export: id, File: r.PostForm.Get("file")}
	refused := new(invalid.Error)
	n.Attempt = optionalID("attempt", r.PostForm.Get("attempt"), refused)
	if text := strings.TrimSpace(r.PostForm.Get("max_uses")); text != "" {
		if n.MaxUses, err = strconv.Atoi(text); err != nil || n.MaxUses < 1 {
			refused.Add("max_uses", text, "must be a number from 1 to %d", mostUses)
		}
	}
	if err := refused.OrNil(); err != nil {
		return err
	}
	l, _, err := formOnce(s, r, func(tx storage.Tx) (linkJSON, error) { return s.makeLink(r, tx, n, r.PostForm.Get("lifetime")) })
	if err != nil {
		return err
	}
	e, err := s.store.Export(r.Context(), of(r).principal.scope, id)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, http.StatusOK, "linked", linkedView{l, exportName(e)})
}

// apiMakeLink makes a link: 201, with its address, which is told this once.
func (s *Server) apiMakeLink(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	var attempt, lifetime string
	n := storage.NewLink{Export: id}
	if err := readObject(w, r, map[string]any{"file": &n.File, "attempt": &attempt, "lifetime": &lifetime, "max_uses": &n.MaxUses}); err != nil {
		return err
	}
	refused := new(invalid.Error)
	n.Attempt = optionalID("attempt", attempt, refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	var l linkJSON
	err = s.store.Transaction(r.Context(), func(tx storage.Tx) error {
		l, err = s.makeLink(r, tx, n, lifetime)
		return err
	})
	if err != nil {
		return err
	}
	return respond(w, http.StatusCreated, l)
}

// apiLinks lists the links to an export, the newest first, without what opens them.
func (s *Server) apiLinks(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	q, refused := r.URL.Query(), new(invalid.Error)
	most := limit(q, refused)
	if err := refused.OrNil(); err != nil {
		return err
	}
	page, err := s.store.Links(r.Context(), of(r).principal.scope, id, q.Get("after"), most)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}

// apiRevokeLink ends a link: 200, with the link.
func (s *Server) apiRevokeLink(w http.ResponseWriter, r *http.Request) error {
	l, err := s.revokeLink(r)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, l)
}

func (s *Server) revokeLinkForm(w http.ResponseWriter, r *http.Request) error {
	l, err := s.revokeLink(r)
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/exports/"+l.ExportID.String()+"#links", http.StatusSeeOther)
	return nil
}

func (s *Server) revokeLink(r *http.Request) (storage.Link, error) {
	id, err := pathID(r)
	if err != nil {
		return storage.Link{}, err
	}
	link, err := uuid.Parse(r.PathValue("link"))
	if err != nil {
		return storage.Link{}, errMissing
	}
	who := of(r).principal
	l, err := s.store.RevokeLink(r.Context(), who.scope, id, link, who.name)
	if err != nil {
		return l, err
	}
	return l, s.auditLink(r, nil, auditLinkRevoked, l, nil)
}

// behindLink is what a link opens.
type behindLink struct {
	storage.Link
	File   storage.File
	Export storage.Export
	// Newer is when another publication took its place, nil when it is current.
	Newer *time.Time
	pub   publication
}

// behind looks up what the secret of a request opens. It uses nothing up.
func (s *Server) behind(w http.ResponseWriter, r *http.Request) (b behindLink, err error) {
	h := w.Header()
	h.Set("Referrer-Policy", "no-referrer") // the address is the secret
	h.Set("Cache-Control", "private, no-store")
	h.Set("X-Robots-Tag", "noindex")
	secret := r.PathValue("secret")
	if len(secret) > maxSecret {
		return b, errMissing
	}
	if b.Link, err = s.store.LinkBySecret(r.Context(), secret); err != nil {
		return b, err
	}
	b.Export, err = s.store.Export(r.Context(), storage.Scope{All: true}, b.ExportID)
	if errors.Is(err, storage.ErrNotFound) {
		return b, errGone
	}
	if err != nil {
		return b, err
	}
	if b.pub, err = s.publicationOf(r.Context(), b.Export, b.AttemptID); err != nil {
		return b, err
	}
	if b.File, err = s.fileNamed(r.Context(), b.AttemptID, b.FileName); err != nil {
		return b, err
	}
	if b.Export.AttemptID == nil || *b.Export.AttemptID != b.AttemptID {
		b.Newer = b.Export.PublishedAt
	}
	return b, nil
}

// sharedView is the page behind a link.
type sharedView struct {
	behindLink
	Address string // of the file
	Left    string // how often it opens yet; empty for any number
}

// linkPage says what a link opens, with a button: programs that show previews of
// links come here, and use nothing up.
func (s *Server) linkPage(w http.ResponseWriter, r *http.Request) error {
	b, err := s.behind(w, r)
	if err != nil {
		return err
	}
	v := sharedView{behindLink: b, Address: "/l/" + r.PathValue("secret") + "/file"}
	if b.MaxUses != nil {
		v.Left = count.Of(*b.MaxUses-b.Uses, "more time")
	}
	return s.render(w, r, http.StatusOK, "shared", v)
}

// linkFile sends the file behind a link. Each request that takes something counts
// as a use, also for a part of the file.
func (s *Server) linkFile(w http.ResponseWriter, r *http.Request) error {
	b, err := s.behind(w, r)
	if err != nil {
		return err
	}
	o, err := s.openPublished(r.Context(), b.Export, b.pub, b.FileName)
	if err != nil {
		return s.whyNotOpened(r.Context(), cmp.Or(o.publication, b.pub), err)
	}
	defer o.content.Close()
	if r.Method != http.MethodHead && r.Header.Get("If-None-Match") != o.tag() {
		if err := s.store.UseLink(r.Context(), b.Link.ID); err != nil {
			return err
		}
		details := map[string]any{"token": o.token, "range": r.Header.Get("Range")}
		if err := s.auditLink(r, nil, auditLinkUsed, b.Link, details); err != nil {
			return err
		}
	}
	sendFile(w, r, o)
	return nil
}

// shownPath is the path of a request as logs may hold it: without the secret of a link.
func shownPath(r *http.Request) string {
	rest, is := strings.CutPrefix(r.URL.Path, "/l/")
	if !is {
		return r.URL.Path
	}
	_, tail, more := strings.Cut(rest, "/")
	if more {
		tail = "/" + tail
	}
	return "/l/…" + tail
}
