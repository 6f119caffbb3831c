//go:build unix

package localpg

import (
	"errors"
	"os"
	"syscall"
)

// tryLock uses flock and not fcntl: it also keeps two owners in one process apart.
func tryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
