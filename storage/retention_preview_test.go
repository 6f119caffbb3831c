package storage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// What a preview counts is what the plan has more of after the change.
func TestAPreviewCountsWhatTheChangeMakesDue(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.rule("", "", -1, -1, 0)
	for i := range 6 {
		s.publish("sales", float64(60-10*i))
	}
	s.publish("old", 50)
	s.publish("busy", 50)
	s.insert(newJob("busy"))
	pinned, _ := s.publish("pinned", 50)
	s.must(s.store.PinExport(s.ctx, everything, pinned.ExportID, nil, "x", byAdmin))
	held, _ := s.publish("held", 50)
	s.must(s.store.HoldExport(s.ctx, everything, held.ExportID, "x", byAdmin))
	for step, c := range []struct {
		change                     storage.RetentionChange
		current, replaced, exports int64
	}{
		{storage.RetentionChange{Rule: storage.RetentionRule{Kind: new("report"), CurrentDays: new(30), SupersededDays: new(35), SupersededKeep: 1}}, 1, 2, 5},
		{storage.RetentionChange{Rule: storage.RetentionRule{CurrentDays: new(1)}}, 0, 0, 0}, // a more specific one counts
		{storage.RetentionChange{Rule: storage.RetentionRule{Tenant: new("acme"), Kind: new("report"), CurrentDays: new(5), SupersededDays: new(15), SupersededKeep: 3}}, 1, 0, 5},
		{storage.RetentionChange{Rule: storage.RetentionRule{Tenant: new("globex"), CurrentDays: new(1)}}, 0, 0, 0},
		{storage.RetentionChange{Rule: storage.RetentionRule{Tenant: new("acme"), Kind: new("report")}, Remove: true}, 0, 0, 5},
		{storage.RetentionChange{Rule: storage.RetentionRule{Kind: new("report")}, Remove: true}, 1, 0, 5},
	} {
		got, err := s.store.PreviewRetention(s.ctx, c.change, 0, time.Minute)
		s.must(err)
		before := s.dueByRules()
		if c.change.Remove {
			s.must(s.store.RemoveRetention(s.ctx, c.change.Rule.Tenant, c.change.Rule.Kind, byAdmin))
		} else {
			s.must(s.store.SetRetention(s.ctx, c.change.Rule, byAdmin))
		}
		after := s.dueByRules()
		grew := storage.RetentionPreview{Exports: got.Exports, LookedAt: got.LookedAt, Current: max(after.Current-before.Current, 0), CurrentBytes: max(after.CurrentBytes-before.CurrentBytes, 0),
			Replaced: max(after.Replaced-before.Replaced, 0), ReplacedBytes: max(after.ReplacedBytes-before.ReplacedBytes, 0)}
		if got != grew || got.Exports != c.exports || got.Current != c.current || got.Replaced != c.replaced {
			t.Errorf("step %d: the preview says %+v, the plan grew by %+v; want %d, %d and %d", step, got, grew, c.current, c.replaced, c.exports)
		}
	}
}

// dueByRules counts what the plan lets expire and deletes.
func (s *swept) dueByRules() (due storage.RetentionPreview) {
	for _, it := range s.plan(ruled) {
		if it.Action == "expire" {
			due.Current, due.CurrentBytes = due.Current+1, due.CurrentBytes+it.Bytes
		} else {
			due.Replaced, due.ReplacedBytes = due.Replaced+1, due.ReplacedBytes+it.Bytes
		}
	}
	return due
}

func TestRulesInForceSayWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	for i, tenant := range []string{"acme", "globex", "umbrella"} {
		for _, kind := range []string{"invoice", "report"} {
			for range i + 1 {
				s.exec("INSERT INTO fenceline.exports (tenant, kind, key) VALUES ($1, $2, gen_random_uuid()::text)", tenant, kind)
			}
		}
	}
	s.rule("", "report", 30, 7, 5)
	s.rule("acme", "", 10, 7, 0)
	s.rule("acme", "report", 90, -1, 0)
	var got []string
	after := ""
	for {
		page, err := s.store.RulesInForce(s.ctx, everything, after, 4)
		s.must(err)
		for _, f := range page.Items {
			name := "none"
			if f.Rule != nil {
				name = f.Rule.Name()
			}
			got = append(got, f.Tenant+" "+f.Kind+": "+name)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	want := "[acme invoice: the rule for everything of acme acme report: the rule for report of acme globex invoice: none globex report: the rule for report umbrella invoice: none umbrella report: the rule for report]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v\nwant %s", got, want)
	}
	page, err := s.store.RulesInForce(s.ctx, storage.Scope{Tenant: "globex"}, "", 0)
	if err != nil || len(page.Items) != 2 || page.Items[0].Tenant != "globex" {
		t.Errorf("globex sees %+v, %v", page, err)
	}
	if _, err := s.store.RulesInForce(s.ctx, everything, "x", 0); err == nil {
		t.Error("a cursor of nobody was taken")
	}
}

func TestPinsAndHoldsAreListedInPages(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.publish("sales", 0)
	other, _ := s.publish("other", 0)
	s.must(s.store.PinExport(s.ctx, everything, job.ExportID, nil, "one", byAdmin))
	s.must(s.store.PinExport(s.ctx, everything, job.ExportID, &b.ID, "two", byAdmin))
	s.must(s.store.HoldExport(s.ctx, everything, other.ExportID, "three", byAdmin))
	s.must(s.store.HoldTenant(s.ctx, "acme", new("report"), "four", byAdmin))
	s.must(s.store.HoldTenant(s.ctx, "globex", nil, "five", byAdmin))
	list := func(scope storage.Scope, export uuid.UUID) (notes string) {
		after := ""
		for {
			page, err := s.store.Kept(s.ctx, scope, storage.KeptFilter{Export: export, After: after, Limit: 2})
			s.must(err)
			for _, k := range page.Items {
				notes += k.What + ":" + k.Note + " "
			}
			if after = page.Next; after == "" {
				return notes
			}
		}
	}
	if got := list(everything, uuid.Nil); got != "hold:five hold:four hold:three publication:two pin:one " {
		t.Errorf("all: %s", got)
	}
	if got := list(storage.Scope{Tenant: "globex"}, uuid.Nil); got != "hold:five " {
		t.Errorf("of globex: %s", got)
	}
	if got := list(everything, job.ExportID); got != "hold:four publication:two pin:one " {
		t.Errorf("of an export: %s", got)
	}
}

func TestDeletedExportsThatCanComeBack(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	first, _ := s.publish("first", 0)
	s.publish("second", 40)
	empty := s.insert(newJob("empty"))
	for _, j := range []storage.Job{first, empty} {
		s.must(s.store.DeleteExport(s.ctx, everything, j.ExportID))
	}
	s.rule("", "", 30, -1, 0)
	hour := storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour}
	s.run(hour) // lets the second one expire
	list := func(scope storage.Scope) (keys string) {
		for after := ""; ; {
			page, err := s.store.DeletedExports(s.ctx, scope, after, 1)
			s.must(err)
			for _, d := range page.Items {
				keys += fmt.Sprint(d.Key, " ", d.Expired, " ")
			}
			if after = page.Next; after == "" {
				return keys
			}
		}
	}
	if got := list(everything); got != "second true first false " {
		t.Errorf("can be restored: %q", got)
	}
	if got := list(storage.Scope{Tenant: "globex"}); got != "" {
		t.Errorf("globex sees %q", got)
	}
	s.publish("second", 0) // another export has the key now
	s.must(s.store.RestoreExport(s.ctx, everything, first.ExportID, byAdmin))
	if got := list(everything); got != "" {
		t.Errorf("still: %q", got)
	}
}
