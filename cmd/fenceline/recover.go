package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) recoverCmd() *cobra.Command {
	var opt storage.RecoverOptions
	var yes bool
	cmd := &cobra.Command{
		Use: "recover", Short: "Go on after a restore, a failover or a copy",
		Long: "The database and its files remember each other. When they do not fit (a restored backup, a promoted\n" +
			"standby, another bucket, a copy of the database), nothing is published and nothing cleaned up, and jobs\n" +
			"wait, until this has run. It condemns unfinished attempts (their jobs run again), lets tokens go on above\n" +
			"every one that left a trace, says which pointers have no files and which files have no rows, and begins\n" +
			"a new epoch on both sides. It deletes nothing. Killed half-way, run it again.\n\n" +
			"Before: make sure that no other database works with these files. Whatever does stops when this is done.\n\n" +
			"Exit codes: 0 publishing goes on (or nothing was wrong), 1 it does not, such as while files of current\n" +
			"publications are missing, 75 a clean-up or another recovery is running.",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error { return c.recover(ctx, a, opt, yes) })
		},
	}
	cmd.Flags().BoolVar(&opt.DryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().BoolVar(&opt.Adopt, "adopt", false, "publish files without rows again, where their manifest proves them complete and nothing newer is published")
	cmd.Flags().BoolVar(&opt.FilesLost, "files-lost", false, "give up pointers whose files are missing: their pages say so until the next publication")
	yesFlag(cmd, &yes)
	return cmd
}

func (c *cli) recover(ctx context.Context, a *app, opt storage.RecoverOptions, yes bool) error {
	trouble := a.store.Paired(ctx)
	if !opt.DryRun && (trouble != nil || opt.Adopt || opt.FilesLost) {
		if err := c.confirm(recoverQuestion(trouble, opt), yes); err != nil {
			return err
		}
	}
	out := &recoverOut{findings: &findings{out: c.out, json: c.json, bar: c.newBar()}}
	opt.Found = out.tell
	sum, err := storage.Recover(ctx, a.store, a.files, opt)
	if err == nil && !opt.DryRun && sum.Done {
		details := map[string]any{"epoch": sum.Number, "condemned": sum.Condemned, "adopted": sum.Adopted, "lost": sum.Lost}
		err = did(ctx, a.store, deed{action: "recovery.run", details: details})
	}
	if err != nil && sum.Token == 0 { // refused, or broken off before there was anything to tell
		return err
	}
	if bad := out.finish(sum, opt); bad != nil {
		return fmt.Errorf("print what was found: %w", bad)
	}
	if err == nil && opt.DryRun && sum.Lost > 0 && !opt.FilesLost {
		err = &coded{exitFailed, fmt.Errorf("%w (%d)", storage.ErrFilesLost, sum.Lost)}
	}
	return err
}

func recoverQuestion(trouble error, opt storage.RecoverOptions) string {
	question := ""
	var why *storage.RecoveryError
	if errors.As(trouble, &why) {
		question = "Found: " + why.Why + ".\n"
	}
	question += "A new epoch begins: unfinished attempts are condemned, their jobs run again, and every other database that works with these files stops."
	if opt.Adopt {
		question += " Complete files without rows are published again."
	}
	if opt.FilesLost {
		question += " Publications whose files are missing are given up."
	}
	return question + " Go on?"
}

// recoverOut prints findings while they come, as [findings] does:
//
//	{"findings": [ … ], "summary": { … }}
type recoverOut struct{ *findings }

func (o *recoverOut) tell(x storage.RecoverFinding) {
	o.n++
	if !o.json {
		name := ""
		if x.Key != "" {
			name = fmt.Sprintf(" %s / %s / %s", x.Tenant, x.Kind, x.Key)
		}
		o.print(fmt.Sprintf("%s%s, export %s, token %d, attempt %s: %s\n", x.What, name, x.Export, x.Token, x.Attempt, x.Why))
		return
	}
	if o.n == 1 {
		o.print(`{"findings":[`)
	} else {
		o.print(",")
	}
	o.encode("\n", x)
}

func (o *recoverOut) finish(sum storage.RecoverSummary, opt storage.RecoverOptions) error {
	if o.json {
		if o.n == 0 {
			o.print(`{"findings":[`)
		}
		o.print("\n],\n")
		o.encode(`"summary":`, sum)
		o.print("}\n")
		return o.err
	}
	o.err = errors.Join(o.err, recoverText(o.out, sum, opt))
	return o.err
}

func recoverText(w io.Writer, s storage.RecoverSummary, opt storage.RecoverOptions) error {
	if s.Trouble == "" && s.Done && !opt.Adopt && !opt.FilesLost {
		_, err := fmt.Fprintln(w, "nothing to recover: the database and its files remember the same")
		return err
	}
	why := s.Trouble
	if why == "" {
		why = "nothing contradicts anything"
	}
	adopted, condemned := "adopted", count.Of(s.Condemned, "unfinished attempt")+" condemned, "
	if opt.DryRun {
		adopted, condemned = "adoptable", ""
	}
	_, err := fmt.Fprintf(w, "found: %s\n%s%s looked at, %d without their files; files without rows: %d unknown, %d %s\ntokens: %d was the highest that left a trace, they go on above %d\n",
		why, condemned, count.Of(s.Pointers, "pointer"), s.Lost, s.Unknown, s.Adopted, adopted, s.Seen, s.Token)
	switch {
	case err != nil:
	case opt.DryRun:
		_, err = fmt.Fprintln(w, "nothing was changed")
	case s.Done:
		_, err = fmt.Fprintf(w, "epoch %d has begun; publishing goes on\n", s.Number)
	}
	return err
}
