package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/localpg"
)

// Exit codes. 75 is EX_TEMPFAIL of sysexits(3): try again later.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitRefused  = 4
	exitPartly   = 5
	exitRecover  = 6 // recovery is needed first
	exitBusy     = 75
)

// coded is an error that has decided on its exit code.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

func usageError(format string, args ...any) error {
	return &coded{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	var c *coded
	var bad *invalid.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &bad), errors.Is(err, storage.ErrCursor), errors.Is(err, storage.ErrBadURL), storage.IsBadText(err):
		return exitUsage
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrNoSeries), errors.Is(err, report.ErrNotFound):
		return exitNotFound
	case errors.Is(err, storage.ErrFenced), errors.Is(err, storage.ErrKeyReused), errors.Is(err, storage.ErrGone), errors.Is(err, storage.ErrSeriesExists), errors.Is(err, storage.ErrTargetExists), errors.Is(err, storage.ErrVoid), errors.Is(err, storage.ErrNotFailed), errors.Is(err, storage.ErrCondemned),
		errors.Is(err, storage.ErrFromFile), errors.Is(err, storage.ErrNameTaken), errors.Is(err, storage.ErrOverlap), errors.Is(err, storage.ErrNotUnique), errors.Is(err, storage.ErrBatchEnded),
		errors.Is(err, storage.ErrUserExists), errors.Is(err, storage.ErrLastAdmin), errors.Is(err, storage.ErrOff), errors.Is(err, storage.ErrTooMuch),
		errors.Is(err, storage.ErrOnHold), errors.Is(err, storage.ErrPinned), errors.Is(err, storage.ErrCannotRestore), errors.Is(err, storage.ErrHeldAlready):
		return exitRefused
	case errors.Is(err, storage.ErrRecoveryNeeded):
		return exitRecover
	case errors.Is(err, storage.ErrBusy), errors.Is(err, storage.ErrAfterRecovery), errors.Is(err, localpg.ErrInUse):
		return exitBusy
	}
	return exitFailed
}

// exit prints an error once, for people or as JSON, and answers the code.
func (c *cli) exit(err error) int {
	code := exitCode(err)
	if err == nil {
		return code
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(c.err, "fenceline: interrupted")
		return exitFailed
	}
	if c.json {
		var problems []invalid.Problem
		var bad *invalid.Error
		if errors.As(err, &bad) {
			problems = bad.Problems
		}
		_ = json.NewEncoder(c.err).Encode(map[string]any{"error": err.Error(), "problems": some(problems), "exit_code": code})
		return code
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(c.err, "fenceline: "+line)
	}
	return code
}
