package s3test

import "syscall"

// attributes bind the child to our life, and give it a process group of its own, so
// that an interrupt of the terminal reaches us first.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
