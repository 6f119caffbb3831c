package main

import "syscall"

// dieWithTest ends a child when the test process dies, however it dies.
func dieWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
