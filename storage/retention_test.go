package storage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceline/fenceline/storage"
)

// ruled is for a world whose readers have no time, so that rules alone decide.
var ruled = storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Worker: "test"}

// byAdmin is who changes what is kept.
var byAdmin = storage.AuditEntry{Actor: "Ada", ActorKind: storage.ActorUser}

func (s *swept) rule(tenant, kind string, current, superseded, keep int) {
	s.t.Helper()
	r := storage.RetentionRule{SupersededKeep: keep}
	for text, into := range map[string]**string{tenant: &r.Tenant, kind: &r.Kind} {
		if text != "" {
			*into = &text
		}
	}
	if current >= 0 {
		r.CurrentDays = &current
	}
	if superseded >= 0 {
		r.SupersededDays = &superseded
	}
	s.must(s.store.SetRetention(s.ctx, r, byAdmin))
}

// publish publishes key, and tells that it was so many days ago.
func (s *swept) publish(key string, daysAgo float64) (storage.Job, storage.Begun) {
	s.t.Helper()
	job, b := s.attempt(key)
	s.must(s.store.Publish(s.ctx, s.seal(b).ID))
	s.exec(`UPDATE fenceline.attempts SET replaced_at = clock_timestamp() - make_interval(secs => $2 * 86400) WHERE export_id = $1 AND state = 'superseded' AND token =
		(SELECT max(token) FROM fenceline.attempts WHERE export_id = $1 AND state = 'superseded')`, job.ExportID, daysAgo)
	s.exec("UPDATE fenceline.exports SET published_at = clock_timestamp() - make_interval(secs => $2 * 86400) WHERE id = $1", job.ExportID, daysAgo)
	return job, b
}

// lie are the tokens that still have files, in the order of those given.
func (s *swept) lie(job storage.Job, all []storage.Begun) string {
	s.t.Helper()
	text := ""
	for _, b := range all {
		there, err := s.local.Present(s.ctx, s.place(job, b))
		s.must(err)
		if there {
			text += "1"
		} else {
			text += "0"
		}
	}
	return text
}

func TestReplacedPublicationsGoByTheirRule(t *testing.T) {
	t.Parallel()
	// Six publications: the first five were replaced 50, 40, 30, 20 and 10 days ago.
	for _, c := range []struct {
		name       string
		days, keep int
		left       string
	}{
		{"by age", 25, 0, "000111"},
		{"by age, and all are young", 60, 0, "111111"},
		{"by age, at once", 0, 0, "000001"},
		{"the newest stay, however old", 1, 2, "000111"},
		{"young ones stay besides the newest", 35, 1, "001111"},
		{"old and not among the newest", 15, 3, "001111"},
		{"for ever", -1, 0, "111111"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSwept(t)
			s.rule("", "report", -1, c.days, c.keep)
			var all []storage.Begun
			var job storage.Job
			for i := range 6 {
				var b storage.Begun
				job, b = s.publish("sales", float64(60-10*i))
				all = append(all, b)
			}
			s.run(ruled)
			s.run(ruled) // what the first looks have found
			if got := s.lie(job, all); got != c.left {
				t.Errorf("left %s, want %s", got, c.left)
			}
			if items := s.plan(ruled); len(items) != 0 {
				t.Errorf("still planned: %+v", items)
			}
			if n := s.count("SELECT count(*) FROM fenceline.attempts WHERE state = 'superseded' AND stay_until IS NULL"); n != 0 {
				t.Errorf("%d kept publications would be looked at again by every run", n)
			}
		})
	}
}

func TestTheMostSpecificRuleWins(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	for _, c := range []struct{ tenant, kind string }{{"", ""}, {"acme", ""}, {"", "report"}, {"acme", "report"}} {
		s.rule(c.tenant, c.kind, 100+len(c.tenant)+10*len(c.kind), -1, 0)
	}
	for _, c := range []struct {
		tenant, kind string
		days         int64
	}{{"acme", "report", 164}, {"globex", "report", 160}, {"acme", "invoice", 104}, {"globex", "invoice", 100}} {
		if got := s.count("SELECT current_days FROM fenceline.retention_for($1, $2)", c.tenant, c.kind); got != c.days {
			t.Errorf("%s %s: the rule of %d days, want %d", c.tenant, c.kind, got, c.days)
		}
	}
	s.must(s.store.RemoveRetention(s.ctx, new("acme"), new("report"), byAdmin))
	if got := s.count("SELECT current_days FROM fenceline.retention_for('acme', 'report')"); got != 160 {
		t.Errorf("without its own rule: %d", got)
	}
	if err := s.store.RemoveRetention(s.ctx, new("acme"), new("report"), byAdmin); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("removing it again: %v", err)
	}
}

