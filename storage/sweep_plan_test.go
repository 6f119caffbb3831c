package storage_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// told is what a plan says, and done what a run has done, both in one form.
func told(items []storage.SweepItem) (list []string) {
	for _, it := range items {
		switch it.Action {
		case "condemn":
			list = append(list, fmt.Sprintf("condemn %s", it.Attempt))
		case "delete":
			list = append(list, fmt.Sprintf("delete %s", it.Attempt))
		case "expire":
			list = append(list, fmt.Sprintf("expire %s", it.Export))
		}
	}
	slices.Sort(list)
	return list
}

// ended are the attempts that were condemned and the exports that expired so far.
func (s *swept) ended() (list []string) {
	s.t.Helper()
	var condemned, expired []uuid.UUID
	s.must(s.query("SELECT coalesce(array_agg(id), '{}') FROM fenceline.attempts WHERE 'condemned' IN (state, verdict)").Scan(&condemned))
	s.must(s.query("SELECT coalesce(array_agg(id), '{}') FROM fenceline.exports WHERE expired").Scan(&expired))
	for _, id := range condemned {
		list = append(list, fmt.Sprintf("condemn %s", id))
	}
	for _, id := range expired {
		list = append(list, fmt.Sprintf("expire %s", id))
	}
	return list
}

// runsAsPlanned plans, runs, and compares. It answers what was done.
func (s *swept) runsAsPlanned(o storage.SweepOptions) []string {
	s.t.Helper()
	items, before := s.plan(o), s.ended()
	res := s.run(o)
	done := slices.DeleteFunc(s.ended(), func(text string) bool { return slices.Contains(before, text) })
	for d := range s.deletions(res.ID) {
		done = append(done, fmt.Sprintf("delete %s", d.Attempt))
	}
	slices.Sort(done)
	if want := told(items); !slices.Equal(done, want) || res.Planned != len(items) || res.Skipped+res.Failed != 0 {
		s.t.Errorf("planned %q\ndone    %q\n%+v", want, done, res)
	}
	return done
}

// A newer publication pushes an older one out of those that stay however old: the plan tells it, and the bound on the
// share counts it.
func TestThePlanTellsWhatIsPushedOut(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.rule("", "", -1, 0, 2)
	for i := range 3 {
		s.publish("sales", float64(60-10*i))
	}
	s.runsAsPlanned(ruled) // two stay
	for i := range 2 {
		s.publish("sales", float64(20-10*i))
	}
	careful := ruled
	careful.MaxShare, careful.ShareFloor = 0.3, 1
	if res, err := s.sweep(careful).Run(s.ctx); !errors.Is(err, storage.ErrTooMuch) || res.Deleted != 0 {
		t.Errorf("two of five are more than 30 %%: %+v, %v", res, err)
	}
	if done := s.runsAsPlanned(ruled); len(done) != 2 {
		t.Errorf("done %q, want two deletions", done)
	}
}

// What was deleted by a person is looked at anew by the run itself.
func TestThePlanTellsWhatAChangeLetsGo(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.rule("", "", -1, -1, 0)
	s.publish("sales", 60)
	job, _ := s.publish("sales", 50)
	s.runsAsPlanned(ruled)
	s.must(s.store.DeleteExport(s.ctx, everything, job.ExportID))
	s.passes(1)
	if done := s.runsAsPlanned(ruled); len(done) != 2 {
		t.Errorf("done %q, want two deletions", done)
	}
}

// A database that takes no writes is planned all the same, and the plan says what that means.
func TestAPlanOfADatabaseThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	s := newSwept(t)
	s.rule("", "", -1, 0, 0)
	s.publish("sales", 60)
	s.publish("sales", 50)
	s.publish("sales", 40)
	s.rule("", "", -1, 0, 1)
	reading := openStore(t, s.url+"&default_transaction_read_only=on")
	n := 0
	totals, err := storage.NewSweep(reading, s.local, ruled).Plan(s.ctx, func(storage.SweepItem) error { n++; return nil })
	s.must(err)
	if n != 1 || !totals.Behind {
		t.Errorf("%d items, %+v; want one and that it may be behind", n, totals)
	}
	totals, err = s.sweep(ruled).Plan(s.ctx, func(storage.SweepItem) error { return nil })
	s.must(err)
	if totals.Items != 1 || totals.Behind {
		t.Errorf("where it may write: %+v", totals)
	}
}

// passes lets so many days pass for all that a clean-up looks at.
func (s *swept) passes(days float64) {
	s.t.Helper()
	tx, err := s.conn().Begin(s.ctx)
	s.must(err)
	defer func() { _ = tx.Rollback(s.ctx) }()
	for _, sql := range []string{
		"SET LOCAL session_replication_role = replica",
		fmt.Sprintf(`UPDATE fenceline.attempts SET replaced_at = replaced_at - d, finished_at = finished_at - d, stay_until = stay_until - d,
			probe_at = probe_at - d FROM make_interval(secs => %f * 86400) d`, days),
		fmt.Sprintf(`UPDATE fenceline.exports SET published_at = published_at - d, deleted_at = deleted_at - d, look_at = look_at - d
			FROM make_interval(secs => %f * 86400) d`, days),
	} {
		_, err := tx.Exec(s.ctx, sql)
		s.must(err)
	}
	s.must(tx.Commit(s.ctx))
}

