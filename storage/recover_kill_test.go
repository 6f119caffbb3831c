package storage_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

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
	f, err := files.OpenLocal(os.Getenv("FENCELINE_TEST_FILES"), id)
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
func (w *world) dieAt(f *files.Local, step string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRecoverChild$", "-test.v")
	cmd.Env = append(os.Environ(), "FENCELINE_TEST_RECOVER_AT="+step, "FENCELINE_TEST_DATABASE="+w.url, "FENCELINE_TEST_FILES="+f.Dir())
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
			l := lose(t, func(l *lostWork) {
				l.jobs["new"], l.at["new"] = l.w.publishFile(l.f, "e", "after the backup")
			}, func(l *lostWork) {
				l.jobs["sealed"] = l.w.insert(newJob("sealed"))
				l.at["sealed"] = l.w.write(l.f, l.jobs["sealed"], "sealed")
				l.jobs["gone"], l.at["gone"] = l.w.publishFile(l.f, "gone", "will be missing")
			})
			w, f, sealed := l.w, l.f, l.at["sealed"]
			_, err := f.Remove(w.ctx, place(l.jobs["gone"], l.at["gone"]))
			w.must(err)

			w.dieAt(f, step)
			w.store = openStore(t, w.url)
			if err := w.store.Pair(w.ctx, f); !errors.Is(err, storage.ErrRecoveryNeeded) {
				t.Fatalf("killed before %s, all seems well: %v", step, err)
			}
			if err := w.store.Publish(w.ctx, sealed.ID); !errors.Is(err, storage.ErrRecoveryNeeded) {
				t.Fatalf("killed before %s, it publishes: %v", step, err)
			}
			sum, _ := w.recovered(f, storage.RecoverOptions{Adopt: true, FilesLost: true})
			e, err := w.store.Epoch(w.ctx)
			w.must(err)
			if m := w.mark(f); m.Epoch != e.ID || m.Number != e.Number || m.Beat != e.Confirmed || sum.Lost != 1 {
				t.Errorf("%+v\nmark %+v\nepoch %+v", sum, m, e)
			}
			w.attemptState(sealed.ID, storage.AttemptCondemned)
			w.attemptState(l.at["new"].ID, storage.AttemptPublished)
			w.goesOn(f, w.insert(newJob("e")), max(l.at["new"].Token, sealed.Token))
			w.lawful(f, 0)
		})
	}
}
