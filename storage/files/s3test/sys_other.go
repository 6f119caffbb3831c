//go:build !linux

package s3test

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
