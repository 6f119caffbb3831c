package storage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// hourly keeps everything for an hour.
var hourly = storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour, Worker: "test"}

// audited are the classes of everything, by path.
func (s *swept) audited(sw *storage.Sweep) (map[string]storage.AuditFinding, storage.AuditSummary) {
	s.t.Helper()
	all := map[string]storage.AuditFinding{}
	sum, err := sw.Audit(s.ctx, func(f storage.AuditFinding) error {
		if _, twice := all[f.Path]; twice {
			s.t.Errorf("%s was told twice", f.Path)
		}
		all[f.Path] = f
		return nil
	})
	s.must(err)
	return all, sum
}

func (s *swept) path(job storage.Job, b storage.Begun) string {
	return s.place(job, b).String() + "/1-orders.csv"
}

func TestAuditSortsEveryFile(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	want := map[string]storage.Class{}
	publish := func(key string) (storage.Job, storage.Begun) {
		job, b := s.attempt(key)
		s.must(s.store.Publish(s.ctx, s.seal(b).ID))
		return job, b
	}
	job, b := publish("sales")
	want[s.path(job, b)] = storage.ClassRetained
	job, b = publish("sales")
	want[s.path(job, b)] = storage.ClassOrphan // replaced long ago
	s.exec("UPDATE fenceline.attempts SET replaced_at = now() WHERE id = $1", b.ID)
	old := b
	job, b = publish("sales")
	s.exec("UPDATE fenceline.attempts SET replaced_at = now() - interval '2 hours' WHERE id = $1", old.ID)
	want[s.path(job, b)] = storage.ClassCurrent
	job, b = s.attempt("working")
	want[s.path(job, b)] = storage.ClassLive
	job, b = s.attempt("sealed")
	s.seal(b)
	want[s.path(job, b)] = storage.ClassLive
	job, b = s.attempt("silent")
	s.exec("UPDATE fenceline.attempts SET heartbeat_at = now() - interval '2 hours' WHERE id = $1", b.ID)
	want[s.path(job, b)] = storage.ClassOrphan
	for _, age := range []string{"0", "2 hours"} {
		job, b = s.attempt("lost" + age)
		s.exec("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], -3600)", b.ID)
		s.exec("UPDATE fenceline.attempts SET finished_at = now() - $2::interval WHERE id = $1", b.ID, age)
		want[s.path(job, b)] = map[string]storage.Class{"0": storage.ClassQuarantined, "2 hours": storage.ClassOrphan}[age]
	}
	job, b = publish("deleted")
	s.must(s.store.DeleteExport(s.ctx, everything, job.ExportID))
	want[s.path(job, b)] = storage.ClassRetained
	stranger := storage.Begun{ID: uuid.New(), Token: b.Token}
	s.write(job, stranger)
	want[s.path(job, stranger)] = storage.ClassUnknown
	s.must(os.WriteFile(filepath.Join(s.local.Dir(), "notes.txt"), []byte("mine"), 0o600))
	want["notes.txt"] = storage.ClassUnknown
	job, b = publish("missing")
	s.must(os.RemoveAll(filepath.Join(s.local.Dir(), s.place(job, b).String())))
	want[s.path(job, b)] = storage.ClassMissing
	job, b = publish("cut")
	s.must(os.Truncate(filepath.Join(s.local.Dir(), s.path(job, b)), 3))
	want[s.path(job, b)] = storage.ClassMissing

	all, sum := s.audited(s.sweep(hourly))
	for path, class := range want {
		if all[path].Class != class {
			t.Errorf("%s is %q, want %s", path, all[path].Class, class)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d findings, want %d: %+v", len(all), len(want), all)
	}
	if c := sum.Classes[storage.ClassCurrent]; c.Objects != 1 || c.Bytes != 5 || sum.Classes[storage.ClassMissing].Objects != 2 {
		t.Errorf("the sums: %+v", sum)
	}
	s.run(hourly)
	after, _ := s.audited(s.sweep(hourly))
	for path, class := range want {
		if _, there := after[path]; there == (class == storage.ClassOrphan) && class != storage.ClassOrphan || class == storage.ClassUnknown && !there {
			t.Errorf("%s, which was %s: there after a run: %t", path, class, there)
		}
	}
}

// meddler is a store in which things happen while it is listed.
type meddler struct {
	files.Store
	listed int
	meddle func() // before the second object: by then the first page of attempts is read
}

func (m *meddler) List(ctx context.Context, fn func(files.Object) error) error {
	return m.Store.List(ctx, func(o files.Object) error {
		if m.listed++; m.listed == 2 {
			m.meddle()
		}
		return fn(o)
	})
}

// What changes under the hands of an audit is no alarm: it looks again.
func TestAuditWhileTheStoreChanges(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	for i := range 30 {
		_, b := s.attempt(fmt.Sprint("a", i))
		s.must(s.store.Publish(s.ctx, s.seal(b).ID))
	}
	kept := hourly
	kept.Superseded = -time.Hour
	m := &meddler{Store: s.local}
	m.meddle = func() {
		for i := range 30 { // every file is replaced, and every replaced one deleted
			_, b := s.attempt(fmt.Sprint("a", i))
			s.must(s.store.Publish(s.ctx, s.seal(b).ID))
		}
		s.run(kept)
		for i := range 30 {
			s.attempt(fmt.Sprint("b", i))
		}
	}
	all, sum := s.audited(storage.NewSweep(s.store, m, kept))
	if sum.Classes[storage.ClassMissing].Objects+sum.Classes[storage.ClassUnknown].Objects != 0 {
		t.Errorf("false alarms: %+v", all)
	}
	// And a real one in the midst of it is seen.
	job, b := s.attempt("c")
	s.must(s.store.Publish(s.ctx, s.seal(b).ID))
	s.must(os.Remove(filepath.Join(s.local.Dir(), s.path(job, b))))
	m.listed, m.meddle = 0, func() {}
	if _, sum = s.audited(storage.NewSweep(s.store, m, kept)); sum.Classes[storage.ClassMissing].Objects != 1 {
		t.Errorf("a file that is gone: %+v", sum)
	}
}

// More attempts of one export, and more exports, than are read at once.
func TestAuditOfManyPages(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	const each = 1100
	s.exec(fmt.Sprintf("INSERT INTO fenceline.exports (tenant, kind, key) SELECT 'acme', 'report', 'k' || i FROM generate_series(1, %d) i", each))
	s.exec(fmt.Sprintf(`INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, max_attempts, max_crashes, timeout_seconds, request_hash)
		SELECT gen_random_uuid(), 'acme', 'report', 'default', e.id, '{}'::jsonb, 1, 3, 3, 60, ''::bytea FROM fenceline.exports e WHERE e.key <> 'k1' UNION ALL
		SELECT gen_random_uuid(), 'acme', 'report', 'default', e.id, '{}'::jsonb, 1, 3, 3, 60, ''::bytea FROM fenceline.exports e, generate_series(1, %d) WHERE e.key = 'k1'`, each))
	s.exec(`INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, worker)
		SELECT gen_random_uuid(), export_id, id, 1, nextval('fenceline.fence_tokens'), 'w' FROM fenceline.jobs`)
	rows, err := s.conn().Query(s.ctx, "SELECT export_id, token, id FROM fenceline.attempts")
	s.must(err)
	var places []files.Place
	for rows.Next() {
		var p files.Place
		s.must(rows.Scan(&p.Export, &p.Token, &p.Attempt))
		places = append(places, p)
	}
	s.must(rows.Err())
	for _, p := range places { // past the store, which would sync each
		dir := filepath.Join(s.local.Dir(), p.String())
		s.must(os.MkdirAll(dir, 0o750))
		s.must(os.WriteFile(filepath.Join(dir, "1-orders.csv"), []byte("x"), 0o600))
	}
	all, sum := s.audited(s.sweep(hourly))
	if n := sum.Classes[storage.ClassLive].Objects; n != int64(len(places)) || len(all) != len(places) || len(places) != 2*each-1 {
		t.Errorf("%d live of %d: %+v", n, len(places), sum)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	all := s.garbage()
	explain := func(o storage.SweepOptions, subject string, says ...string) {
		t.Helper()
		list, err := s.sweep(o).Explain(s.ctx, subject)
		s.must(err)
		if len(list) != 1 {
			t.Fatalf("%s: %+v", subject, list)
		}
		for _, text := range says {
			if !strings.Contains(list[0].Sentence, text) {
				t.Errorf("no %q in %q", text, list[0].Sentence)
			}
		}
	}
	explain(hourly, all["silent"].ID.String(), "stays: live attempt of worker w-1", "s ago", "silent for 1h0m0s")
	explain(everyAge, all["silent"].ID.String(), "goes: attempt of worker w-1", "the next run condemns it")
	explain(hourly, all["lost"].ID.String(), "goes: was failed at 20", "its quarantine ends at 20")
	explain(everyAge, all["lost"].ID.String(), "its quarantine ended at 20", "the next run deletes it")
	explain(hourly, all["replaced"].ID.String(), "goes: was replaced by a newer publication of acme / report / replaced", "its readers have time until 20")
	explain(hourly, all["export-deleted"].ID.String(), "its export acme / report / deleted was deleted at 20")

	job, err := s.store.Job(s.ctx, everything, s.jobOf(all["replaced"].ID))
	s.must(err)
	path := filepath.Join(s.local.Dir(), s.path(job, all["replaced"]))
	explain(hourly, path, "goes: was replaced")
	explain(hourly, s.path(job, all["replaced"]), "goes: was replaced")
	list, err := s.sweep(hourly).Explain(s.ctx, job.ExportID.String())
	s.must(err)
	if len(list) != 2 || list[0].Class != storage.ClassCurrent || !strings.HasPrefix(list[0].Sentence, "stays: it is the current file of acme / report / replaced") {
		t.Errorf("the export: %+v", list)
	}
	res := s.run(everyAge)
	explain(everyAge, all["lost"].ID.String(), "was deleted at 20", "after it was failed", fmt.Sprintf("by run %d because it was failed", res.ID), "looked at again at 20")
	explain(everyAge, path, "was deleted at 20")
	for _, nobody := range []string{uuid.NewString(), "/etc/passwd", "notes.txt", "../..", uuid.NewString() + "/7-" + uuid.NewString() + "/1-a.csv", ""} {
		if list, err := s.sweep(everyAge).Explain(s.ctx, nobody); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%q: %+v %v", nobody, list, err)
		}
	}
	s.must(os.WriteFile(filepath.Join(s.local.Dir(), "notes.txt"), nil, 0o600))
	explain(everyAge, "notes.txt", "unknown: no attempt accounts for it")
	explain(everyAge, filepath.Join(s.local.Dir(), "notes.txt"), "unknown: no attempt accounts for it")
	explain(everyAge, "FENCELINE.json", "stays: it is the mark of the store")
	explain(everyAge, filepath.Join(s.local.Dir(), "FENCELINE.json"), "stays: it is the mark of the store")
}

func TestAuditFailsWithItsListener(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.garbage()
	enough := errors.New("enough")
	if _, err := s.sweep(hourly).Audit(s.ctx, func(storage.AuditFinding) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("audit: %v", err)
	}
	if !slices.Contains(storage.Classes(), storage.ClassMissing) {
		t.Error("a class is not listed")
	}
}
