package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fenceline/fenceline/jobs/redistest"
)

// terminal is a new pseudoterminal: what a person types, and what the program reads.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]int{"y\n": exitDone, "YES\n": exitDone, " yes \n": exitDone, "n\n": exitFailed, "\n": exitFailed, "yeah\n": exitFailed, "\x04": exitFailed} {
		person, program := terminal(t)
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		var asked bytes.Buffer
		c := &cli{in: program, err: &asked}
		if err := c.confirm("Delete it?", false); exitCode(err) != want || asked.String() != "Delete it? [y/N] " {
			t.Errorf("%q: %v, asked %q", typed, err, asked.String())
		}
	}
	_, program := terminal(t)
	interrupted := make(chan struct{})
	close(interrupted)
	if err := (&cli{in: program, err: new(bytes.Buffer), interrupted: interrupted}).confirm("Delete it?", false); exitCode(err) != exitFailed {
		t.Errorf("after Ctrl-C: %v", err)
	}
	var asked bytes.Buffer
	for _, c := range []*cli{{in: strings.NewReader("y\n"), err: &asked}, {err: &asked}} {
		if err := c.confirm("Delete it?", false); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "--yes") || asked.Len() > 0 {
			t.Errorf("without a terminal: %v, asked %q", err, asked.String())
		}
		if err := c.confirm("Delete it?", true); err != nil || asked.Len() > 0 {
			t.Errorf("with --yes: %v, asked %q", err, asked.String())
		}
	}
}

// What cannot be undone asks, and does nothing before it was told to.
func TestDestructiveCommandsAsk(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.report("mine", "SELECT 1 AS id ORDER BY 1\n")
	s.ok("schedule", "put", "nightly", "mine", "--cron", "@daily")
	for _, args := range [][]string{{"schedule", "delete", "nightly"}, {"token", "revoke", "x"}, {"invoice", "void", "A-1", "--reason", "r"}} {
		p := s.start(args...) // its standard input is no terminal
		<-p.exited
		if p.ProcessState.ExitCode() != exitUsage || !strings.Contains(p.output.String(), "add --yes") {
			t.Errorf("%v: %v, %s", args, p.err, p.output)
		}
	}
	if out := s.ok("schedule", "list"); !strings.Contains(out, "nightly") {
		t.Error("it was deleted unasked")
	}
	s.ok("schedule", "delete", "nightly", "--yes")
	if out := s.ok("schedule", "list"); strings.Contains(out, "nightly") {
		t.Error("it was not deleted")
	}
}
