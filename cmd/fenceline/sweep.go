package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/storage"
)

func (c *cli) sweepCmd() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "sweep", Short: "Remove the files of attempts that lost (for cron)",
		Long: "Condemns attempts that have been silent for too long and deletes the files of those that were\n" +
			"fenced out, failed, cancelled, condemned or replaced, after their quarantine. One runs at a time.\n\n" +
			"Exit codes: 0 nothing is wrong, 1 it refused to run or broke off, 5 some items failed (the next\nrun tries them again), 75 another one is running.",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				if dry {
					return c.sweepPlan(ctx, a.sweep())
				}
				return c.sweepRun(ctx, a.sweep())
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	return cmd
}

func (c *cli) sweepPlan(ctx context.Context, sw *storage.Sweep) error {
	items, err := sw.Plan(ctx)
	if err != nil {
		return err
	}
	return c.print(map[string]any{"planned": items}, func(w io.Writer) {
		if len(items) == 0 {
			fmt.Fprintln(w, "nothing to clean up")
			return
		}
		fmt.Fprintln(w, "ACTION\tTOKEN\tATTEMPT\tBYTES\tBECAUSE IT")
		for _, it := range items {
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\n", it.Action, it.Token, it.Attempt, it.Bytes, it.Why)
		}
	})
}

func (c *cli) sweepRun(ctx context.Context, sw *storage.Sweep) error {
	res, err := sw.Run(ctx)
	if err != nil {
		return err
	}
	err = c.print(res, func(w io.Writer) {
		fmt.Fprintf(w, "condemned %d, deleted %d, looked again at %d, failed %d of %d planned; %d bytes removed\n",
			res.Condemned, res.Deleted, res.Probed, res.Failed, res.Planned, res.Bytes)
		for _, name := range res.Unknown {
			fmt.Fprintln(w, "unknown, left alone:", name)
		}
		for _, e := range res.Errors {
			fmt.Fprintln(w, "failed:", e)
		}
	})
	if err == nil && res.Failed > 0 {
		err = &coded{exitPartly, fmt.Errorf("%d items failed; the next run tries them again", res.Failed)}
	}
	return err
}
