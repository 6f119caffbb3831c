//go:build !unix

package main

import (
	"errors"
	"os"
	"syscall"
)

var errNoFreeze = errors.New("this system cannot freeze a process (SIGSTOP): run the drill on Linux or macOS, or run `fenceline drill kill`, `flush` or `double` here")

func canFreeze() error { return errNoFreeze }

func freeze(*os.Process) error { return errNoFreeze }

func thaw(*os.Process) error { return errNoFreeze }

func processAttributes() *syscall.SysProcAttr { return nil }
