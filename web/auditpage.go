package web

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
)

// auditRoutes are the part of the table about the audit log.
func (s *Server) auditRoutes() []route {
	return []route{
		{"GET", "/audit", signedIn, storage.VerbAdminister, s.auditPage},
		{"GET", "/api/v1/audit", api, storage.VerbAdminister, s.apiAudit},
	}
}

const (
	// auditPageRows is how many entries a page shows.
	auditPageRows = 100
	// maxAuditCSV bounds how many entries one CSV holds.
	maxAuditCSV = 100_000
)

// auditView is the page of the audit log.
type auditView struct {
	Filters filterBar
	Zone    string // of the chosen day
	Rows    []auditRow
	Empty   emptyState
	Pager   pager
	CSV     string // the address of the same as CSV
}

// auditRow is an entry in words.
type auditRow struct {
	storage.AuditEntry
	Words string
	Href  string // of the object, when there is a page of it
	What  string // a title or a file, when the entry has one
	More  string // the other details
}

func (s *Server) auditPage(w http.ResponseWriter, r *http.Request) error {
	l := newListing(r, "actor", "action", "object", "day", "zone")
	if l.Get("day") == "" {
		l.chosen.Del("zone") // the script always sends it
	}
	f, err := auditFilter(l.Get)
	if err != nil {
		return err
	}
	f.After, f.Limit = l.After, auditPageRows
	page, err := s.store.AuditLog(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	action := formField{Name: "action", Label: "What", Kind: "select", Options: []formOption{{Text: "everything"}}}
	for _, a := range auditWords() {
		action.Options = append(action.Options, formOption{Value: a.Action, Text: a.Words})
	}
	v := auditView{
		Filters: l.filters(4, formField{Name: "actor", Label: "Who", Kind: "search", Hint: "the whole name"}, action,
			formField{Name: "object", Label: "To what", Kind: "search", Hint: "an id or a name"}, formField{Name: "day", Label: "Day", Kind: "date"}),
		Zone: l.Get("zone"), Pager: l.pager(page.Next), CSV: strings.Replace(l.Address(""), l.Path, "/api/v1/audit", 1),
		Empty: l.nothing("entries", emptyState{Title: "Nothing was written down yet.", Text: "Who asks for an export, downloads, cancels or changes something is listed here."}),
	}
	v.CSV += map[bool]string{true: "&", false: "?"}[strings.Contains(v.CSV, "?")] + "format=csv"
	for _, e := range page.Items {
		v.Rows = append(v.Rows, rowOf(e))
	}
	return s.render(w, r, http.StatusOK, "audit", v)
}

// auditFilter reads what was chosen; a day is one of its zone, or else of UTC.
func auditFilter(get func(string) string) (storage.AuditFilter, error) {
	f := storage.AuditFilter{Actor: get("actor"), Action: get("action"), ObjectKind: get("object_kind"), ObjectID: get("object")}
	refused := new(invalid.Error)
	for name, into := range map[string]*time.Time{"from": &f.From, "to": &f.To} {
		text := get(name)
		if text == "" {
			continue
		}
		var err error
		if *into, err = time.Parse(time.RFC3339, text); err != nil {
			refused.Add(name, text, "is not a time such as 2026-11-30T10:00:00Z")
		}
	}
	if day := get("day"); day != "" {
		zone, err := report.LoadZone(get("zone"))
		if get("zone") == "" {
			zone, err = time.UTC, nil
		}
		if err != nil {
			refused.Add("zone", get("zone"), "is not a time zone such as Europe/Berlin")
			zone = time.UTC
		}
		from, err := time.ParseInLocation(time.DateOnly, day, zone)
		if err != nil {
			refused.Add("day", day, "is not a day such as 2026-11-30")
		}
		f.From, f.To = from, from.AddDate(0, 0, 1)
	}
	return f, refused.OrNil()
}

// rowOf says an entry in words.
func rowOf(e storage.AuditEntry) auditRow {
	row := auditRow{AuditEntry: e, Words: inWords(e.Action)}
	switch e.ObjectKind {
	case "job", "export":
		row.Href = "/" + e.ObjectKind + "s/" + e.ObjectID
	}
	var details map[string]any
	if json.Unmarshal(e.Details, &details) != nil {
		return row
	}
	for _, name := range []string{"file", "title", "name", "number"} {
		if text, is := details[name].(string); is && text != "" {
			row.What = text
			delete(details, name)
			break
		}
	}
	var more []string
	for _, name := range slices.Sorted(maps.Keys(details)) {
		value := fmt.Sprint(details[name])
		if id, err := uuid.Parse(value); err == nil {
			value = id.String()[24:] // as lists show ids
		} else if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
			value = at.Format("2006-01-02 15:04 UTC")
		}
		more = append(more, strings.ReplaceAll(name, "_", " ")+" "+value)
	}
	row.More = strings.Join(more, ", ")
	return row
}

