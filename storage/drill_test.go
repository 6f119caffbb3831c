package storage_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func TestTryPointer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job, first := w.published("sales")
	second := w.seal(w.begin(w.insert(newJob("sales"))))
	w.must(w.store.Publish(w.ctx, second.ID))
	try := func(b storage.Begun) string {
		t.Helper()
		refusal, err := w.store.TryPointer(w.ctx, job.ExportID, b.ID, b.Token)
		w.must(err)
		return refusal
	}
	if got := try(first); !strings.Contains(got, "last_token would fall from 2 to 1") {
		t.Errorf("the older token: %q", got)
	}
	third := w.begin(w.insert(newJob("sales")))
	if got := try(third); !strings.Contains(got, "is not published") {
		t.Errorf("an attempt that is not published: %q", got)
	}
	w.exec("DROP TRIGGER guard ON fenceline.exports")
	if got := try(first); got != "" {
		t.Errorf("without the trigger: %q", got)
	}
	if got := try(storage.Begun{ID: uuid.New(), Token: 1}); !strings.Contains(got, "exports_pointer") {
		t.Errorf("an attempt that does not exist: %q", got)
	}
	e, err := w.store.Export(w.ctx, everything, job.ExportID)
	w.must(err)
	if e.LastToken != second.Token || *e.AttemptID != second.ID {
		t.Errorf("trying moved the pointer: %+v", e)
	}
}

func TestScratchTablesShareASchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for _, name := range []string{"drill-1", "drill-2", "drill-3", "drill-4"} {
		wg.Go(func() {
			sc := w.store.Scratch(name)
			if err := sc.Create(w.ctx, storage.ScratchRow{Source: 100, Version: 1, Writer: "nobody"}); err != nil {
				t.Error(err)
				return
			}
			err := sc.SetSource(w.ctx, 120)
			n, publishErr := sc.Publish(w.ctx, storage.ScratchRow{Report: 100, Version: 2, Writer: name})
			row, readErr := sc.Read(w.ctx)
			if want := (storage.ScratchRow{Source: 120, Report: 100, Version: 2, Writer: name}); err != nil || publishErr != nil || readErr != nil || n != 1 || row != want {
				t.Errorf("%v %v %v: %d rows, %+v", err, publishErr, readErr, n, row)
			}
			for range 2 { // what is gone may be dropped again
				if err := sc.Drop(w.ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var there bool
	w.must(w.query("SELECT to_regnamespace('fenceline_drill') IS NOT NULL").Scan(&there))
	if there {
		t.Error("the schema is left")
	}
}
