package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A password is asked for twice, and is not shown while it is typed.
func TestAPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		again string
		code  int
	}{{"correct horse battery\n", exitDone}, {"correct horse batterz\n", exitUsage}} {
		person, program := terminal(t)
		asked := &lines{}
		cl := &cli{in: program, err: asked}
		type result struct {
			text string
			err  error
		}
		done := make(chan result, 1)
		go func() {
			text, err := cl.newPassword(passwordFlags{}, true)
			done <- result{text, err}
		}()
		for i, typed := range []string{"correct horse battery\n", c.again} {
			until(t, "it asks", func() bool { return strings.Contains(asked.String(), []string{"New password: ", "Once more: "}[i]) })
			unseen(t, int(program.Fd()))
			if _, err := person.WriteString(typed); err != nil {
				t.Fatal(err)
			}
		}
		got := <-done
		if exitCode(got.err) != c.code || c.code == exitDone && got.text != "correct horse battery" {
			t.Errorf("%q: %q, %v", c.again, got.text, got.err)
		}
		if strings.Contains(asked.String(), "correct") {
			t.Errorf("shown: %q", asked.String())
		}
	}
}

// unseen waits until a terminal no longer shows what is typed.
func unseen(t *testing.T, fd int) {
	t.Helper()
	for t.Context().Err() == nil {
		state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		if state.Lflag&unix.ECHO == 0 {
			return
		}
	}
}
