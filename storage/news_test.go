package storage_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage"
)

// newsOf are the exports that are told next.
func (w *world) newsOf(n *storage.News) []uuid.UUID {
	w.t.Helper()
	exports, all, err := n.Next(w.ctx)
	w.must(err)
	if all {
		w.t.Fatal("everything may have changed")
	}
	return exports
}

func (w *world) news() *storage.News {
	w.t.Helper()
	n, err := w.store.News(w.ctx)
	w.must(err)
	w.t.Cleanup(func() { n.Close(context.WithoutCancel(w.ctx)) })
	return n
}

// Every step of a job is told once, when it is committed, and never one that was rolled back.
func TestNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.news()
	told := func(what string, want ...uuid.UUID) {
		t.Helper()
		if got := w.newsOf(n); !slices.Equal(got, want) {
			t.Errorf("%s: told of %v, want %v", what, got, want)
		}
	}
	told("nothing happened")
	job := w.insert(newJob("orders"))
	told("a new job", job.ExportID)
	told("told already")
	b := w.begin(job)
	told("an attempt", job.ExportID)
	w.must(w.store.Heartbeat(w.ctx, b.ID, storage.Progress{Step: "write", Rows: 7}))
	told("progress", job.ExportID)
	w.seal(b)
	told("sealed", job.ExportID)
	w.must(w.store.Publish(w.ctx, b.ID))
	told("published", job.ExportID)

	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	_, err = tx.Exec(w.ctx, "UPDATE fenceline.attempts SET rows = rows")
	w.must(err)
	told("not committed")
	w.must(tx.Rollback(w.ctx))
	told("rolled back")
}

// A transaction that began before others and commits after them is told like any other.
func TestNewsOfALateCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, _ := w.published("slow")
	quick, _ := w.published("quick")
	n := w.news()
	change := func(tx pgx.Tx, export uuid.UUID) {
		t.Helper()
		_, err := tx.Exec(w.ctx, "UPDATE fenceline.attempts SET rows = rows WHERE export_id = $1", export)
		w.must(err)
	}
	early, err := w.conn().Begin(w.ctx)
	w.must(err)
	change(early, slow.ExportID)
	late, err := w.conn().Begin(w.ctx)
	w.must(err)
	change(late, quick.ExportID)
	w.must(late.Commit(w.ctx))
	if got := w.newsOf(n); !slices.Equal(got, []uuid.UUID{quick.ExportID}) {
		t.Errorf("told of %v, want the quick one", got)
	}
	w.must(early.Commit(w.ctx))
	if got := w.newsOf(n); !slices.Equal(got, []uuid.UUID{slow.ExportID}) {
		t.Errorf("told of %v, want the slow one", got)
	}
	if got := w.newsOf(n); len(got) > 0 {
		t.Errorf("told again of %v", got)
	}
}

// News go when they are old, and those that bear the numbers of another server's transactions.
func TestNewsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.news()
	w.published("old")
	before, err := w.store.ForgetNews(w.ctx, "")
	w.must(err)
	fresh, _ := w.published("fresh")
	w.exec("INSERT INTO fenceline.news (by, export_id) VALUES ('123456789012345', gen_random_uuid())")
	_, err = w.store.ForgetNews(w.ctx, before)
	w.must(err)
	if got := w.newsOf(n); !slices.Equal(got, []uuid.UUID{fresh.ExportID}) {
		t.Errorf("told of %v, want the fresh one", got)
	}
}

// More than can be told is told as everything.
func TestTooMuchNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.news()
	w.exec("INSERT INTO fenceline.news (export_id) SELECT gen_random_uuid() FROM generate_series(1, 1001)")
	exports, all, err := n.Next(w.ctx)
	w.must(err)
	if !all || len(exports) > 0 {
		t.Errorf("told of %d, all %v", len(exports), all)
	}
	w.exec("INSERT INTO fenceline.news (export_id) SELECT gen_random_uuid() FROM generate_series(1, 1000)")
	if got := w.newsOf(n); len(got) != 1000 {
		t.Errorf("told of %d", len(got))
	}
}

// Transactions that notify commit one after the other. None of those that a publication at
// full load is made of does.
func TestPublicationsNotifyNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, next := w.insert(newJob("first")), w.insert(newJob("next"))
	w.must(w.store.Publish(w.ctx, w.seal(w.begin(first)).ID)) // its notice waits for a deliverer
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	conn, err := pgx.Connect(ctx, w.url)
	w.must(err)
	defer func() { _ = conn.Close(w.ctx) }()
	for _, channel := range []string{"fenceline_jobs", "fenceline_outbox", "fenceline_changes"} {
		_, err := conn.Exec(ctx, "LISTEN "+channel)
		w.must(err)
	}
	b := w.begin(next)
	w.must(w.store.Heartbeat(w.ctx, b.ID, storage.Progress{Step: "write"}))
	w.seal(b)
	w.must(w.store.Publish(w.ctx, b.ID))
	w.exec("SELECT pg_notify('fenceline_jobs', 'the last one')")
	soon, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if got, err := conn.WaitForNotification(soon); err != nil || got.Payload != "the last one" {
		t.Errorf("told %+v, %v", got, err)
	}
}
