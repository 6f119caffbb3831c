//go:build unix && !linux

package processtest

import "syscall"

// EndsWithUs is whether children end with us even when we are killed.
const EndsWithUs = false

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitStop has nothing to wait with here.
func (p *Process) awaitStop() error { return nil }
