//go:build unix

package leasetest

import (
	"syscall"
	"testing"
)

func (h *holder) freeze(t *testing.T) {
	t.Helper()
	if err := h.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func (h *holder) thaw(t *testing.T) {
	t.Helper()
	if err := h.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
