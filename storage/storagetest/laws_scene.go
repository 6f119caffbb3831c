package storagetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// scene is a deployment with what the laws do to it again and again.
type scene struct {
	T
	Deployment
	ctx  context.Context
	pool *pgxpool.Pool // past the store, as any program could
	held []pgx.Tx
}

// atOnce makes all garbage due, also that of attempts which are at work.
var atOnce = storage.SweepOptions{Grace: -time.Hour, Quarantine: -time.Hour, Superseded: -time.Hour, Worker: "laws"}

// Giving up in the ways that a worker does.
var (
	failed   = storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "disk full", Counts: true}
	released = storage.Ending{State: storage.AttemptFailed, Reason: "worker_stopped"}
	overtook = storage.Ending{State: storage.AttemptFenced, Reason: "newer_token"}
	stopped  = storage.Ending{State: storage.AttemptCancelled, Reason: "cancelled"}
)

const (
	object = "1-data.txt"
	truth  = "SELECT n::text FROM truth" // of a table that some scenes make
)

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%v", err)
	}
}

func newJob(key string) storage.NewJob {
	return storage.NewJob{
		Tenant: "laws", Kind: "report", Key: key, Title: key, Queue: "default", Payload: json.RawMessage(`{}`), PayloadVersion: 1,
		MaxAttempts: 3, MaxCrashes: 3, Timeout: time.Minute, RequestHash: []byte("laws"),
	}
}

func (s *scene) insert(n storage.NewJob) storage.Job {
	s.Helper()
	job, err := s.tryInsert(n)
	s.must(err)
	return job
}

func (s *scene) tryInsert(n storage.NewJob) (job storage.Job, err error) {
	err = s.Store.Transaction(s.ctx, func(tx storage.Tx) (err error) {
		job, _, err = s.Store.InsertJob(s.ctx, tx, n)
		return err
	})
	return job, err
}

func (s *scene) begin(job storage.Job) storage.Begun {
	s.Helper()
	b, err := s.Store.BeginAttempt(s.ctx, job.ID, "w")
	s.must(err)
	return b
}

func place(job storage.Job, b storage.Begun) files.Place {
	return files.Place{Export: job.ExportID, Token: b.Token, Attempt: b.ID}
}

func (s *scene) write(p files.Place, text string) (files.Written, error) {
	w, err := s.Files.Create(s.ctx, p, object)
	if err != nil {
		return files.Written{}, err
	}
	defer w.Abort()
	if _, err := io.WriteString(w, text); err != nil {
		return files.Written{}, err
	}
	return w.Commit()
}

// writeAndSeal writes the one file of an attempt and seals it.
func (s *scene) writeAndSeal(job storage.Job, b storage.Begun, text string, asOf time.Time) error {
	done, err := s.write(place(job, b), text)
	if err != nil {
		return err
	}
	return s.Store.Seal(s.ctx, b.ID, storage.Sealed{Rows: 1, DataAsOf: asOf, Files: []storage.File{
		{Name: "data.txt", Object: object, Format: "text", MediaType: "text/plain", Size: done.Size, SHA256: done.SHA256[:], Rows: 1},
	}})
}

// sealed is an attempt that has only to publish.
func (s *scene) sealed(job storage.Job) storage.Begun {
	s.Helper()
	b := s.begin(job)
	s.must(s.writeAndSeal(job, b, fmt.Sprintf("written by token %d", b.Token), time.Time{}))
	return b
}

func (s *scene) published(key string) (storage.Job, storage.Begun) {
	s.Helper()
	job := s.insert(newJob(key))
	b := s.sealed(job)
	s.must(s.Store.Publish(s.ctx, b.ID))
	return job, b
}

// handOn gives all running jobs to whoever comes next.
func (s *scene) handOn() {
	s.Helper()
	_, err := s.Store.HandOnLost(s.ctx, -time.Hour, 1000)
	s.must(err)
}

func (s *scene) sweep(o storage.SweepOptions) {
	s.Helper()
	s.must(s.trySweep(o))
}

func (s *scene) trySweep(o storage.SweepOptions) error {
	if s.Sweep != nil {
		return s.Sweep(s.ctx, o)
	}
	_, err := storage.NewSweep(s.Store, s.Files, o).Run(s.ctx)
	return err
}

func (s *scene) look(export uuid.UUID, token int64, query string) (string, time.Time, error) {
	if s.Look != nil {
		return s.Look(s.ctx, export, token, query)
	}
	sn, err := s.Store.Snapshot(s.ctx, export, token)
	if err != nil {
		return "", time.Time{}, err
	}
	defer sn.Close()
	rows, err := sn.Query(s.ctx, query, nil)
	if err != nil {
		return "", time.Time{}, err
	}
	value := ""
	for rows.Next() {
		value = string(rows.Values()[0])
	}
	return value, sn.AsOf(), rows.Err()
}