// apiAudit lists entries, the newest first, as JSON or with format=csv as CSV.
func (s *Server) apiAudit(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f, err := auditFilter(q.Get)
	if err != nil {
		return err
	}
	refused := new(invalid.Error)
	f.After, f.Limit = q.Get("after"), limit(q, refused)
	format := q.Get("format")
	if format != "" && format != "json" && format != "csv" {
		refused.Add("format", format, "must be json or csv")
	}
	if err := refused.OrNil(); err != nil {
		return err
	}
	if format == "csv" {
		return s.auditCSV(w, r, f)
	}
	page, err := s.store.AuditLog(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	return respondPage(w, r, page)
}

// auditCSV sends all entries that match, page by page, and says in its last line
// where to go on when there are too many for one file.
func (s *Server) auditCSV(w http.ResponseWriter, r *http.Request, f storage.AuditFilter) error {
	f.Limit = 200
	page, err := s.store.AuditLog(r.Context(), of(r).principal.scope, f)
	if err != nil {
		return err
	}
	if err := s.audit(r, auditAuditLogDownload, object{kind: "audit"}, map[string]any{"query": r.URL.RawQuery}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", attachment("audit-"+time.Now().UTC().Format(time.DateOnly)+".csv"))
	w.Header().Set("Cache-Control", "private, no-store")
	out := csv.NewWriter(w)
	_ = out.Write([]string{"at", "actor", "actor_kind", "tenant", "action", "object_kind", "object_id", "details", "request_id", "address", "id"})
	for n := len(page.Items); ; n += len(page.Items) {
		for _, e := range page.Items {
			_ = out.Write(csvCells(e))
		}
		if out.Flush(); out.Error() != nil {
			return out.Error()
		}
		if page.Next == "" {
			return nil
		}
		if n >= maxAuditCSV {
			_ = out.Write([]string{"There are more entries: ask again with after=" + page.Next})
			out.Flush()
			return out.Error()
		}
		f.After = page.Next
		if page, err = s.store.AuditLog(r.Context(), of(r).principal.scope, f); err != nil {
			s.log.Error("the audit log was cut off", "request_id", of(r).id, "error", err)
			panic(http.ErrAbortHandler) // so that nobody takes it for whole
		}
	}
}

// csvCells are an entry for CSV. What a spreadsheet would take for a formula gets an apostrophe.
func csvCells(e storage.AuditEntry) []string {
	tenant := ""
	if e.Tenant != nil {
		tenant = *e.Tenant
	}
	cells := []string{e.At.UTC().Format(time.RFC3339Nano), e.Actor, string(e.ActorKind), tenant, e.Action, e.ObjectKind, e.ObjectID, string(e.Details), e.RequestID, e.Address, e.ID.String()}
	for i, c := range cells {
		if c != "" && strings.ContainsRune("=+-@\t\r", rune(c[0])) {
			cells[i] = "'" + c
		}
	}
	return cells
}
