package main

import (
	"strconv"

	"github.com/spf13/cobra"
)

// register adds the flags that every dispatch of one job has.
func (f *dispatchFlags) register(cmd *cobra.Command) {
	s, flags := &f.spec, cmd.Flags()
	flags.StringVar(&s.Tenant, "tenant", "", "whose job it is (that of the API token, or default, when nothing is said)")
	flags.StringVar(&s.Queue, "queue", "default", "queue to wait in")
	flags.IntVar(&s.Priority, "priority", 0, "-100 to 100; higher is sooner within the queue")
	flags.StringArrayVar(&s.Tags, "tag", nil, "word to find the job by; may be given again")
	flags.StringVar(&s.Delay, "delay", "", "how long to wait before the job is due, such as 10m")
	flags.StringVar(&s.At, "at", "", "when the job is due, such as 2026-12-24T18:00:00+01:00")
	flags.Var(optionalInt{&s.MaxAttempts}, "max-attempts", "how often it may fail (3 when nothing is said)")
	flags.StringVar(&s.Backoff, "backoff", "", "waits after failures: 5s, or 1s,10s,60s, or exp:2s:10m")
	flags.StringVar(&s.RetryUntil, "retry-until", "", "try again up to this time, as often as fits")
	flags.StringVar(&s.RetryFor, "retry-for", "", "try again for so long from now, as often as fits")
	flags.StringVar(&s.Timeout, "timeout", "", "bound of each attempt (1h when nothing is said)")
	flags.StringVar(&s.IdempotencyKey, "idempotency-key", "", "the same key with the same request is the same job")
	flags.StringVar(&s.Unique, "unique", "", "one job at a time: pending (until it begins), active (until it ends), or for so long")
	flags.StringVar(&s.UniqueKey, "unique-key", "", "with --unique: what is the same (the payload when nothing is said)")
	flags.StringVar(&s.Debounce, "debounce", "", "QUIET:MOST: wait until nobody asked for QUIET, at most MOST, and then run once")
	flags.StringVar(&s.DebounceKey, "debounce-key", "", "with --debounce: what is the same")
	flags.BoolVar(&f.wait, "wait", false, "wait until the job has ended")
	flags.StringVarP(&f.output, "output", "o", "", "save the published file here, or all of them in this folder (implies --wait; - for standard output)")
}

// optionalInt is a flag that knows whether it was given.
type optionalInt struct{ into **int }

// Set takes what was given.
func (o optionalInt) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return strconv.ErrSyntax
	}
	*o.into = &n
	return nil
}

// String is what was given, or empty.
func (o optionalInt) String() string {
	if o.into == nil || *o.into == nil {
		return ""
	}
	return strconv.Itoa(**o.into)
}

// Type is what the help shows.
func (optionalInt) Type() string { return "int" }