// isOutcome reports whether a publish was answered: nil, or one of the refusals
// that there are. Any other error means that a guard behind the last one had to refuse.
func isOutcome(err error) bool {
	for _, is := range []error{storage.ErrFenced, storage.ErrCondemned, storage.ErrCancelled, storage.ErrGone} {
		if errors.Is(err, is) {
			return true
		}
	}
	return err == nil
}

// refused fails unless a publish was refused, with this error.
func (s *scene) refused(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("publish answered %v; want: %v", err, want)
	}
}

func (s *scene) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(s.ctx, sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// number and text answer one value.
func (s *scene) number(sql string, args ...any) (n int64) {
	s.Helper()
	if err := s.pool.QueryRow(s.ctx, sql, args...).Scan(&n); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (s *scene) text(sql string, args ...any) (text string) {
	s.Helper()
	if err := s.pool.QueryRow(s.ctx, sql, args...).Scan(&text); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return text
}

// hold runs a statement and keeps its transaction open; commit ends it.
func (s *scene) hold(sql string, args ...any) (tx pgx.Tx, commit func()) {
	s.Helper()
	tx, err := s.pool.Begin(s.ctx)
	s.must(err)
	s.held = append(s.held, tx)
	if _, err := tx.Exec(s.ctx, sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return tx, func() {
		s.Helper()
		s.must(tx.Commit(s.ctx))
	}
}

// letGo ends what is still held when a scene broke off.
func (s *scene) letGo() {
	for _, tx := range s.held {
		_ = tx.Rollback(context.WithoutCancel(s.ctx)) // those that were committed say so
	}
}

// waits returns when a statement with this word in it waits for a lock.
func (s *scene) waits(word string) {
	s.Helper()
	s.until(word+" waits for a lock", `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND wait_event_type = 'Lock' AND pid <> pg_backend_pid() AND query LIKE '%' || $1 || '%'`, word)
}

// until asks for a number until it is not 0.
func (s *scene) until(what, sql string, args ...any) {
	s.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.number(sql, args...) == 0 {
		select {
		case <-deadline.C:
			s.Fatalf("it never came to this: %s", what)
		case <-tick.C:
		}
	}
}

// jobIs fails unless a job is in this state.
func (s *scene) jobIs(job storage.Job, want storage.JobState) {
	s.Helper()
	if got := s.text("SELECT state FROM fenceline.jobs WHERE id = $1", job.ID); got != string(want) {
		s.Errorf("the job is %s, want %s", got, want)
	}
}

// attemptIs fails unless an attempt is in this state.
func (s *scene) attemptIs(b storage.Begun, want storage.AttemptState) {
	s.Helper()
	if got := s.text("SELECT state FROM fenceline.attempts WHERE id = $1", b.ID); got != string(want) {
		s.Errorf("the attempt with token %d is %s, want %s", b.Token, got, want)
	}
}

// currentIs fails unless an attempt is the current one of its export, and whole.
func (s *scene) currentIs(job storage.Job, b storage.Begun) {
	s.Helper()
	var token int64
	var current *uuid.UUID
	s.must(s.pool.QueryRow(s.ctx, "SELECT last_token, attempt_id FROM fenceline.exports WHERE id = $1", job.ExportID).Scan(&token, &current))
	if current == nil || *current != b.ID || token != b.Token {
		s.Errorf("the pointer has token %d, want %d", token, b.Token)
	}
	if _, err := s.read(place(job, b)); err != nil {
		s.Errorf("the current file of token %d: %v", b.Token, err)
	}
}

// read reads the file of an attempt and compares it with what was recorded.
func (s *scene) read(p files.Place) (string, error) {
	var size int64
	var sum []byte
	if err := s.pool.QueryRow(s.ctx, "SELECT size, sha256 FROM fenceline.files WHERE attempt_id = $1", p.Attempt).Scan(&size, &sum); err != nil {
		return "", err
	}
	f, err := s.Files.Open(s.ctx, p, object)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if got := sha256.Sum256(text); err == nil && (int64(len(text)) != size || string(got[:]) != string(sum)) {
		err = fmt.Errorf("%d bytes with SHA-256 %x, but %d with %x were recorded", len(text), got, size, sum)
	}
	return string(text), err
}

// there fails unless the files of an attempt are there, or are not.
func (s *scene) there(job storage.Job, b storage.Begun, want bool) {
	s.Helper()
	got, err := s.Files.Present(s.ctx, place(job, b))
	s.must(err)
	if got != want {
		s.Errorf("the files of token %d are there: %t, want %t", b.Token, got, want)
	}
}

// verify fails for everything that the laws forbid.
func (s *scene) verify(o storage.VerifyOptions) storage.Summary {
	s.Helper()
	sum, err := storage.Verify(s.ctx, s.Store, s.Files, o, func(v storage.Violation) { s.Errorf("%s", v) })
	s.must(err)
	return sum
}

// holds is verify while things may still be at work: replaced files are kept.
func (s *scene) holds() {
	s.Helper()
	s.verify(storage.VerifyOptions{Sweep: storage.SweepOptions{Superseded: time.Hour}})
}
