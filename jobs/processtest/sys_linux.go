package processtest

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// EndsWithUs is whether children end with us even when we are killed.
const EndsWithUs = true

// attributes bind the child to our life, and give it a process group of its own, so
// that an interrupt of the terminal reaches us first.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStop returns when a stop signal has worked, for it does so a moment after
// it was sent.
func (p *Process) awaitStop() error {
	for {
		err := unix.Waitid(unix.P_PID, p.process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
