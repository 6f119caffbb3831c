package storage_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// TestRecoverChild is a process of its own that recovers and stops before a step: it says so and is killed.
func TestRecoverChild(t *testing.T) {
	at := os.Getenv("FENCELINE_TEST_RECOVER_AT")
	if at == "" {
		t.Skip("this is the child of TestRecoverIsKilledAnywhere")
	}
	store, err := storage.Open(t.Context(), os.Getenv("FENCELINE_TEST_DATABASE"), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := store.Installation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := files.Open(t.Context(), os.Getenv("FENCELINE_TEST_FILES"), id, store.Uploads())
	if err != nil {
		t.Fatal(err)
	}
	_, err = storage.Recover(t.Context(), store, f, storage.RecoverOptions{Adopt: true, FilesLost: true, Step: func(name string) {
		if name == at {
			fmt.Println("\nat " + name)
			select {} // until SIGKILL
		}
	}})
	t.Fatalf("it never came to %s: %v", at, err)
}

// dieAt recovers in another process and kills it (SIGKILL) before a step.
func (w *world) dieAt(at shelf, step string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRecoverChild$", "-test.v")
	cmd.Env = append(os.Environ(), "FENCELINE_TEST_RECOVER_AT="+step, "FENCELINE_TEST_DATABASE="+w.url, "FENCELINE_TEST_FILES="+at.location)
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	var said []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said = append(said, lines.Text())
		if lines.Text() == "at "+step {
			w.must(cmd.Process.Kill())
			_ = cmd.Wait()
			w.until("the locks of the killed one are free", "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))")
			return
		}
	}
	w.t.Fatalf("the child ended: %v\n%s", cmd.Wait(), strings.Join(said, "\n"))
}

func TestRecoverIsKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"close", "condemn", "raise", "adopt", "lost", "count", "mark", "open"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			onEachShelf(t, func(t *testing.T, at shelf) { recoverIsKilled(t, at, step) })
		})
	}
}

func recoverIsKilled(t *testing.T, at shelf, step string) {
	h := newHarmed(t, at)
	w := h.w
	w.dieAt(at, step)
	w.store = openStore(t, w.url)
	if err := w.store.Pair(w.ctx, h.f); !errors.Is(err, storage.ErrRecoveryNeeded) {
		t.Fatalf("killed before %s, all seems well: %v", step, err)
	}
	if err := w.store.Publish(w.ctx, h.at["sealed"].ID); !errors.Is(err, storage.ErrRecoveryNeeded) {
		t.Fatalf("killed before %s, it publishes: %v", step, err)
	}
	h.finishes()
}

// harmed is the state of a backup: an attempt is sealed, one was published after the backup was taken, and the files of
// a third are gone.
type harmed struct{ *lostWork }

func newHarmed(t *testing.T, at shelf) *harmed {
	t.Helper()
	l := lose(t, at, func(l *lostWork) {
		l.jobs["new"], l.at["new"] = l.w.publishFile(l.f, "e", "after the backup")
	}, func(l *lostWork) {
		l.jobs["sealed"] = l.w.insert(newJob("sealed"))
		l.at["sealed"] = l.w.write(l.f, l.jobs["sealed"], "sealed")
		l.jobs["gone"], l.at["gone"] = l.w.publishFile(l.f, "gone", "will be missing")
	})
	_, err := l.f.Remove(l.w.ctx, place(l.jobs["gone"], l.at["gone"]))
	l.w.must(err)
	return &harmed{lostWork: l}
}

// breaksOff recovers, lets something happen before a step, and wants an error of these words.
func (h *harmed) breaksOff(step string, happens func(), words ...string) {
	h.w.t.Helper()
	var once sync.Once
	sum, err := storage.Recover(h.w.ctx, h.w.store, h.f, storage.RecoverOptions{Adopt: true, FilesLost: true, Step: func(at string) {
		if at == step {
			once.Do(happens)
		}
	}})
	for _, want := range words {
		if err == nil || !strings.Contains(err.Error(), want) || sum.Done {
			h.w.t.Errorf("the recovery says %v, want %q; %+v", err, want, sum)
		}
	}
}

// finishes recovers undisturbed and comes to what a recovery comes to that never was disturbed.
func (h *harmed) finishes() {
	w, f := h.w, h.f
	w.t.Helper()
	sum, _ := w.recovered(f, storage.RecoverOptions{Adopt: true, FilesLost: true})
	e, err := w.store.Epoch(w.ctx)
	w.must(err)
	if m := w.mark(f); m.Epoch != e.ID || m.Number != e.Number || m.Beat != e.Confirmed || sum.Lost != 1 || sum.Unknown != 0 || sum.Pointers != 2 {
		w.t.Errorf("%+v\nmark %+v\nepoch %+v", sum, m, e)
	}
	w.attemptState(h.at["sealed"].ID, storage.AttemptCondemned)
	w.attemptState(h.at["new"].ID, storage.AttemptPublished)
	w.attemptState(h.at["e"].ID, storage.AttemptSuperseded)
	w.pointer(h.jobs["e"].ExportID, h.at["new"].Token)
	w.pointer(h.jobs["gone"].ExportID, h.at["gone"].Token)
	h.lostAre("gone")
	w.goesOn(f, w.insert(newJob("e")), max(h.at["new"].Token, h.at["sealed"].Token))
	w.lawful(f, 0)
}

// lostAre checks of which exports the files were given up.
func (h *harmed) lostAre(want ...string) {
	h.w.t.Helper()
	rows, err := h.w.conn().Query(h.w.ctx, "SELECT key FROM fenceline.exports WHERE files_lost_at IS NOT NULL ORDER BY key")
	h.w.must(err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	h.w.must(err)
	if !slices.Equal(got, want) {
		h.w.t.Errorf("the files of %q are given up, want %q", got, want)
	}
}
