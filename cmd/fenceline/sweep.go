package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

const sweepLong = "Condemns attempts that have been silent for too long and deletes the files of those that were\n" +
	"fenced out, failed, cancelled, condemned or replaced, after their quarantine. One runs at a time.\n\n" +
	"Exit codes: 0 nothing is wrong, 1 it refused to run on what it found or broke off, 4 it is switched off or\n" +
	"would delete too large a share, 5 some items failed (the next run tries them again), 6 recovery is needed first,\n" +
	"75 another one is running, or a recovery was not long ago."

// sweepFlags bound one run.
type sweepFlags struct {
	tenant, time          string
	limit, pace, maxShare int
}

func (f *sweepFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "only the exports of this tenant")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "how many attempts at most; the next run goes on (default SWEEP_LIMIT)")
	cmd.Flags().StringVar(&f.time, "time", "", "for how long at most, such as 30s (default SWEEP_TIME)")
	cmd.Flags().IntVar(&f.pace, "pace", 0, "share of the time to work, in percent (default SWEEP_PACE)")
	cmd.Flags().IntVar(&f.maxShare, "max-share", 0, "share of all stored bytes that may be deleted, in percent (default SWEEP_MAX_SHARE)")
}

// sweep is the clean-up as configured and as the flags have it.
func (f *sweepFlags) sweep(cmd *cobra.Command, a *app) (*storage.Sweep, error) {
	var bad invalid.Error
	set := func(name string, value, most int, into func(int)) {
		if !cmd.Flags().Changed(name) {
			return
		}
		if value < 1 || value > most {
			bad.Add("--"+name, fmt.Sprint(value), "must be a number from 1 to %d", most)
		}
		into(value)
	}
	sw := a.sweep().With(func(o *storage.SweepOptions) {
		o.Tenant = f.tenant
		set("limit", f.limit, 100_000_000, func(n int) { o.Limit = n })
		set("pace", f.pace, 100, func(n int) { o.Pace = n })
		set("max-share", f.maxShare, 100, func(n int) { o.MaxShare = float64(n) / 100 })
		if cmd.Flags().Changed("time") {
			d, err := time.ParseDuration(f.time)
			if err != nil || d <= 0 {
				bad.Add("--time", f.time, "must be a duration such as 30s or 15m")
			}
			o.Time = d
		}
	})
	return sw, bad.OrNil()
}

func (c *cli) sweepCmd() *cobra.Command {
	var dry bool
	var f sweepFlags
	run := func(cmd *cobra.Command, plan bool) error {
		c.log = slog.New(slog.DiscardHandler) // that recovery is needed is this command's own error
		return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
			sw, err := f.sweep(cmd, a)
			switch {
			case err != nil:
				return err
			case plan:
				if err := sw.Check(ctx); err != nil {
					return err
				}
				if err := c.sayRefused(sw.Refused(ctx)); err != nil {
					return err
				}
				return c.sweepPlan(ctx, sw)
			}
			return c.sweepRun(ctx, a.store, sw)
		})
	}
	cmd := &cobra.Command{
		Use: "sweep", Short: "Remove the files of attempts that lost (for cron)", Long: sweepLong, Args: cobra.ArbitraryArgs, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return helpOrUnknown(cmd, args)
			}
			return run(cmd, dry)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done, as `sweep plan` does")
	f.add(cmd)
	now := &cobra.Command{
		Use: "run", Short: "Clean up now", Long: sweepLong, Example: "  fenceline sweep run --time 5m", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, false) },
	}
	plan := &cobra.Command{
		Use: "plan", Short: "Say what the next run would do, and do nothing of it", Example: "  fenceline sweep plan\n  fenceline sweep plan --json | tail -1", Args: exactly(),
		Long: "Says in its order what `sweep run` would do now: it is the same code. With --json each item is a line, and the\ntotals are the last one. A limit of time cannot be told beforehand.",
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, true) },
	}
	f.add(now)
	f.add(plan)
	cmd.AddCommand(now, plan, c.sweepExplainCmd(), c.sweepAuditCmd(), c.sweepSwitchCmd(false), c.sweepSwitchCmd(true), c.sweepStatusCmd(), c.sweepLogCmd(), c.sweepRecountCmd())
	return cmd
}

