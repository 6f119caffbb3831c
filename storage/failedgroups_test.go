package storage_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func TestErrorPattern(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for given, want := range map[string]string{
		"row 17 of 1,204.5 is broken":                       "row # of # is broken",
		"  relation \"orders\" is away\nat line 3":          `relation "…" is away`,
		"column “fee” and 'x' and `y`":                      `column "…" and "…" and "…"`,
		"job 0192f0aa-0000-7000-8000-00000000ABCD vanished": "job # vanished",
		"object 5f1d9e77a0b3c2 is gone":                     "object # is gone",
		"no such table":                                     "no such table",
		"নথি ৫ নেই":                                         "নথি ৫ নেই",
	} {
		var got string
		w.must(w.query("SELECT fenceline.error_pattern($1)", given).Scan(&got))
		if got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}

func (w *world) groups(scope storage.Scope, f storage.FailedFilter) map[string]storage.FailedGroup {
	w.t.Helper()
	list, more, err := w.store.FailedGroups(w.ctx, scope, f, 10)
	w.must(err)
	if more {
		w.t.Error("there are more than ten groups")
	}
	byPattern := map[string]storage.FailedGroup{}
	for i, g := range list {
		if i > 0 && g.Newest.After(list[i-1].Newest) {
			w.t.Errorf("group %d is newer than the one before it", i)
		}
		byPattern[g.Kind+": "+g.Pattern] = g
	}
	return byPattern
}

func TestFailedGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var tables []storage.Job
	for i := range 4 {
		tables = append(tables, w.fail("report", fmt.Sprint("r", i), fmt.Sprintf("no table 'orders_%d'", i)))
	}
	w.fail("invoice", "i", "no table 'x'")
	w.fail("report", "d", "division by zero")
	got := w.groups(everything, storage.FailedFilter{})
	want := map[string]int64{`report: no table "…"`: 4, `invoice: no table "…"`: 1, "report: division by zero": 1}
	for name, n := range want {
		if got[name].Count != n {
			t.Errorf("%s holds %d, want %d", name, got[name].Count, n)
		}
	}
	g := got[`report: no table "…"`]
	if len(got) != 3 || g.Error != "no table 'orders_3'" || len(g.Samples) != 3 || g.Samples[0] != tables[3].ID ||
		!g.Newest.Equal(*tables[3].FinishedAt) || !g.Oldest.Equal(*tables[0].FinishedAt) {
		t.Errorf("the group is %+v of %d", g, len(got))
	}
	for name, c := range map[string]struct {
		scope storage.Scope
		f     storage.FailedFilter
		n     int
	}{
		"its tenant": {storage.Scope{Tenant: "acme"}, storage.FailedFilter{}, 3}, "another": {storage.Scope{Tenant: "globex"}, storage.FailedFilter{}, 0},
		"nobody": {storage.Scope{}, storage.FailedFilter{}, 0}, "kind": {everything, storage.FailedFilter{Kind: "report"}, 2},
		"tenant": {everything, storage.FailedFilter{Tenant: "acme"}, 3}, "other tenant": {storage.Scope{Tenant: "globex"}, storage.FailedFilter{Tenant: "acme"}, 0},
		"text": {everything, storage.FailedFilter{Error: "ZERO"}, 1}, "tag": {everything, storage.FailedFilter{Tag: "none"}, 0},
	} {
		if got := w.groups(c.scope, c.f); len(got) != c.n {
			t.Errorf("%s: %d groups, want %d", name, len(got), c.n)
		}
	}
	if of := w.groups(everything, storage.FailedFilter{Kind: "report"})[`report: no table "…"`]; !reflect.DeepEqual(of, g) {
		t.Errorf("of its kind the group is %+v, else %+v", of, g)
	}
	if one, err := w.store.FailedGroup(w.ctx, everything, g.ID); err != nil || one.Count != 4 || !one.Newest.Equal(g.Newest) || !one.Oldest.Equal(g.Oldest) || one.Error != g.Error || !slices.Equal(one.Samples, g.Samples) {
		t.Errorf("the group by its id: %+v, %v", one, err)
	}
	if _, err := w.store.FailedGroup(w.ctx, storage.Scope{Tenant: "globex"}, g.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant reads the group: %v", err)
	}
	w.retryGroup(g, tables)
}

// retryGroup retries a group as it was looked at: what failed later is left alone.
func (w *world) retryGroup(g storage.FailedGroup, tables []storage.Job) {
	w.t.Helper()
	page, err := w.store.FailedRecent(w.ctx, everything, storage.FailedFilter{Group: g.ID}, "", 3)
	w.must(err)
	rest, err := w.store.FailedRecent(w.ctx, everything, storage.FailedFilter{Group: g.ID}, page.Next, 3)
	w.must(err)
	if len(page.Items) != 3 || len(rest.Items) != 1 || rest.Next != "" || rest.Items[0].ID != tables[0].ID {
		w.t.Errorf("pages of %d and %d", len(page.Items), len(rest.Items))
	}
	until := *tables[2].FinishedAt
	n, err := w.store.CountFailedCapped(w.ctx, everything, storage.FailedFilter{Group: g.ID, Until: until})
	w.must(err)
	done, err := w.store.RetryFailed(w.ctx, everything, storage.FailedFilter{Group: g.ID, Until: until})
	w.must(err)
	if n != 3 || done != 3 {
		w.t.Errorf("%d match, %d were retried, want 3", n, done)
	}
	var group *uuid.UUID
	w.must(w.query("SELECT failed_group FROM fenceline.jobs WHERE id = $1", tables[0].ID).Scan(&group))
	if group != nil {
		w.t.Error("a job that waits again is still in its group")
	}
	w.jobState(tables[3].ID, storage.JobFailed)
}

func TestWaitsAreInterpolated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, err := w.store.Stats(w.ctx, everything, storage.ByMinute, time.Hour, time.Minute)
	w.must(err)
	if len(h.Spans) != 61 || h.Total.Wait(0.5) != 0 {
		t.Errorf("%d spans, a median of %v of nothing", len(h.Spans), h.Total.Wait(0.5))
	}
	var now time.Time
	w.must(w.query("SELECT date_trunc('minute', now())").Scan(&now))
	w.exec(`INSERT INTO fenceline.stats_minutes SELECT $1, t, 1, 2, 3, 4, 100, 60000, ARRAY[90, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
		FROM unnest(ARRAY['', 'acme']) t`, now)
	for scope, sees := range map[storage.Scope]bool{everything: true, {Tenant: "acme"}: true, {Tenant: "globex"}: false, {}: false} {
		h, err := w.store.Stats(w.ctx, scope, storage.ByMinute, time.Hour, 5*time.Minute)
		w.must(err)
		if (h.Total.Published == 1) != sees {
			t.Errorf("%+v sees %d", scope, h.Total.Published)
		}
		if sees && (h.Total.Wait(0.45) != 5*time.Millisecond || h.Total.Wait(0.95) != 15*time.Millisecond || h.Total.WaitSum != time.Minute || h.Total.Fenced != 4) {
			t.Errorf("waits %v and %v, %+v", h.Total.Wait(0.45), h.Total.Wait(0.95), h.Total)
		}
	}
}
