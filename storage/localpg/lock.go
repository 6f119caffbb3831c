package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const lockName = "lock"

// acquire takes the folder for this process; the operating system gives it back
// when the process dies. It waits some seconds for another owner and then returns
// ErrInUse. release may be called more than once.
func acquire(ctx context.Context, dir string, log *slog.Logger) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	name := filepath.Join(dir, lockName)
	for told := false; ; told = true {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err = tryLock(f); err == nil && isStill(f, name) {
			return func() { f.Close() }, sign(f)
		}
		owner := readOwner(f)
		f.Close()
		if err != nil && !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		if !told {
			log.Info("waiting for another process to leave the folder", "dir", dir, "pid", owner)
		}
		if !pause(ctx, pollEvery) {
			return nil, fmt.Errorf("%w (pid %s)", ErrInUse, owner)
		}
	}
}

// errLocked is returned by tryLock when somebody else has the lock.
var errLocked = errors.New("locked")

// isStill tells whether name still means f: Remove deletes the file of a lock that
// it holds, and whoever waited for that one has locked nothing.
func isStill(f *os.File, name string) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(name)
	return err == nil && os.SameFile(ours, now)
}

// sign writes our pid into the lock, for the message of the one who waits.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return err
}

func readOwner(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 20))
	if err != nil || len(text) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
