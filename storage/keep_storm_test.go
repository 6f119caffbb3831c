package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// season is everything at once: publications, rules that come and go, expiry, pins, holds, deletion,
// restores and clean-ups without any grace, on few exports.
type season struct {
	*world
	files *files.Local

	published, expired, deleted, kept, restored atomic.Int64

	first   atomic.Int64 // of the keys that are in use
	claimed sync.Map     // exports that somebody keeps: another one would take the pin back

	mu     sync.Mutex
	faults []string
}

// seasonKeys is how many exports there are at a time, and seasonEnough how often each thing must have happened.
const (
	seasonKeys   = 5
	seasonEnough = 6
)

// pass runs a season and answers what was wrong.
func pass(t *testing.T, w *world, f *files.Local) []string {
	t.Helper()
	s := &season{world: w, files: f}
	ctx, stop := context.WithTimeout(w.ctx, 100*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for _, turn := range []func(context.Context){s.publishes, s.publishes, s.keeps, s.keeps, s.keeps, s.rules, s.deletes, s.sweeps, s.reads} {
		wg.Go(func() {
			for ctx.Err() == nil && s.goesOn() {
				turn(ctx)
			}
		})
	}
	wg.Wait()
	t.Logf("%d published, %d expired, %d lost their files, %d kept, %d restored", s.published.Load(), s.expired.Load(), s.deleted.Load(), s.kept.Load(), s.restored.Load())
	if len(s.faults) == 0 && s.goesOn() {
		t.Error("too little happened")
	}
	return s.faults
}

func (s *season) goesOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := min(s.published.Load()/4, s.expired.Load(), s.deleted.Load()/2, s.kept.Load(), s.restored.Load()*4)
	return len(s.faults) == 0 && least < seasonEnough
}

func (s *season) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// expected says whether an error is one that somebody else's deed explains; any other is a fault.
func (s *season) expected(ctx context.Context, doing string, err error) bool {
	for _, known := range []error{nil, storage.ErrNotFound, storage.ErrGone, storage.ErrFenced, storage.ErrCondemned, storage.ErrCancelled, storage.ErrOnHold, storage.ErrPinned,
		storage.ErrHeldAlready, storage.ErrCannotRestore, storage.ErrBusy, storage.ErrNotDue} {
		if errors.Is(err, known) {
			return err == nil
		}
	}
	if ctx.Err() == nil {
		s.fault("%s: %v", doing, err)
	}
	return false
}

// publishes makes a publication of one of the exports.
func (s *season) publishes(ctx context.Context) {
	var job storage.Job
	err := s.store.Transaction(ctx, func(tx storage.Tx) (err error) {
		job, _, err = s.store.InsertJob(ctx, tx, newJob(fmt.Sprint("k", s.first.Load()+rand.Int64N(seasonKeys))))
		return err
	})
	if !s.expected(ctx, "dispatch", err) {
		return
	}
	b, err := s.store.BeginAttempt(ctx, job.ID, "w")
	if !s.expected(ctx, "begin", err) {
		return
	}
	out, err := s.files.Create(ctx, place(job, b), "1-orders.csv")
	if !s.expected(ctx, "create", err) {
		return
	}
	defer out.Abort()
	text := "publication " + b.ID.String()
	if _, err = out.Write([]byte(text)); !s.expected(ctx, "write", err) {
		return
	}
	done, err := out.Commit()
	if !s.expected(ctx, "commit", err) {
		return
	}
	sealed := storage.Sealed{Rows: 3, DataAsOf: time.Unix(b.Token, 0), Files: []storage.File{{
		Name: "orders.csv", Object: "1-orders.csv", Format: "csv", MediaType: "text/csv", Size: done.Size, SHA256: done.SHA256[:], Rows: 3,
	}}}
	if s.expected(ctx, "seal", s.store.Seal(ctx, b.ID, sealed)) && s.expected(ctx, "publish", s.store.Publish(ctx, b.ID)) {
		s.published.Add(1)
	}
}

// held is an attempt that must not lose its files.
type held struct {
	id, export uuid.UUID
	token      int64
}

// keepable are publications of an export that no clean-up has given up; only one of it when one is asked for.
func (s *season) keepable(ctx context.Context, where string, args ...any) (list []held) {
	rows, err := s.conn().Query(ctx, "SELECT a.id, a.export_id, a.token FROM fenceline.attempts a JOIN fenceline.exports e ON e.id = a.export_id WHERE a.state IN ('published', 'superseded') AND a.doomed_at IS NULL AND "+where, args...)
	if !s.expected(ctx, "list publications", err) {
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var h held
		if err := rows.Scan(&h.id, &h.export, &h.token); !s.expected(ctx, "list publications", err) {
			return nil
		}
		list = append(list, h)
	}
	return list
}