// planHead is how many items people see with their header row at once: a plan may be long, and is written as it comes.
const planHead = 200

func (c *cli) sweepPlan(ctx context.Context, sw *storage.Sweep) error {
	lines := json.NewEncoder(c.out)
	lines.SetEscapeHTML(false)
	tab, n := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0), 0
	t, err := sw.Plan(ctx, func(it storage.SweepItem) error {
		if c.json {
			return lines.Encode(it)
		}
		if n%planHead == 0 {
			fmt.Fprintln(tab, "ACTION\tTENANT\tTOKEN\tATTEMPT\tBYTES\tBECAUSE IT")
		}
		n++
		fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t%d\t%s\n", it.Action, inCell(it.Tenant), it.Token, it.Attempt, it.Bytes, it.Why)
		if n%planHead == 0 {
			return tab.Flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.json {
		return lines.Encode(map[string]any{"totals": t})
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	return c.print(t, func(w io.Writer) { sayTotals(w, t) })
}

func sayTotals(w io.Writer, t storage.SweepTotals) {
	if t.Behind {
		fmt.Fprintln(w, "This database takes no writes: what a run brings up to date first is not told, so it may do more. Plan on the primary.")
	}
	if t.Items == 0 {
		fmt.Fprintln(w, "nothing to clean up")
		return
	}
	fmt.Fprintln(w, "\nTO DO\tATTEMPTS\tBYTES\tOLDEST\tREASON")
	for _, r := range t.Reasons {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", r.Action, r.Items, r.Bytes, stamp(&r.Oldest), r.Reason)
	}
	fmt.Fprintf(w, "in all\t%d\t%d\t\tbytes are those to be deleted\n", t.Items, t.Bytes)
	if t.Limited {
		fmt.Fprintln(w, "The limit of one run is reached; the next run goes on.")
	}
}

// sayRefused says beside a plan that a run would do nothing of it now; any other error is answered.
func (c *cli) sayRefused(why error) error {
	if !errors.Is(why, storage.ErrOff) && !errors.Is(why, storage.ErrAfterRecovery) {
		return why
	}
	fmt.Fprintf(c.err, "fenceline: `sweep run` would do nothing of this now: %s\n", why)
	return nil
}

func (c *cli) sweepRun(ctx context.Context, store *storage.Store, sw *storage.Sweep) error {
	res, err := sw.Run(ctx)
	if res.ID == 0 { // nothing was begun
		return err
	}
	details := map[string]any{"condemned": res.Condemned, "deleted": res.Deleted, "expired": res.Expired, "bytes": res.Bytes, "failed": res.Failed}
	err = errors.Join(err, did(ctx, store, deed{action: "sweep.run", kind: "sweep", details: details}))
	if err != nil && !c.json && res.Planned == 0 && res.UnknownCount == 0 { // refused as a whole: the error says why
		return err
	}
	said := c.print(res, func(w io.Writer) {
		fmt.Fprintf(w, "condemned %d, deleted %d, expired %d, looked again at %d, skipped %d, failed %d of %d planned; %s removed\n",
			res.Condemned, res.Deleted, res.Expired, res.Probed, res.Skipped, res.Failed, res.Planned, count.Of(res.Bytes, "byte"))
		if why := whyStopped(res.Stopped); why != "" {
			fmt.Fprintln(w, why)
		}
		for _, name := range res.Unknown {
			fmt.Fprintln(w, "unknown, left alone:", name)
		}
		for _, e := range res.Errors {
			fmt.Fprintln(w, "failed:", e)
		}
	})
	switch {
	case err != nil:
		return err
	case said != nil:
		return said
	case res.Failed > 0:
		return &coded{exitPartly, fmt.Errorf("%s failed; the next run tries again", count.Of(res.Failed, "item"))}
	}
	return nil
}

// whyStopped is for people; "" when there is nothing more to say.
func whyStopped(stopped string) string {
	switch stopped {
	case "limit":
		return "stopped at the limit of one run; the next run goes on"
	case "time":
		return "stopped when its time was over; the next run goes on"
	case "interrupted":
		return "interrupted; the next run goes on"
	case "off":
		return "stopped because clean-ups were switched off"
	case "failures":
		return "stopped because too many items failed"
	}
	return ""
}
