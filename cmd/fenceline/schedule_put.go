package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// scheduleFlags are how a schedule is asked for.
type scheduleFlags struct {
	report   reportFlags
	sc       storage.Schedule
	options  jobs.ScheduleOptions
	payload  string
	invoices bool
	without  bool
}

func (f *scheduleFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.sc.Cron, "cron", "", "five fields, six with seconds first, or @daily and the like")
	flags.StringVar(&f.sc.Tenant, "tenant", jobs.DefaultTenant, "whose job it is")
	flags.StringVar(&f.sc.Kind, "kind", "report", "kind of job; others than report and invoices take --payload")
	flags.StringVar(&f.payload, "payload", "", "with --kind: what the job is given, a JSON object")
	flags.BoolVar(&f.invoices, "invoices", false, "REPORT is a source of invoices")
	flags.StringVar(&f.sc.Missed, "missed", storage.MissedOnce, "what becomes of times that were missed: skip, once or all")
	flags.BoolVar(&f.without, "without-overlapping", false, "skip a time while an earlier run is at work")
	flags.StringVar(&f.options.Queue, "queue", "", "queue of its jobs")
	flags.IntVar(&f.options.Priority, "priority", 0, "priority of its jobs, -100 to 100")
	flags.StringSliceVar(&f.options.Tags, "tag", nil, "words to find its jobs by")
	flags.DurationVar(&f.options.Timeout, "timeout", 0, "bound of each attempt (default: an hour)")
	flags.IntVar(&f.options.MaxAttempts, "max-attempts", 0, "how often its jobs may fail (default: 3)")
	f.report.register(flags)
}

func (c *cli) schedulePutCmd() *cobra.Command {
	f := &scheduleFlags{}
	cmd := &cobra.Command{
		Use: "put NAME [REPORT]", Short: "Make a schedule of a report, the invoices of a source or any kind of job, or replace the one of this name",
		Long: "Dispatches REPORT by the clock, with --invoices the invoices of that source, or with --kind any kind of job.\n" +
			"Parameters (and what --payload has in params) may be words for days, reckoned from the local fire time: @today,\n" +
			"@yesterday, @tomorrow, @first-of-month, @first-of-last-month, @this-month, @last-month, @this-year, @last-year.\n\n" +
			"When clocks change, a schedule with a fixed hour runs once for each local time: one that is skipped at the first\n" +
			"instant after the gap, one that is repeated at its first pass. A schedule with a wildcard as its hour goes by the\n" +
			"time that elapses. A change does not fire for times that lie before it.",
		Example: "  fenceline schedule put monday stock --cron '0 6 * * 1' --zone Europe/Berlin\n" +
			"  fenceline schedule put billing monthly --invoices --param month=@last-month --cron '0 3 1 * *' --zone Europe/Berlin\n" +
			"  fenceline schedule put tidy --kind tidy --payload '{\"days\": 30}' --cron '*/10 * * * *' --without-overlapping",
		Args: asUsed(1, 2), RunE: func(cmd *cobra.Command, args []string) error {
			sc, err := f.schedule(cmd.Flags(), args)
			if err != nil {
				return err
			}
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error { return c.putSchedule(ctx, a, sc) })
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (c *cli) putSchedule(ctx context.Context, a *app, sc storage.Schedule) error {
	s := a.schedules()
	_, created, err := s.Put(ctx, everything, sc, asker)
	if err != nil {
		return err
	}
	details := map[string]any{"new": created, "cron": sc.Cron, "kind": sc.Kind}
	if err := did(ctx, a.store, deed{"schedule.saved", "schedule", sc.Name, cmp.Or(sc.Tenant, jobs.DefaultTenant), details}); err != nil {
		return err
	}
	saved, err := s.Show(ctx, everything, sc.Name)
	if err != nil {
		return err
	}
	return c.print(map[string]any{"schedule": saved, "created": created}, func(w io.Writer) {
		fmt.Fprintln(w, "saved schedule", sc.Name)
		if len(saved.Next) > 0 {
			fmt.Fprintln(w, "next:", inZone(saved.Next[0]))
		}
	})
}

// schedule is what the flags and arguments ask for.
func (f *scheduleFlags) schedule(flags *pflag.FlagSet, args []string) (sc storage.Schedule, err error) {
	sc = f.sc
	sc.Name, sc.Zone = args[0], f.report.choice.Zone // the days of the report are those of its schedule
	sc.Overlap, sc.Options = !f.without, f.options.JSON()
	if flags.Changed("payload") || sc.Kind != "report" && sc.Kind != jobs.InvoiceRunName {
		if len(args) > 1 || f.invoices || flags.Changed("param") {
			return sc, usageError("--kind %s takes --payload instead of REPORT, --param and --invoices", sc.Kind)
		}
		if sc.Payload = json.RawMessage(f.payload); f.payload == "" {
			sc.Payload = json.RawMessage("{}")
		}
		return sc, nil
	}
	if len(args) != 2 {
		return sc, usageError("`fenceline schedule put` takes NAME and REPORT, or NAME and --kind; got %q", args)
	}
	if f.invoices || sc.Kind == jobs.InvoiceRunName {
		values, err := parseParams(f.report.params)
		if err != nil {
			return sc, err
		}
		sc.Kind = jobs.InvoiceRunName
		sc.Payload, err = rawJSON(map[string]any{"source": args[1], "params": values})
		return sc, err
	}
	sc.Payload, err = f.report.payload(args[1], flags)
	return sc, err
}
