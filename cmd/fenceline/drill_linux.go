package main

import "syscall"

// processAttributes keep Ctrl-C from the workers of a drill (the drill stops
// them itself) and end them with a drill that is killed, frozen ones too.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
