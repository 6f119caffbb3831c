//go:build unix && !linux

package redistest

import "syscall"

const endsWithUs = false

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitStop has nothing to wait with here.
func (c *child) awaitStop() error { return nil }
