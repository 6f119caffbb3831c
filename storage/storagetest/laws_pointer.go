package storagetest

import (
	"errors"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// The scenes of L1, L2 and L3: what the pointer names.

func pointerIsWhole(s *scene) {
	job, first := s.published("sales")
	s.currentIs(job, first)
	next, second := s.published("sales")
	if next.ExportID != job.ExportID {
		s.Fatalf("the same key became another export")
	}
	s.currentIs(job, second)
	if text, err := s.read(place(job, first)); err != nil { // who has begun to read the old one reads on
		s.Errorf("the replaced file: %q, %v", text, err)
	}
	s.holds()
}

// A publish has found its attempt sealed and waits for the export, when a
// clean-up comes that thinks the attempt is dead. The row lock must keep it off.
func sweepDuringPublish(s *scene) {
	job := s.insert(newJob("sales"))
	b := s.sealed(job)
	_, commit := s.hold("SELECT FROM fenceline.exports WHERE id = $1 FOR UPDATE", job.ExportID)
	published := make(chan error, 1)
	go func() { published <- s.Store.Publish(s.ctx, b.ID) }()
	s.waits("publish_attempt")
	s.sweep(atOnce)
	commit()
	err := <-published
	if !isOutcome(err) {
		s.Errorf("publish answered %v", err)
	}
	if err == nil {
		s.currentIs(job, b)
	}
	s.holds()
}

// A clean-up took the files of an attempt that was only slow. Its publish must be refused.
func publishAfterSweep(s *scene) {
	job := s.insert(newJob("sales"))
	b := s.sealed(job)
	s.sweep(atOnce)
	err := s.Store.Publish(s.ctx, b.ID)
	if !isOutcome(err) {
		s.Errorf("publish answered %v", err)
	}
	if err == nil {
		s.currentIs(job, b)
	}
	s.holds()
}

// Whatever its age, what is current stays.
func sweepWithoutMercy(s *scene) {
	job, old := s.published("sales")
	_, b := s.published("sales")
	s.sweep(atOnce)
	s.sweep(atOnce)
	s.currentIs(job, b)
	s.there(job, old, false)
	s.verify(storage.VerifyOptions{Sweep: atOnce, Drained: true})
}

func lowerTokenLater(s *scene) {
	old := s.insert(newJob("sales"))
	stale := s.sealed(old)
	job, newer := s.published("sales")
	err := s.Store.Publish(s.ctx, stale.ID)
	s.refused(err, storage.ErrFenced)
	var fenced *storage.FencedError
	if !errors.As(err, &fenced) || fenced.By != newer.Token || fenced.Reason != "newer_job" {
		s.Errorf("the refusal does not say by whom: %+v", fenced)
	}
	s.currentIs(job, newer)
	s.jobIs(old, storage.JobSuperseded)
	s.attemptIs(stale, storage.AttemptFenced)
	s.holds()
}

// Code that is broken, or not ours, sends plain statements.
func databaseRefuses(s *scene) {
	job, one := s.published("sales")
	s.published("sales")
	sealed := s.sealed(s.insert(newJob("sales")))
	export := job.ExportID
	for _, c := range []struct {
		what, sql string
		args      []any
	}{
		{"a lower last_token", "UPDATE fenceline.exports SET last_token = $2 WHERE id = $1", []any{export, one.Token}},
		{"the pointer back", "UPDATE fenceline.exports SET attempt_id = $2, last_token = $3 WHERE id = $1", []any{export, one.ID, one.Token}},
		{"the pointer elsewhere", "UPDATE fenceline.exports SET attempt_id = $2 WHERE id = $1", []any{export, one.ID}},
		{"the pointer to what is not published", "UPDATE fenceline.exports SET attempt_id = $2, last_token = $3 WHERE id = $1", []any{export, sealed.ID, sealed.Token}},
		{"a lower issued_token", "UPDATE fenceline.exports SET issued_token = last_token WHERE id = $1", []any{export}},
		{"that a replaced attempt is published", "UPDATE fenceline.attempts SET state = 'published' WHERE id = $1", []any{one.ID}},
		{"that an attempt is published beside the current one", "UPDATE fenceline.attempts SET state = 'published', finished_at = now() WHERE id = $1", []any{sealed.ID}},
	} {
		if _, err := s.pool.Exec(s.ctx, c.sql, c.args...); err == nil {
			s.Errorf("the database lets anybody write %s", c.what)
		}
	}
	s.holds()
}

// A worker asks for a token and is held up; another one gets a token for the
// same export and commits. The first must get a higher one: a number that it had
// drawn before would be lower than one that counts already.
func tokensRise(s *scene) {
	slow, quick := s.insert(newJob("sales")), s.insert(newJob("sales"))
	tx, commit := s.hold("LOCK TABLE fenceline.jobs IN ACCESS EXCLUSIVE MODE")
	type answer struct {
		b   storage.Begun
		err error
	}
	begun := make(chan answer, 1)
	go func() {
		b, err := s.Store.BeginAttempt(s.ctx, slow.ID, "slow")
		begun <- answer{b, err}
	}()
	s.waits("begin_attempt")
	var before int64
	s.must(tx.QueryRow(s.ctx, "SELECT token FROM fenceline.begin_attempt($1, $2, 'quick')", quick.ID, uuid.New()).Scan(&before))
	commit()
	a := <-begun
	if a.err != nil {
		s.Fatalf("begin answered %v", a.err)
	}
	if a.b.Token <= before {
		s.Errorf("token %d was given out after token %d was committed", a.b.Token, before)
	}
	s.holds()
}

// A publish waits for another one of the same export, which is about to commit.
// It must replace what the other has published, not what it saw when it began.
func twoPublishAtOnce(s *scene) {
	s.published("sales")
	job := s.insert(newJob("sales"))
	first, second := s.sealed(job), s.sealed(s.insert(newJob("sales")))
	_, commit := s.hold("SELECT fenceline.publish_attempt($1)", first.ID)
	published := make(chan error, 1)
	go func() { published <- s.Store.Publish(s.ctx, second.ID) }()
	s.waits("publish_attempt")
	commit()
	if err := <-published; err != nil {
		s.Errorf("publish answered %v", err)
	}
	s.currentIs(job, second)
	s.attemptIs(first, storage.AttemptSuperseded)
	s.holds()
}

// An attempt draws its token, another one draws a higher token and reads, the
// data changes, and only then the first one reads: it would publish newer data
// under the lower token, and the other one older data after it.
func olderTokenLooksLast(s *scene) {
	s.exec("CREATE TABLE truth AS SELECT 1 AS n")
	older, newer := s.insert(newJob("sales")), s.insert(newJob("sales"))
	lower, higher := s.begin(older), s.begin(newer)
	first, firstAsOf, err := s.look(newer.ExportID, higher.Token, truth)
	s.must(err)
	s.exec("UPDATE truth SET n = 2")

	last := ""
	second, secondAsOf, err := s.look(older.ExportID, lower.Token, truth)
	switch {
	case errors.Is(err, storage.ErrFenced):
		_, err = s.Store.EndAttempt(s.ctx, lower.ID, overtook)
		s.must(err)
	case err != nil:
		s.Fatalf("look answered %v", err)
	default:
		s.must(s.writeAndSeal(older, lower, second, secondAsOf))
		s.must(s.Store.Publish(s.ctx, lower.ID))
		last = second
	}
	s.must(s.writeAndSeal(newer, higher, first, firstAsOf))
	s.must(s.Store.Publish(s.ctx, higher.ID))
	if first < last {
		s.Errorf("token %d published data of version %s after version %s was published", higher.Token, first, last)
	}
	s.holds()
}