func TestACurrentPublicationExpires(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.rule("", "report", 30, 7, 0)
	old, b := s.publish("old", 30.01)
	young, c := s.publish("young", 29.99)
	busy, d := s.publish("busy", 40)
	s.insert(newJob("busy"))
	s.exec("UPDATE fenceline.exports SET look_at = published_at + interval '30 days'")
	items := s.plan(ruled)
	if len(items) != 1 || items[0].Export != old.ExportID || items[0].Action != "expire" || !strings.Contains(items[0].Why, "the rule for report keeps it 30 days") {
		t.Fatalf("planned %+v", items)
	}
	if res := s.run(ruled); res.Expired != 1 || res.Planned != 1 {
		t.Errorf("the run: %+v", res)
	}
	if runs, err := s.store.SweepRuns(s.ctx, 1); err != nil || len(runs) != 1 || runs[0].Expired != 1 {
		t.Errorf("the record of the run: %+v, %v", runs, err)
	}
	s.there(old, b, true) // its files go with a later run
	if _, err := s.store.Export(s.ctx, everything, old.ExportID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the expired export: %v", err)
	}
	s.run(ruled)
	s.there(old, b, false)
	s.there(young, c, true)
	s.there(busy, d, true)
	again, e := s.publish("old", 0) // its key is free
	if again.ExportID == old.ExportID {
		t.Error("the new publication is of the expired export")
	}
	s.run(ruled)
	s.there(again, e, true)
	if page, err := s.store.AuditLog(s.ctx, everything, storage.AuditFilter{Action: "export.expired"}); err != nil || len(page.Items) != 1 || page.Items[0].ObjectID != old.ExportID.String() {
		t.Errorf("the audit log: %+v, %v", page, err)
	}
	if err := s.store.RestoreExport(s.ctx, everything, old.ExportID, byAdmin); !errors.Is(err, storage.ErrCannotRestore) {
		t.Errorf("restoring it: %v", err)
	}
}

func TestAChangedRulePlansAnew(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.rule("", "", -1, -1, 0)
	job, first := s.publish("sales", 50)
	_, second := s.publish("sales", 40)
	s.run(ruled)
	if got := s.lie(job, []storage.Begun{first, second}); got != "11" {
		t.Fatalf("left %s", got)
	}
	s.rule("acme", "report", 35, 7, 0)
	if items := s.plan(ruled); len(items) != 2 || items[0].Attempt != first.ID || items[1].Action != "expire" {
		t.Errorf("planned %+v", items)
	}
	s.rule("acme", "report", 45, 60, 0)
	if items := s.plan(ruled); len(items) != 0 {
		t.Errorf("planned %+v", items)
	}
	s.must(s.store.RemoveRetention(s.ctx, new("acme"), new("report"), byAdmin))
	s.rule("", "", 1, 1, 0)
	s.run(ruled)
	s.run(ruled)
	if got := s.lie(job, []storage.Begun{first, second}); got != "00" {
		t.Errorf("left %s", got)
	}
}

func TestPinsKeep(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.rule("", "", 1, 1, 0)
	job, first := s.publish("sales", 50)
	s.must(s.store.PinExport(s.ctx, everything, job.ExportID, &first.ID, "year end", byAdmin))
	_, second := s.publish("sales", 40)
	_, third := s.publish("sales", 30)
	s.must(s.store.PinExport(s.ctx, everything, job.ExportID, nil, "for the auditors", byAdmin))
	all := []storage.Begun{first, second, third}
	s.run(ruled)
	if got := s.lie(job, all); got != "111" {
		t.Errorf("an export is pinned, left %s", got)
	}
	if err := s.store.DeleteExport(s.ctx, everything, job.ExportID); !errors.Is(err, storage.ErrPinned) {
		t.Errorf("deleting what is pinned: %v", err)
	}
	k, err := s.store.Keeping(s.ctx, everything, job.ExportID, 0)
	s.must(err)
	if want := "kept until it is unpinned: Ada pinned it, “for the auditors”"; k.Sentence() != want {
		t.Errorf("%q, want %q", k.Sentence(), want)
	}
	s.must(s.store.UnpinExport(s.ctx, everything, job.ExportID, nil, byAdmin))
	s.run(ruled)
	s.run(ruled)
	if got := s.lie(job, all); got != "100" { // and the publication is pinned still
		t.Errorf("a publication is pinned, left %s", got)
	}
}

