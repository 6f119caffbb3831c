package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// confirm asks before something that cannot be undone: nil means go on. With yes
// (from --yes) it does not ask. Without a terminal nobody can answer, and the
// command is refused.
func (c *cli) confirm(question string, yes bool) error {
	if yes {
		return nil
	}
	if !isTerminal(c.in) {
		return usageError("%s Nobody can answer without a terminal: add --yes", question)
	}
	fmt.Fprint(c.err, question+" [y/N] ")
	answer := make(chan string, 1)
	go func() { // a read cannot be broken off; the program ends
		line, _ := bufio.NewReader(c.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if line == "y" || line == "yes" {
			return nil
		}
	case <-c.interrupted:
		fmt.Fprintln(c.err)
	}
	return &coded{exitFailed, fmt.Errorf("nothing was done")}
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a descriptor is small
}

// yesFlag adds --yes to a command that asks.
func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
}
