//go:build unix

package processtest

import "syscall"

func (p *Process) ask() error { return p.process.Signal(syscall.SIGTERM) }

// Thaw lets it go on (SIGCONT).
func (p *Process) Thaw() error { return p.process.Signal(syscall.SIGCONT) }

// Freeze stops it (SIGSTOP), and returns when it has stopped.
func (p *Process) Freeze() error {
	if err := p.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitStop()
}
