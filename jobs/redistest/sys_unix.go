//go:build unix

package redistest

import "syscall"

func (c *child) ask() error { return c.process.Signal(syscall.SIGTERM) }

func (c *child) thaw() error { return c.process.Signal(syscall.SIGCONT) }

func (c *child) freeze() error {
	if err := c.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return c.awaitStop()
}