// Whatever has happened, the run does what the plan told just before.
func TestTheRunDoesWhatThePlanTold(t *testing.T) {
	t.Parallel()
	for range 4 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &mayhem{swept: newSwept(t), Rand: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a test that can be repeated
			done := 0
			for range 25 {
				for range 1 + m.IntN(5) {
					m.happens()
				}
				o := storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Duration(m.IntN(48)) * time.Hour, Worker: "test"}
				if m.IntN(3) == 0 {
					o.Quarantine = -time.Hour
				}
				if m.IntN(4) == 0 {
					o.Limit = 1 + m.IntN(4)
				}
				done += len(m.runsAsPlanned(o))
				if t.Failed() {
					return
				}
			}
			if done == 0 {
				t.Error("no run did anything")
			}
		})
	}
}

// mayhem does by chance what people, workers and time do.
type mayhem struct {
	*swept
	*rand.Rand
	exports  []uuid.UUID
	attempts map[uuid.UUID]uuid.UUID // and their exports
}

func (m *mayhem) happens() {
	m.t.Helper()
	key := fmt.Sprint("key", m.IntN(3))
	switch m.IntN(12) {
	case 0, 1, 2, 3:
		m.publishes(key)
	case 4:
		m.loses(key)
	case 5:
		m.rule([]string{"", "acme"}[m.IntN(2)], []string{"", "report"}[m.IntN(2)], m.IntN(40)-8, m.IntN(20)-3, m.IntN(4))
	case 6: // by whatever code it comes
		m.exec("UPDATE fenceline.retention SET superseded_keep = $1, superseded_days = $2", m.IntN(4), m.IntN(20))
	case 7:
		m.exec("DELETE FROM fenceline.retention WHERE id = (SELECT min(id) FROM fenceline.retention)")
	case 8, 9:
		m.passes(12 * m.Float64())
	default:
		m.keeps()
	}
}

func (m *mayhem) publishes(key string) {
	m.t.Helper()
	job, _, err := m.tryInsert(key)
	if err != nil {
		return // it was deleted, and somebody may restore it
	}
	b := m.begin(job)
	m.write(job, b)
	m.must(m.store.Publish(m.ctx, m.seal(b).ID))
	m.knows(job, b)
}

func (m *mayhem) tryInsert(key string) (job storage.Job, made bool, err error) {
	err = m.store.Transaction(m.ctx, func(tx storage.Tx) (err error) {
		job, made, err = m.store.InsertJob(m.ctx, tx, newJob(key))
		return err
	})
	return job, made, err
}

// loses leaves an attempt that failed or fell silent.
func (m *mayhem) loses(key string) {
	m.t.Helper()
	job, _, err := m.tryInsert(key)
	if err != nil {
		return
	}
	b := m.begin(job)
	m.write(job, b)
	if m.IntN(2) == 0 {
		m.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '2 hours' WHERE id = $1", b.ID)
		return
	}
	_, err = m.store.EndAttempt(m.ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "disk full", Counts: true, Final: true})
	m.must(err)
}

func (m *mayhem) knows(job storage.Job, b storage.Begun) {
	if m.attempts == nil {
		m.attempts = map[uuid.UUID]uuid.UUID{}
	}
	m.attempts[b.ID] = job.ExportID
	if !slices.Contains(m.exports, job.ExportID) {
		m.exports = append(m.exports, job.ExportID)
	}
}

// keeps pins, holds, deletes, or takes such a thing back; what cannot be is refused, which is all right.
func (m *mayhem) keeps() {
	m.t.Helper()
	if len(m.exports) == 0 {
		return
	}
	export := m.exports[m.IntN(len(m.exports))]
	var one *uuid.UUID
	for id, of := range m.attempts {
		if of == export && (one == nil || id.String() < one.String()) && m.IntN(2) == 0 {
			one = &id
		}
	}
	switch m.IntN(12) {
	case 0:
		_ = m.store.PinExport(m.ctx, everything, export, one, "year end", byAdmin)
	case 1, 2:
		_ = m.store.UnpinExport(m.ctx, everything, export, one, byAdmin)
	case 3:
		_ = m.store.HoldExport(m.ctx, everything, export, "case 7", byAdmin)
	case 4, 9:
		_ = m.store.ReleaseExport(m.ctx, everything, export, byAdmin)
	case 5:
		_ = m.store.HoldTenant(m.ctx, "acme", nil, "case 8", byAdmin)
	case 6, 10:
		_ = m.store.ReleaseTenant(m.ctx, "acme", nil, byAdmin)
	case 7:
		_ = m.store.DeleteExport(m.ctx, everything, export)
	case 8, 11:
		_ = m.store.RestoreExport(m.ctx, everything, export, byAdmin)
	}
}
