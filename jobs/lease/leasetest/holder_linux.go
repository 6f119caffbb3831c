package leasetest

import "syscall"

// dieWithTest ends a holder when the test dies, however it dies.
func dieWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
