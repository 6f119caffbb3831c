package processtest

import (
	"errors"
	"syscall"
)

// EndsWithUs is whether children end with us even when we are killed.
const EndsWithUs = false

func attributes() *syscall.SysProcAttr { return nil }

func (p *Process) ask() error { return p.process.Kill() }

// Freeze stops it (SIGSTOP), and returns when it has stopped.
func (p *Process) Freeze() error { return errors.New("a process cannot be frozen on Windows") }

// Thaw lets it go on (SIGCONT).
func (p *Process) Thaw() error { return errors.New("a process cannot be frozen on Windows") }