// keeps pins or holds something, looks for a while whether it stays, and lets it go.
func (s *season) keeps(ctx context.Context) {
	some := s.keepable(ctx, "e.deleted_at IS NULL ORDER BY random() LIMIT 1")
	if len(some) == 0 {
		return
	}
	one := some[0]
	if _, taken := s.claimed.LoadOrStore(one.export, true); taken {
		return
	}
	defer s.claimed.Delete(one.export)
	switch how := rand.IntN(3); how {
	case 0: // one publication
		if s.expected(ctx, "pin", s.store.PinExport(ctx, everything, one.export, &one.id, "x", byAdmin)) {
			s.stays(ctx, "pinned", some)
			s.expected(ctx, "unpin", s.store.UnpinExport(ctx, everything, one.export, &one.id, byAdmin))
		}
	case 1: // an export
		if s.expected(ctx, "pin", s.store.PinExport(ctx, everything, one.export, nil, "x", byAdmin)) {
			s.stays(ctx, "of a pinned export", s.keepable(ctx, "e.id = $1", one.export))
			s.expected(ctx, "unpin", s.store.UnpinExport(ctx, everything, one.export, nil, byAdmin))
		}
	default:
		if s.expected(ctx, "hold", s.store.HoldExport(ctx, everything, one.export, "x", byAdmin)) {
			s.stays(ctx, "on hold", s.keepable(ctx, "e.id = $1", one.export))
			s.expected(ctx, "release", s.store.ReleaseExport(ctx, everything, one.export, byAdmin))
		}
	}
}

// stays waits until some clean-ups have passed and looks whether all of it is there.
func (s *season) stays(ctx context.Context, why string, list []held) {
	var before, now int64
	passed := func(n *int64) error {
		return s.conn().QueryRow(ctx, "SELECT count(*) FROM fenceline.sweeps WHERE finished_at IS NOT NULL").Scan(n)
	}
	if !s.expected(ctx, "count clean-ups", passed(&before)) {
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for now = before; now < before+2 && s.goesOn() && ctx.Err() == nil; <-tick.C {
		if !s.expected(ctx, "count clean-ups", passed(&now)) {
			return
		}
	}
	for _, h := range list {
		var state string
		err := s.conn().QueryRow(ctx, "SELECT state FROM fenceline.attempts WHERE id = $1", h.id).Scan(&state)
		if !s.expected(ctx, "read an attempt", err) {
			return
		}
		there, err := s.files.Present(ctx, files.Place{Export: h.export, Token: h.token, Attempt: h.id})
		if s.expected(ctx, "look for files", err) && (!there || state == "deleted") {
			s.fault("attempt %s is %s, and is %s; its files are there: %t", h.id, why, state, there)
		}
	}
	s.kept.Add(1)
}

// rules sets a rule that lets all go at once, or one that keeps all, or removes one.
func (s *season) rules(ctx context.Context) {
	r := storage.RetentionRule{Kind: new("report")}
	switch rand.IntN(4) {
	case 0:
		s.expected(ctx, "remove a rule", s.store.RemoveRetention(ctx, nil, r.Kind, byAdmin))
		return
	case 1:
	default:
		r.CurrentDays, r.SupersededDays, r.SupersededKeep = new(0), new(0), rand.IntN(3)
	}
	s.expected(ctx, "set a rule", s.store.SetRetention(ctx, r, byAdmin))
}

// deletes deletes an export and often brings it back.
func (s *season) deletes(ctx context.Context) {
	some := s.keepable(ctx, "e.deleted_at IS NULL ORDER BY random() LIMIT 1")
	if len(some) == 0 || !s.expected(ctx, "delete", s.store.DeleteExport(ctx, everything, some[0].export, byAdmin)) {
		return
	}
	if rand.IntN(4) > 0 && s.expected(ctx, "restore", s.store.RestoreExport(ctx, everything, some[0].export, byAdmin)) {
		s.restored.Add(1)
		return
	}
	s.first.Add(1) // what a person deleted keeps its key
}

func (s *season) sweeps(ctx context.Context) {
	res, err := storage.NewSweep(s.store, s.files, storage.SweepOptions{Grace: time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour, MaxShare: 1, Worker: "storm"}).Run(ctx)
	if s.expected(ctx, "clean up", err) {
		s.expired.Add(int64(res.Expired))
		s.deleted.Add(int64(res.Deleted))
	}
}

// reads looks whether the pointer of an export names files that are there (L1).
func (s *season) reads(ctx context.Context) {
	current := s.keepable(ctx, "e.deleted_at IS NULL AND e.attempt_id = a.id ORDER BY random() LIMIT 1")
	for _, h := range current {
		there, err := s.files.Present(ctx, files.Place{Export: h.export, Token: h.token, Attempt: h.id})
		if !s.expected(ctx, "look for files", err) || there {
			continue
		}
		if len(s.keepable(ctx, "e.deleted_at IS NULL AND e.attempt_id = a.id AND a.id = $1", h.id)) > 0 {
			s.fault("L1: the pointer of %s names attempt %s, whose files are gone", h.export, h.id)
		}
	}
}

func TestKeepingStorm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.folder()
	for _, fault := range pass(t, w, f) {
		t.Error(fault)
	}
	w.lawful(f, 0)
}

// A storm that would not notice that pins or holds do not count shows nothing.
func TestKeepingStormCatchesMutants(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][3]string{
		"holds do not count": {"on_hold", "released_at IS NULL", "false"},
		"pins do not count":  {"kept", "a.pinned_at IS NOT NULL OR e.pinned_at IS NOT NULL", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var def string
			w.must(w.query("SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1", change[0]).Scan(&def))
			if !strings.Contains(def, change[1]) {
				t.Fatalf("%s does not hold %q", change[0], change[1])
			}
			w.exec(strings.ReplaceAll(def, change[1], change[2]))
			if len(pass(t, w, w.folder())) == 0 {
				t.Error("nothing was noticed")
			}
		})
	}
}
