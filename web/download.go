package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// publication is an attempt that is or was current.
type publication struct {
	attempt uuid.UUID
	token   int64
	at      time.Time
}

// opened is a file that can be sent. Who gets it closes it.
type opened struct {
	publication
	storage.File
	export  storage.Export
	content files.Reader
}

// download sends a file of a publication: the current one, or the one that the
// path or the query parameter attempt names.
func (s *Server) download(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	o, err := lookTwice(func() (opened, error) { return s.openFile(r, id) })
	if err != nil {
		return s.whyNotOpened(r.Context(), o.publication, err)
	}
	defer o.content.Close()
	if err := s.auditDownload(r, o); err != nil {
		return err
	}
	sendFile(w, r, o)
	return nil
}

// auditDownload writes down that somebody takes a file, before the first byte
// leaves. Who only looks (HEAD), or has it already, takes nothing.
func (s *Server) auditDownload(r *http.Request, o opened) error {
	if r.Method == http.MethodHead || r.Header.Get("If-None-Match") == o.tag() {
		return nil
	}
	return s.audit(r, auditDownloaded, exportObject(o.export), map[string]any{
		"file": o.Name, "token": o.token, "attempt": o.attempt, "range": r.Header.Get("Range"),
	})
}

// lookTwice looks once more for a file that is not there: its publication may
// have been replaced and swept between our look at the pointer and our open.
func lookTwice(look func() (opened, error)) (opened, error) {
	o, err := look()
	if errors.Is(err, files.ErrNotFound) {
		return look()
	}
	return o, err
}

// openFile opens a file by the name that people see, through the pointer. The
// error [files.ErrNotFound] comes with the publication that has lost it.
func (s *Server) openFile(r *http.Request, export uuid.UUID) (opened, error) {
	e, err := s.store.Export(r.Context(), of(r).principal.scope, export)
	if err != nil {
		return opened{}, err
	}
	p, err := s.publication(r, e)
	if err != nil {
		return opened{}, err
	}
	return s.openPublished(r.Context(), e, p, r.PathValue("name"))
}

// openPublished opens a file of a publication by the name that people see.
func (s *Server) openPublished(ctx context.Context, e storage.Export, p publication, name string) (opened, error) {
	file, err := s.fileNamed(ctx, p.attempt, name)
	if err != nil {
		return opened{}, err
	}
	f, err := s.files.Open(ctx, files.Place{Export: e.ID, Token: p.token, Attempt: p.attempt}, file.Object)
	if err != nil {
		return opened{publication: p}, err
	}
	if f.Size() != file.Size {
		_ = f.Close()
		return opened{}, fmt.Errorf("file %q of attempt %s has %s, %d were published", file.Name, p.attempt, count.Of(f.Size(), "byte"), file.Size)
	}
	return opened{p, file, e, f}, nil
}

// fileNamed is the file of an attempt that people see under a name.
func (s *Server) fileNamed(ctx context.Context, attempt uuid.UUID, name string) (storage.File, error) {
	list, err := s.store.Files(ctx, attempt)
	if err != nil {
		return storage.File{}, err
	}
	i := slices.IndexFunc(list, func(f storage.File) bool { return f.Name == name })
	if i < 0 {
		return storage.File{}, errMissing
	}
	return list[i], nil
}

// publication is what the request asks for. What was never published cannot be downloaded.
func (s *Server) publication(r *http.Request, e storage.Export) (publication, error) {
	pin := cmp.Or(r.PathValue("attempt"), r.URL.Query().Get("attempt"))
	if pin == "" && e.AttemptID != nil {
		pin = e.AttemptID.String()
	}
	id, err := uuid.Parse(pin)
	if err != nil {
		return publication{}, errMissing
	}
	return s.publicationOf(r.Context(), e, id)
}

// publicationOf is the attempt of an export as a publication whose files are there.
func (s *Server) publicationOf(ctx context.Context, e storage.Export, attempt uuid.UUID) (publication, error) {
	if e.AttemptID != nil && attempt == *e.AttemptID {
		return publication{attempt, e.LastToken, *e.PublishedAt}, nil
	}
	a, err := s.store.Attempt(ctx, attempt)
	if err != nil {
		return publication{}, err
	}
	if a.ExportID != e.ID || !wasPublished(a) {
		return publication{}, errMissing
	}
	if a.State == storage.AttemptDeleted {
		return publication{}, errFilesGone
	}
	return publication{a.ID, a.Token, *a.FinishedAt}, nil
}

// whyNotOpened is the error of a file that could not be opened.
func (s *Server) whyNotOpened(ctx context.Context, p publication, err error) error {
	if errors.Is(err, files.ErrNotFound) {
		return s.filesGone(ctx, p, err)
	}
	return err
}

// filesGone tells a publication that was swept from one whose files should be there.
func (s *Server) filesGone(ctx context.Context, p publication, missing error) error {
	a, err := s.store.Attempt(ctx, p.attempt)
	if err != nil {
		return err
	}
	if a.State == storage.AttemptDeleted || a.State == storage.AttemptSuperseded {
		return errFilesGone
	}
	e, err := s.store.Export(ctx, storage.Scope{All: true}, a.ExportID) // who may see it was looked at
	if err == nil && e.FilesLostAt != nil && e.AttemptID != nil && *e.AttemptID == a.ID {
		return errFilesLost
	}
	return fmt.Errorf("law L1 is broken, the current publication has lost a file: %w", missing)
}

// tag is the strong entity tag of the file's bytes.
func (o opened) tag() string { return `"` + o.SHA256.String() + `"` }

// sendFile answers with a file, whole or in ranges (RFC 9110 section 14). The
// entity tag is the content's hash, so it is strong and may resume a download.
func sendFile(w http.ResponseWriter, r *http.Request, o opened) {
	h := w.Header()
	h.Set("Content-Type", o.MediaType)
	h.Set("Content-Disposition", attachment(o.Name))
	h.Set("ETag", o.tag())
	h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(o.SHA256)+":") // RFC 9530, of the whole file also when a range is sent
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	http.ServeContent(w, r, "", o.at, o.content)
}

// attachment is a Content-Disposition (RFC 6266) that saves under a name: as
// plain letters for old programs, and in UTF-8 (RFC 8187) where that is not the same.
func attachment(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\%/`, r) {
			return '_'
		}
		return r
	}, name)
	value := `attachment; filename="` + plain + `"`
	if plain != name {
		value += "; filename*=UTF-8''" + percentEncode(name)
	}
	return value
}

// percentEncode leaves the attr-char of RFC 8187 section 3.2.1 as they are.
func percentEncode(s string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&+-.^_`|~"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
