package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) sweepAuditCmd() *cobra.Command {
	var show []string
	cmd := &cobra.Command{
		Use: "audit", Short: "List the whole store and sort every file: what is it, and is anything missing?", Args: exactly(),
		Example: "  fenceline sweep audit\n  fenceline sweep audit --show orphan,unknown --json",
		Long: "Sorts every file of the store: current, retained (replaced, or of a deleted export, and kept for its readers), live\n" +
			"(of an attempt at work), quarantined, orphan (waits for the next run), unknown (no attempt accounts for it; never\n" +
			"deleted), and missing: recorded, and not in the store or of another size. Nothing is changed.\n\n" +
			"Exit codes: 0 nothing is missing, 1 something is, or it broke off.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, class := range show {
				if !slices.Contains(storage.Classes(), storage.Class(class)) {
					return invalid.New("--show", class, "must be of %v", storage.Classes())
				}
			}
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				if err := a.sweep().Check(ctx); err != nil {
					return err
				}
				return c.sweepAudit(ctx, a.sweep(), show)
			})
		},
	}
	cmd.Flags().StringSliceVar(&show, "show", []string{string(storage.ClassUnknown), string(storage.ClassMissing)}, "classes whose files are listed, with commas between them")
	return cmd
}

func (c *cli) sweepAudit(ctx context.Context, sw *storage.Sweep, show []string) error {
	lines := json.NewEncoder(c.out)
	lines.SetEscapeHTML(false)
	sum, err := sw.Audit(ctx, func(f storage.AuditFinding) error {
		if !slices.Contains(show, string(f.Class)) {
			return nil
		}
		if c.json {
			return lines.Encode(f)
		}
		_, err := fmt.Fprintf(c.out, "%-11s  %s (%s)%s\n", f.Class, inCellWhole(f.Path), count.Of(f.Size, "byte"), after(": ", f.What))
		return err
	})
	if err != nil {
		return err
	}
	if c.json {
		err = lines.Encode(map[string]any{"summary": sum})
	} else {
		tab := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
		fmt.Fprintln(tab, "CLASS\tFILES\tBYTES")
		for _, class := range storage.Classes() {
			fmt.Fprintf(tab, "%s\t%d\t%d\n", class, sum.Classes[class].Objects, sum.Classes[class].Bytes)
		}
		err = tab.Flush()
	}
	if n := sum.Classes[storage.ClassMissing].Objects; err == nil && n > 0 {
		err = &coded{exitFailed, fmt.Errorf("%s %s missing; `fenceline verify` says what that breaks", count.Of(n, "file"), count.Verb(n, "is", "are"))}
	}
	return err
}

func after(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func (c *cli) sweepExplainCmd() *cobra.Command {
	return &cobra.Command{
		Use: "explain FILE|ATTEMPT|EXPORT", Short: "Say in a sentence why a file stays or goes", Args: exactly("a file's path, or the id of an attempt or an export"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				list, err := a.sweep().Explain(ctx, args[0])
				if err != nil {
					return err
				}
				off, err := a.store.SweepSwitch(ctx)
				if err != nil {
					return err
				}
				return c.print(map[string]any{"items": list, "off": off}, func(w io.Writer) {
					for _, x := range list {
						if len(list) > 1 {
							fmt.Fprintf(w, "%s (token %d) ", x.Subject, x.Token)
						}
						fmt.Fprintln(w, inCellWhole(x.Sentence))
					}
					if off != nil {
						fmt.Fprintf(w, "(clean-ups are switched off since %s, so nothing goes)\n", stamp(&off.Since))
					}
				})
			})
		},
	}
}
