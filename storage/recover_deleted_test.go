package storage_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// A deleted export comes back with its files when it is restored. A recovery that does not find
// them says so, as of any other pointer.
func TestRecoverLooksAtDeletedExports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	w.must(w.store.Pair(w.ctx, f))
	there, _ := w.publishFile(f, "there", "a")
	job, b := w.publishFile(f, "missing", "b")
	for _, j := range []storage.Job{there, job} {
		w.must(w.store.DeleteExport(w.ctx, everything, j.ExportID))
	}
	_, err := f.Remove(w.ctx, place(job, b))
	w.must(err)
	w.setBack(f)
	sum, found, err := w.recover(f, storage.RecoverOptions{})
	if lost := found["lost"]; !errors.Is(err, storage.ErrFilesLost) || sum.Lost != 1 || sum.Pointers != 2 || len(lost) != 1 ||
		lost[0].Export != job.ExportID || !strings.Contains(lost[0].Why, "could be restored") {
		t.Errorf("%+v, %+v, %v", sum, found, err)
	}
	w.recovered(f, storage.RecoverOptions{FilesLost: true})
	w.lawful(f, 0)
	for _, j := range []storage.Job{there, job} {
		w.must(w.store.RestoreExport(w.ctx, everything, j.ExportID, storage.AuditEntry{Actor: "t", ActorKind: storage.ActorSystem}))
		if e, err := w.store.Export(w.ctx, everything, j.ExportID); err != nil || (e.FilesLostAt != nil) != (j.ID == job.ID) {
			t.Errorf("restored: lost since %v, %v", e.FilesLostAt, err)
		}
	}
	w.lawful(f, 0)
}
