package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) sweepSwitchCmd(on bool) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "off", Short: "Switch clean-ups off: no run deletes anything, one that runs stops", Args: exactly(),
		Example: "  fenceline sweep off --note 'restoring a backup'",
	}
	if on {
		cmd = &cobra.Command{Use: "on", Short: "Switch clean-ups on again", Args: exactly(), Example: "  fenceline sweep on"}
	} else {
		cmd.Flags().StringVar(&note, "note", "", "why, for others to see")
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(note) > longestNote {
			return invalid.New("--note", note, "must have %d bytes at most", longestNote)
		}
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			if err := store.SwitchSweep(ctx, on, caller(), note); err != nil {
				return err
			}
			action := "sweep.off"
			if on {
				action = "sweep.on"
			}
			if err := did(ctx, store, deed{action: action, kind: "sweep", details: map[string]any{"note": note}}); err != nil {
				return err
			}
			return c.sayStatus(ctx, store)
		})
	}
	return cmd
}

// sweepStatus is what `sweep status` answers.
type sweepStatus struct {
	On      bool                `json:"on"`
	Off     *storage.SweepOff   `json:"off,omitempty"`
	Stored  storage.StoredTotal `json:"stored"`
	Waiting []storage.Waiting   `json:"waiting,omitempty"`
	Runs    []storage.SweepRun  `json:"runs"`
}

func (c *cli) sweepStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say what is stored, what waits to be deleted and what the last runs did", Args: exactly(), Example: "  fenceline sweep status",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				waiting, err := a.sweep().Waiting(ctx)
				if err != nil {
					return err
				}
				return c.sayStatusOf(ctx, a.store, waiting)
			})
		},
	}
}

func (c *cli) sayStatus(ctx context.Context, store *storage.Store) error {
	return c.sayStatusOf(ctx, store, nil)
}

func (c *cli) sayStatusOf(ctx context.Context, store *storage.Store, waiting []storage.Waiting) (err error) {
	s := sweepStatus{Waiting: waiting}
	if s.Off, err = store.SweepSwitch(ctx); err != nil {
		return err
	}
	s.On = s.Off == nil
	if s.Stored, err = store.Stored(ctx); err != nil {
		return err
	}
	if s.Runs, err = store.SweepRuns(ctx, 5); err != nil {
		return err
	}
	return c.print(s, func(w io.Writer) {
		if s.On {
			fmt.Fprintln(w, "clean-ups are on")
		} else {
			fmt.Fprintf(w, "clean-ups are OFF since %s by %s: %s\n", stamp(&s.Off.Since), s.Off.By, cmp.Or(inCellWhole(s.Off.Note), "no note"))
		}
		if waiting == nil {
			return
		}
		fmt.Fprintf(w, "%s of %s %s stored\n", count.Of(s.Stored.Bytes, "byte"), count.Of(s.Stored.Attempts, "attempt"), count.Verb(s.Stored.Bytes, "is", "are"))
		fmt.Fprintln(w, "\nREASON\tDUE\tBYTES\tOLDEST\tLATER\tBYTES\tNEXT DUE")
		for _, v := range waiting {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%s\n", v.Reason, v.Due, v.Bytes, stamp(timeOrNil(v.Oldest)), v.Later, v.LaterBytes, stamp(timeOrNil(v.Next)))
		}
		sayRuns(w, s.Runs)
	})
}

func sayRuns(w io.Writer, runs []storage.SweepRun) {
	fmt.Fprintln(w, "\nRUN\tSTARTED\tSTOPPED\tPLANNED\tCONDEMNED\tDELETED\tEXPIRED\tPROBED\tSKIPPED\tFAILED\tBYTES\tERROR")
	for _, r := range runs {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", r.ID, stamp(&r.StartedAt), orDash(r.Stopped), r.Planned, r.Condemned, r.Deleted, r.Expired, r.Probed,
			r.Skipped, r.Failed, r.Bytes, inCell(orDash(r.Error)))
	}
}

func (c *cli) sweepLogCmd() *cobra.Command {
	var f storage.DeletionFilter
	cmd := &cobra.Command{
		Use: "log", Short: "List what was deleted, by which run and why, the newest first", Args: exactly(), Example: "  fenceline sweep log --run 12",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("run") && f.Run < 1 {
				return invalid.New("--run", fmt.Sprint(f.Run), "must be the number of a run; `sweep status` shows them")
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				page, err := store.Deletions(ctx, f)
				if err != nil {
					return err
				}
				return c.print(page, func(w io.Writer) {
					fmt.Fprintln(w, "AT\tRUN\tTENANT\tEXPORT\tTOKEN\tATTEMPT\tFILES\tBYTES\tBECAUSE IT")
					for _, d := range page.Items {
						fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%s\t%d\t%d\t%s\n", stamp(&d.At), d.RunID, inCell(d.Tenant), d.Export, d.Token, d.Attempt, d.Files, d.Bytes, d.Why)
					}
					c.more(w, page.Next)
				})
			})
		},
	}
	cmd.Flags().Int64Var(&f.Run, "run", 0, "only what this run deleted")
	cmd.Flags().StringVar(&f.After, "after", "", "go on where a list ended")
	limitFlag(cmd, &f.Limit)
	return cmd
}

func (c *cli) sweepRecountCmd() *cobra.Command {
	return &cobra.Command{
		Use: "recount", Short: "Count afresh what is stored, which reads every attempt", Args: exactly(), Example: "  fenceline sweep recount",
		Long: "The total of what is stored is kept as it changes. Should it ever be wrong, such as after rows were changed with\ntriggers off, this counts it afresh; publications go on meanwhile.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				before, after, err := store.RecountStored(ctx)
				if err != nil {
					return err
				}
				return c.print(map[string]any{"before": before, "after": after}, func(w io.Writer) {
					fmt.Fprintf(w, "%s of %s %s stored; the books said %d of %d\n", count.Of(after.Bytes, "byte"), count.Of(after.Attempts, "attempt"), count.Verb(after.Bytes, "is", "are"), before.Bytes, before.Attempts)
				})
			})
		},
	}
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
