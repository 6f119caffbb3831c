package storage_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// What is found by no index is looked for among so many exports for a page and no
// more; in the end everything is found, each once.
func TestSearchExportsIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const all = storage.SearchWindow + 2500
	w.exec(`INSERT INTO fenceline.exports (tenant, kind, key, title, changed_at)
		SELECT 'acme', 'report', 'k' || i, CASE WHEN i % 5000 = 1 THEN 'Rare' ELSE 'Daily' END, now() - make_interval(secs => i / 3) FROM generate_series(1, $1::int) i`, all)
	f := storage.ExportSearch{ExportFilter: storage.ExportFilter{Search: "rare"}}
	seen := map[uuid.UUID]bool{}
	looked := 0
	for pages := 0; pages < 10; pages++ {
		page, err := w.store.SearchExports(w.ctx, everything, f)
		w.must(err)
		for _, e := range page.Items {
			if seen[e.ID] {
				t.Errorf("%s comes twice", e.Key)
			}
			seen[e.ID] = true
		}
		if page.Looked > 0 {
			looked++
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	if len(seen) != 3 || looked != 1 {
		t.Errorf("found %d, want 3; %d searches ended early, want 1", len(seen), looked)
	}
	if page, err := w.store.SearchExports(w.ctx, storage.Scope{Tenant: "globex"}, storage.ExportSearch{Tenant: "acme"}); err != nil || len(page.Items) != 0 {
		t.Errorf("another tenant finds %d, %v", len(page.Items), err)
	}
}
