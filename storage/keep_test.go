package storage_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// What keeps or deletes an export and its line in the log are there together, or not at all.
func TestNothingIsKeptOrDeletedWithoutItsEntry(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	nobody := storage.AuditEntry{Actor: "Ada", ActorKind: "nobody"} // which the log refuses
	job, _ := s.publish("sales", 0)
	gone, _ := s.publish("gone", 0)
	s.must(s.store.DeleteExport(s.ctx, everything, gone.ExportID, byAdmin))
	for name, do := range map[string]func(uuid.UUID) error{
		"delete":  func(id uuid.UUID) error { return s.store.DeleteExport(s.ctx, everything, id, nobody) },
		"restore": func(uuid.UUID) error { return s.store.RestoreExport(s.ctx, everything, gone.ExportID, nobody) },
		"pin":     func(id uuid.UUID) error { return s.store.PinExport(s.ctx, everything, id, nil, "x", nobody) },
		"hold":    func(id uuid.UUID) error { return s.store.HoldExport(s.ctx, everything, id, "x", nobody) },
	} {
		if err := do(job.ExportID); err == nil {
			t.Errorf("%s: the log took what it must refuse", name)
		}
	}
	untouched := "SELECT count(*) FROM fenceline.exports WHERE id = $1 AND deleted_at IS NULL AND pinned_at IS NULL AND NOT fenceline.on_hold(tenant, kind, id)"
	if s.count(untouched, job.ExportID) != 1 || s.count(untouched, gone.ExportID) != 0 {
		t.Error("something was done without its entry")
	}
	page, err := s.store.AuditLog(s.ctx, everything, storage.AuditFilter{Action: "export.deleted"})
	if err != nil || len(page.Items) != 1 || page.Items[0].ObjectID != gone.ExportID.String() {
		t.Errorf("the audit log: %+v, %v", page, err)
	}
}

func TestUnpinningWhatIsNotPinned(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.publish("sales", 0)
	for _, attempt := range []*uuid.UUID{nil, &b.ID} {
		unpin := func() error { return s.store.UnpinExport(s.ctx, everything, job.ExportID, attempt, byAdmin) }
		if err := unpin(); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("without a pin: %v", err)
		}
		s.must(s.store.PinExport(s.ctx, everything, job.ExportID, attempt, "year end", byAdmin))
		s.must(unpin())
		if err := unpin(); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("again: %v", err)
		}
	}
	if page, err := s.store.AuditLog(s.ctx, everything, storage.AuditFilter{Action: "export.unpinned"}); err != nil || len(page.Items) != 2 {
		t.Errorf("the log says %d times that it was unpinned: %v", len(page.Items), err)
	}
}
