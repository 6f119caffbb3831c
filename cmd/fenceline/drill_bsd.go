//go:build unix && !linux

package main

import "syscall"

// processAttributes keep Ctrl-C from the workers of a drill: it stops them itself.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
