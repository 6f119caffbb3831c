package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) verifyCmd() *cobra.Command {
	var opt storage.VerifyOptions
	cmd := &cobra.Command{
		Use: "verify", Short: "Check the laws against every row and every file",
		Long: "Reads the whole database and all files that have to be there and lists whatever the laws forbid: a\n" +
			"pointer to a missing or damaged file, tokens or data that went back, a job published twice or stuck,\n" +
			"files that nobody owns. It changes nothing and may run while everything is at work.\n\n" +
			"Warnings (a job that nobody takes care of, files that are not Fenceline's) are listed and do not\n" +
			"change the exit code. With --drained the files on disk must be exactly those that are owned, as far as\n" +
			"the last clean-up had to see to it: run `fenceline sweep` until it finds nothing, then this.\n\n" +
			"Exit codes: 0 no law is broken, 1 one is, or not everything could be looked at.",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error { return c.verify(ctx, a, opt) })
		},
	}
	cmd.Flags().BoolVar(&opt.Drained, "drained", false, "files that the last clean-up had to take are violations too")
	cmd.Flags().BoolVar(&opt.SizesOnly, "sizes-only", false, "compare sizes and read no file: quick, but blind to changed bytes")
	cmd.Flags().DurationVar(&opt.Stuck, "stuck", time.Hour, "how long a job may be left alone before that is a warning")
	return cmd
}

func (c *cli) verify(ctx context.Context, a *app, opt storage.VerifyOptions) error {
	out := c.newFindings()
	opt.Sweep = storage.SweepOptions{Grace: a.conf.SweepGrace, Quarantine: a.conf.SweepQuarantine, Superseded: a.conf.SweepSuperseded}
	opt.Progress = out.progress
	sum, err := storage.Verify(ctx, a.store, a.files, opt, out.add)
	if err := out.end(sum, err == nil); err != nil {
		return fmt.Errorf("print what was found: %w", err)
	}
	if err == nil && sum.Violations > 0 {
		err = &coded{exitFailed, fmt.Errorf("the laws are broken: %s", count.Of(sum.Violations, "violation"))}
	}
	return err
}

// findings prints what a verify finds while it goes on, and keeps none of it:
// a line each, or the elements of one JSON document
//
//	{"violations": [ … ], "summary": { … }}
//
// whose summary is null when not everything could be looked at.
type findings struct {
	out  io.Writer
	json bool
	bar  *bar
	next time.Time // when the progress line is drawn again
	n    int
	err  error // of the first write that failed
}

func (c *cli) newFindings() *findings {
	f := &findings{out: c.out, json: c.json, bar: c.newBar()}
	if f.json {
		f.print(`{"violations":[`)
	}
	return f
}

func (f *findings) print(text string) {
	if f.err == nil {
		_, f.err = io.WriteString(f.out, text)
	}
}

func (f *findings) add(v storage.Violation) {
	f.bar.end() // the terminal may show both
	f.n++
	if !f.json {
		f.print(v.String() + "\n")
		return
	}
	if f.n > 1 {
		f.print(",")
	}
	f.encode("\n", v)
}

func (f *findings) encode(before string, v any) {
	raw, err := json.Marshal(v)
	if err != nil && f.err == nil {
		f.err = err
	}
	f.print(before + string(raw))
}

// progress draws the line on a terminal, a few times a second.
func (f *findings) progress(p storage.VerifyProgress) {
	now := time.Now()
	if !f.bar.live || now.Before(f.next) {
		return
	}
	f.next = now.Add(100 * time.Millisecond)
	fmt.Fprintf(f.bar.out, "\r\x1b[K%s: %d of %d", p.Step, p.Done, p.Total)
	if p.Step == "files" {
		fmt.Fprintf(f.bar.out, ", %s read", count.Of(p.Bytes, "byte"))
	}
}

func (f *findings) end(sum storage.Summary, complete bool) error {
	f.bar.end()
	switch {
	case f.json && complete:
		f.print("\n],\n")
		f.encode(`"summary":`, sum)
		f.print("}\n")
	case f.json:
		f.print("\n],\n\"summary\":null}\n")
	case complete:
		f.print(summaryLine(sum))
	}
	return f.err
}

func summaryLine(s storage.Summary) string {
	how := "read and hashed"
	if !s.Hashed {
		how = "sizes only, hashes not compared"
	}
	line := fmt.Sprintf("%s, %s, %s, %s with %s (%s) in %s: %s",
		count.Of(s.Exports, "export"), count.Of(s.Jobs, "job"), count.Of(s.Attempts, "attempt"), count.Of(s.Files, "file"), count.Of(s.Bytes, "byte"), how,
		s.Elapsed.Round(time.Millisecond), count.Of(s.Violations, "violation"))
	if s.Warnings > 0 {
		line += ", " + count.Of(s.Warnings, "warning")
	}
	if s.Garbage > 0 {
		line += fmt.Sprintf("; %s with %s left to the clean-up", count.Of(s.Garbage, "folder"), count.Of(s.GarbageBytes, "byte"))
	}
	return line + "\n"
}
