package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// identity is a user under which PostgreSQL's programs may run.
type identity struct {
	name string
	// uid and gid are those of the files, as seen by us. -1 on Windows.
	uid, gid int
	// confined: in a user namespace, where the user is nobody.
	confined bool
	// other: a user that is not ours, which only root can become.
	other bool
}

// command prepares a program that gets the signal when we die (on Linux) and does
// not get the Ctrl-C of our terminal.
func (id identity) command(death syscall.Signal, bin string, args ...string) *exec.Cmd {
	cmd := exec.Command(bin, args...)
	cmd.Env = environment()
	cmd.SysProcAttr = id.attributes(death)
	return cmd
}

// choose takes the first user that can run the programs and reach the folder.
func choose(users []identity, dir, bin string) (identity, error) {
	var causes []string
	for _, id := range users {
		err := id.probe(dir, bin)
		if err == nil {
			return id, nil
		}
		causes = append(causes, fmt.Sprintf("as %s: %v", id.name, err))
	}
	return identity{}, fmt.Errorf("PostgreSQL cannot run here: %s. Start as an ordinary user, or choose a folder that this user can enter",
		strings.Join(causes, "; "))
}

// probe runs the server program for its version only, from the folder above ours:
// the one thing that cannot be given away with chown.
func (id identity) probe(dir, bin string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := id.command(syscall.SIGKILL, filepath.Join(bin, "postgres"), "--version")
	cmd.Dir = filepath.Dir(dir)
	_, err := run(ctx, cmd)
	if errors.Is(err, os.ErrPermission) {
		for _, path := range []string{cmd.Dir, bin} {
			if wall := firstClosed(path, id.uid, id.gid); wall != "" && (id.other || id.confined) {
				return fmt.Errorf("it cannot enter %s", wall)
			}
		}
	}
	return err
}

// own gives a file of ours to the user, when we are root and may.
func (id identity) own(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Lchown(path, id.uid, id.gid)
}

// ownAll is own for a whole cluster, which is only needed when the user under which
// it is served has changed.
func (id identity) ownAll(dir string) error {
	if uid, _ := owner(dir); os.Getuid() != 0 || uid == id.uid {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return id.own(path)
	})
}