func TestNothingOnHoldIsDeleted(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"export", "kind", "tenant"} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			s := newSwept(t)
			s.rule("", "", 1, 1, 0)
			job, first := s.publish("sales", 50)
			_, second := s.publish("sales", 40)
			lost := s.begin(s.insert(newJob("sales")))
			s.write(job, lost)
			_, err := s.store.EndAttempt(s.ctx, lost.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "disk full", Counts: true, Final: true})
			s.must(err)
			hold := func() error { return s.store.HoldExport(s.ctx, everything, job.ExportID, "case 7", byAdmin) }
			release := func() error { return s.store.ReleaseExport(s.ctx, everything, job.ExportID, byAdmin) }
			if scope != "export" {
				kind := map[string]*string{"kind": new("report")}[scope]
				hold = func() error { return s.store.HoldTenant(s.ctx, "acme", kind, "case 7", byAdmin) }
				release = func() error { return s.store.ReleaseTenant(s.ctx, "acme", kind, byAdmin) }
			}
			s.must(hold())
			if err := hold(); !errors.Is(err, storage.ErrHeldAlready) {
				t.Errorf("holding it again: %v", err)
			}
			now := storage.SweepOptions{Grace: -time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour}
			all := []storage.Begun{first, second, lost}
			if res := s.run(now); res.Planned != 0 {
				t.Errorf("the run: %+v", res)
			}
			if err := s.store.DeleteExport(s.ctx, everything, job.ExportID); !errors.Is(err, storage.ErrOnHold) {
				t.Errorf("deleting it: %v", err)
			}
			for _, sql := range []string{
				"UPDATE fenceline.exports SET deleted_at = now() WHERE id = '" + job.ExportID.String() + "'",
				"UPDATE fenceline.attempts SET state = 'deleted' WHERE id = '" + first.ID.String() + "'",
				"UPDATE fenceline.attempts SET state = 'deleted' WHERE id = '" + lost.ID.String() + "'",
				"UPDATE fenceline.attempts SET doomed_at = now() WHERE id = '" + first.ID.String() + "'",
			} {
				var pg *pgconn.PgError
				if err := s.tryExec(sql); !errors.As(err, &pg) || pg.Code != "FL005" {
					t.Errorf("%s: %v, want FL005", sql, err)
				}
			}
			if got := s.lie(job, all); got != "111" {
				t.Errorf("left %s", got)
			}
			s.must(release())
			if err := release(); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("releasing it again: %v", err)
			}
			s.run(now)
			s.run(now)
			if got := s.lie(job, all); got != "000" {
				t.Errorf("after the release left %s", got)
			}
		})
	}
}

func TestADeletedExportIsRestoredWhileItsFilesAreThere(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	job, b := s.publish("sales", 0)
	_, c := s.publish("sales", 0)
	s.must(s.store.DeleteExport(s.ctx, everything, job.ExportID))
	hour := storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour}
	s.exec("UPDATE fenceline.attempts SET replaced_at = now() - interval '2 hours' WHERE id = $1", b.ID)
	s.run(hour)
	if got := s.lie(job, []storage.Begun{b, c}); got != "11" { // what may come back comes back whole
		t.Errorf("left %s", got)
	}
	s.must(s.store.RestoreExport(s.ctx, everything, job.ExportID, byAdmin))
	if _, err := s.store.Export(s.ctx, everything, job.ExportID); err != nil {
		t.Errorf("the restored export: %v", err)
	}
	if err := s.store.RestoreExport(s.ctx, everything, job.ExportID, byAdmin); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("restoring it again: %v", err)
	}
	if err := s.store.RestoreExport(s.ctx, storage.Scope{Tenant: "globex"}, job.ExportID, byAdmin); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	s.must(s.store.DeleteExport(s.ctx, everything, job.ExportID))
	// A clean-up has decided, and was killed before it removed anything.
	s.exec("SELECT fenceline.doom_attempts(ARRAY[$1::uuid], -3600)", c.ID)
	if err := s.store.RestoreExport(s.ctx, everything, job.ExportID, byAdmin); !errors.Is(err, storage.ErrCannotRestore) {
		t.Errorf("restoring what goes: %v", err)
	}
	s.run(everyAge)
	if got := s.lie(job, []storage.Begun{b, c}); got != "00" {
		t.Errorf("left %s", got)
	}
}

func TestExplainNamesTheRule(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.rule("acme", "report", 30, 7, 1)
	job, oldest := s.publish("sales", 50)
	_, older := s.publish("sales", 40)
	_, current := s.publish("sales", 9)
	for id, says := range map[uuid.UUID]string{
		oldest.ID:  "goes: was replaced by a newer publication of acme / report / sales",
		older.ID:   "stays: was replaced by a newer publication of acme / report / sales",
		current.ID: "the rule for report of acme keeps it 30 days, until 20",
	} {
		list, err := s.sweep(ruled).Explain(s.ctx, id.String())
		s.must(err)
		if text := fmt.Sprint(list); !strings.Contains(text, says) || !strings.Contains(text, "the rule for report of acme keeps") {
			t.Errorf("%s does not say %q", text, says)
		}
	}
	s.must(s.store.HoldExport(s.ctx, everything, job.ExportID, "case 7", byAdmin))
	list, err := s.sweep(ruled).Explain(s.ctx, oldest.ID.String())
	s.must(err)
	if !strings.HasPrefix(list[0].Sentence, "stays: ") || !strings.Contains(list[0].Sentence, "is on hold") {
		t.Errorf("on hold: %q", list[0].Sentence)
	}
}

// count is the number that a query answers.
func (s *swept) count(sql string, args ...any) (n int64) {
	s.t.Helper()
	s.must(s.query(sql, args...).Scan(&n))
	return n
}
