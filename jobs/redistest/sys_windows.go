package redistest

import (
	"errors"
	"syscall"
)

const endsWithUs = false

func attributes() *syscall.SysProcAttr { return nil }

func (c *child) ask() error { return c.process.Kill() }

func (c *child) freeze() error { return errors.New("a process cannot be frozen on Windows") }

func (c *child) thaw() error { return errors.New("a process cannot be frozen on Windows") }
