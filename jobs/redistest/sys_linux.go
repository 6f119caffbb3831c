package redistest

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

const endsWithUs = true

// attributes bind the child to our life, and give it a process group of its own, so
// that an interrupt of the terminal reaches us first.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStop returns when a stop signal has worked, for it does so a moment after
// it was sent.
func (c *child) awaitStop() error {
	for {
		err := unix.Waitid(unix.P_PID, c.process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
