package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// detailRoutes are what the pages of one export need besides their own, and the pages of invoices.
func (s *Server) detailRoutes() []route {
	return append([]route{
		{"GET", "/exports/{id}/delete", signedIn, storage.VerbAdminister, s.deletePage},
		{"POST", "/exports/{id}/delete", signedIn, storage.VerbAdminister, s.deleteForm},
	}, s.invoiceRoutes()...)
}

// publicationRow is a line of the history of publications.
type publicationRow struct {
	storage.Publication
	Current bool
}

// FileURL is the address of a file of this publication.
func (p publicationRow) FileURL(f storage.File) string { return pinnedURL(p.ExportID, f) }

// There says that the files can be downloaded.
func (p publicationRow) There() bool { return p.State != storage.AttemptDeleted }

// Lasted is for how long it was current; 0 for the current one.
func (p publicationRow) Lasted() time.Duration {
	if p.ReplacedAt == nil || p.FinishedAt == nil {
		return 0
	}
	return p.ReplacedAt.Sub(*p.FinishedAt)
}

// showPublications fills in a page of the history: ?before= is the token below which it begins.
func (s *Server) showPublications(r *http.Request, v *exportView) error {
	if text := r.URL.Query().Get("before"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return storage.ErrCursor
		}
		v.Before = n
	}
	list, err := s.store.Publications(r.Context(), v.ID, v.Before, maxPublications+1)
	if err != nil {
		return err
	}
	if len(list) > maxPublications {
		list = list[:maxPublications]
		v.Older = list[maxPublications-1].Token
	}
	for _, p := range list {
		v.Publications = append(v.Publications, publicationRow{p, v.AttemptID != nil && *v.AttemptID == p.ID})
	}
	if v.Current == nil {
		return nil
	}
	j, err := s.store.Job(r.Context(), of(r).principal.scope, v.Current.JobID)
	v.CurrentJob = &j
	return err
}

// deleteView is the page that asks whether an export is to be deleted.
type deleteView struct {
	storage.Export
	storage.ExportWeight
	Name  string
	Kept  []keptRow // what forbids it; one of these is to be taken back first
	Grace string    // for how long it can be restored
}

func (s *Server) deletePage(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	scope := of(r).principal.scope
	e, err := s.store.Export(r.Context(), scope, id)
	if err != nil {
		return err
	}
	weight, err := s.store.WeighExport(r.Context(), scope, id)
	if err != nil {
		return err
	}
	v := deleteView{ExportWeight: weight, Export: e, Name: exportName(e), Grace: showDuration(s.superseded())}
	kept, err := s.store.Kept(r.Context(), storage.Scope{Tenant: e.Tenant}, storage.KeptFilter{Export: id, Limit: maxKeepers})
	if err != nil {
		return err
	}
	for _, k := range kept.Items {
		if k.What != "publication" { // which does not forbid it
			v.Kept = append(v.Kept, keptRow{Kept: k})
		}
	}
	return s.render(w, r, http.StatusOK, "delete", v)
}

// deleteForm deletes an export and shows the list from which it can be restored.
func (s *Server) deleteForm(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	who := of(r).principal
	if _, err := s.store.Export(r.Context(), who.scope, id); err != nil {
		return err
	}
	e, err := auditEntry(r, auditDeleted, object{}, nil)
	if err != nil {
		return err
	}
	if err := s.store.DeleteExport(r.Context(), who.scope, id, e); err != nil {
		return err
	}
	s.log.Info("export deleted", "request_id", of(r).id, "export", id, "who", who.name)
	http.Redirect(w, r, "/settings/deleted?done=deleted", http.StatusSeeOther)
	return nil
}
