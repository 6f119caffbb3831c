package storage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// fileOf is the name of the file that [world.seal] seals.
const fileOf = "orders.csv"

// link makes a link to a publication that opens twice.
func (w *world) link(b storage.Begun) (storage.Link, string) {
	w.t.Helper()
	a, err := w.store.Attempt(w.ctx, b.ID)
	w.must(err)
	l, secret, err := w.store.MakeLink(w.ctx, storage.Scope{All: true}, storage.NewLink{
		Export: a.ExportID, Attempt: a.ID, File: fileOf, MadeBy: "Nadia", Valid: time.Hour, MaxUses: 2,
	})
	w.must(err)
	return l, secret
}

func TestLinkOpensOnePublication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job, one := w.published("e")
	l, secret := w.link(one)
	_, two := w.published("e")
	got, err := w.store.LinkBySecret(w.ctx, secret)
	w.must(err)
	if got.AttemptID != one.ID || got.ExportID != job.ExportID || got.FileName != fileOf || got.Uses != 0 || got.Ended(time.Now()) {
		t.Errorf("after another publication %s the link is %+v", two.ID, got)
	}
	if _, err := w.store.LinkBySecret(w.ctx, secret+"x"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another secret gives %v", err)
	}
	w.must(w.store.UseLink(w.ctx, l.ID))
	w.must(w.store.UseLink(w.ctx, l.ID))
	if err := w.store.UseLink(w.ctx, l.ID); !errors.Is(err, storage.ErrLinkEnded) {
		t.Errorf("a third use of two gives %v", err)
	}
	if got, err = w.store.LinkBySecret(w.ctx, secret); !errors.Is(err, storage.ErrLinkEnded) || got.Uses != 2 || !got.Ended(time.Now()) {
		t.Errorf("a used-up link gives %v %+v", err, got)
	}
}

func TestLinkEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job, b := w.published("e")
	l, secret := w.link(b)
	if _, err := w.store.RevokeLink(w.ctx, storage.Scope{Tenant: "other"}, job.ExportID, l.ID, "Eve"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant revokes: %v", err)
	}
	for range 2 {
		got, err := w.store.RevokeLink(w.ctx, storage.Scope{All: true}, job.ExportID, l.ID, "Nadia")
		w.must(err)
		if got.RevokedAt == nil || *got.RevokedBy != "Nadia" {
			t.Errorf("the revoked link is %+v", got)
		}
	}
	if _, err := w.store.LinkBySecret(w.ctx, secret); !errors.Is(err, storage.ErrLinkEnded) {
		t.Errorf("a revoked link gives %v", err)
	}
	if err := w.tryExec("UPDATE fenceline.links SET revoked_at = NULL, revoked_by = NULL"); err == nil {
		t.Error("a revoked link came back")
	}
	short, secret, err := w.store.MakeLink(w.ctx, storage.Scope{All: true}, storage.NewLink{Export: job.ExportID, File: fileOf, MadeBy: "Nadia", Valid: 50 * time.Millisecond})
	w.must(err)
	w.until("the link expires", "SELECT bool_and(expires_at < clock_timestamp()) FROM fenceline.links WHERE revoked_at IS NULL")
	if _, err := w.store.LinkBySecret(w.ctx, secret); !errors.Is(err, storage.ErrLinkEnded) {
		t.Errorf("an expired link gives %v", err)
	}
	page, err := w.store.Links(w.ctx, storage.Scope{All: true}, job.ExportID, "", 1)
	w.must(err)
	if len(page.Items) != 1 || page.Items[0].ID != short.ID || page.Next == "" {
		t.Errorf("the newest link is not the first: %+v", page)
	}
	page, err = w.store.Links(w.ctx, storage.Scope{All: true}, job.ExportID, page.Next, 10)
	w.must(err)
	if len(page.Items) != 1 || page.Items[0].ID != l.ID || page.Next != "" {
		t.Errorf("the second page is %+v", page)
	}
}

func TestLinkToWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job, b := w.published("e")
	running := w.begin(w.insert(newJob("e")))
	all := storage.Scope{All: true}
	for name, c := range map[string]struct {
		scope storage.Scope
		n     storage.NewLink
	}{
		"another tenant's export":   {storage.Scope{Tenant: "other"}, storage.NewLink{Export: job.ExportID, File: fileOf}},
		"no export":                 {all, storage.NewLink{Export: uuid.New(), File: fileOf}},
		"another file":              {all, storage.NewLink{Export: job.ExportID, File: "x.csv"}},
		"an attempt at work":        {all, storage.NewLink{Export: job.ExportID, Attempt: running.ID, File: fileOf}},
		"another export's, by name": {all, storage.NewLink{Export: w.insert(newJob("f")).ExportID, Attempt: b.ID, File: fileOf}},
	} {
		c.n.MadeBy, c.n.Valid = "Nadia", time.Hour
		if _, _, err := w.store.MakeLink(w.ctx, c.scope, c.n); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
