//go:build !linux

package main

import "syscall"

// dieWithTest is for Linux; elsewhere a child of a killed test process goes on.
func dieWithTest() *syscall.SysProcAttr { return nil }
