//go:build unix

package localpg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// closedHome is a folder like /root: nobody but us can enter it.
func closedHome(t *testing.T) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	return home
}

// openFolder is a folder that every user can reach, unlike one of t.TempDir.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBelowAClosedHome(t *testing.T) {
	t.Parallel()
	s := started(t, filepath.Join(closedHome(t), "postgres"))
	if got := query(t, s.URL(maintenance), "SELECT 'inside'"); got != "inside" {
		t.Error(got)
	}
	if uid, _ := owner(s.data()); uid != os.Getuid() {
		t.Errorf("the data belongs to user %d", uid)
	}
}

func TestLesserUser(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openFolder(t), "postgres")
	lesser := func(string) []identity { return lesserUsers() }
	if os.Getuid() != 0 {
		_, err := start(within(t, time.Minute), Options{Dir: dir}, lesser)
		if err == nil || !strings.Contains(err.Error(), "cannot run here") {
			t.Errorf("only root may become another user, got %v", err)
		}
		return
	}
	first := started(t, dir)
	remember(t, first, "given")
	stop(t, first)
	// Namespaces are denied from now on: everything goes to another user.
	s, err := start(within(t, time.Minute), Options{Dir: dir, Settings: quick()}, lesser)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	if uid, _ := owner(s.data()); uid != s.as.uid || uid == 0 || recall(t, s) != "given" {
		t.Errorf("the data belongs to user %d, the server is %s", uid, s.as.name)
	}
	stop(t, s)
	// And the folder's owner decides, even where namespaces would work again.
	again := started(t, dir)
	if again.as.uid != s.as.uid || recall(t, again) != "given" {
		t.Errorf("third start as %s", again.as.name)
	}
}

func TestLesserUserBelowAClosedHome(t *testing.T) {
	t.Parallel()
	home := closedHome(t)
	_, err := start(within(t, time.Minute), Options{Dir: filepath.Join(home, "postgres"), Settings: quick()},
		func(string) []identity { return lesserUsers() })
	if err == nil || !strings.Contains(err.Error(), "PostgreSQL cannot run here") {
		t.Fatalf("got %v", err)
	}
	if os.Getuid() == 0 && !strings.Contains(err.Error(), "cannot enter "+filepath.Dir(filepath.Dir(home))+" (") {
		t.Errorf("the closed folder is not named: %v", err)
	}
}

func TestFirstClosed(t *testing.T) {
	t.Parallel()
	home := closedHome(t)
	if err := os.MkdirAll(filepath.Join(home, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	ours, group := owner(home)
	if got := firstClosed(filepath.Join(home, "a", "b"), ours, group); got != "" {
		t.Errorf("we cannot enter %s", got)
	}
	if got := firstClosed(filepath.Join(home, "a", "b"), ours+1, group+1); got == "" {
		t.Error("everybody can enter")
	}
	if got := firstClosed("/", ours+1, group+1); got != "" {
		t.Errorf("nobody can enter %s", got)
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	users := candidates(t.TempDir())
	if len(users) == 0 {
		t.Fatal("nobody")
	}
	for _, id := range users {
		if id.uid == 0 && !id.confined {
			t.Errorf("%s is root", id.name)
		}
		if os.Getuid() != 0 && id.other {
			t.Errorf("%s cannot be reached from user %d", id.name, os.Getuid())
		}
	}
}
