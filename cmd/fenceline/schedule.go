package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) scheduleCmd() *cobra.Command {
	work := &cobra.Command{
		Use: "work", Short: "Fire schedules, ring for jobs and clean up, until it is stopped",
		Long: "Fires schedules at their times, follows the file of schedules, rings for jobs and cleans up. Any number may run at once.",
		Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
			return c.daemon(cmd.Context(), true, func(ctx context.Context, a *app) error {
				deliverer, err := a.deliverer()
				if err != nil {
					return err
				}
				return runParts(ctx, a.scheduler().Run, a.relay().Run, deliverer.Run)
			})
		},
	}
	return group("schedule", "Jobs by the clock", work, c.scheduleRunCmd(), c.scheduleListCmd(), c.scheduleShowCmd(), c.scheduleHistoryCmd(), c.schedulePutCmd(),
		c.scheduleVerbCmd("pause", "Let a schedule fire no more", "paused", (*storage.Store).PauseSchedule),
		c.scheduleVerbCmd("resume", "Let a paused schedule fire again; what it missed is not made up", "resumed", (*storage.Store).ResumeSchedule),
		c.scheduleDeleteCmd(), c.scheduleCheckCmd())
}

// asker is who acts by the command line: whoever can reach the database itself.
const asker = "cli"

func (c *cli) scheduleRunCmd() *cobra.Command {
	return &cobra.Command{
		Use: "run [NAME]", Short: "Fire what is due, once (for cron), or one schedule now",
		Long: "Takes over the file of schedules, fires every schedule that is due, and exits: for a line of crontab instead of\n" +
			"`schedule work`. With NAME it fires that schedule now, by hand; its words for days mean today.\n\n" +
			"Exit codes: 0 nothing is wrong, 1 it failed, 4 the schedule does not overlap and a run is at work, 5 some were\nrefused or could not be looked at (the history says why).",
		Example: "  * * * * *  fenceline schedule run\n  fenceline schedule run monday",
		Args:    asUsed(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				if len(args) == 1 {
					return c.runSchedule(ctx, a, args[0])
				}
				return c.runDue(ctx, a)
			})
		},
	}
}

func (c *cli) runSchedule(ctx context.Context, a *app, name string) error {
	run, _, err := a.schedules().RunNow(ctx, everything, name, asker, "")
	if err != nil {
		return err
	}
	if err := did(ctx, a.store, deed{"schedule.run", "schedule", name, run.Tenant, map[string]any{"job": run.JobID}}); err != nil {
		return err
	}
	return c.print(run, func(w io.Writer) {
		fmt.Fprintf(w, "job %s of schedule %s\nwatch it:  fenceline job show %s\n", run.JobID, name, run.JobID)
	})
}

// runDue is one look at everything.
func (c *cli) runDue(ctx context.Context, a *app) error {
	s := a.schedules()
	errFile := syncFile(ctx, a, s)
	runs, err := s.Fire(ctx)
	refused := 0
	for _, r := range runs {
		if r.Outcome == storage.RunRefused {
			refused++
		}
	}
	shown := c.print(map[string]any{"runs": some(runs)}, func(w io.Writer) {
		if len(runs) == 0 {
			fmt.Fprintln(w, "nothing was due")
			return
		}
		runTable(w, runs)
	})
	switch err = errors.Join(errFile, err); {
	case shown != nil:
		return shown
	case err != nil && len(runs) > 0:
		return &coded{exitPartly, err}
	case err == nil && refused > 0:
		return &coded{exitPartly, fmt.Errorf("%d of %d were refused", refused, len(runs))}
	}
	return err
}

// syncFile takes the file of schedules over, if there is one.
func syncFile(ctx context.Context, a *app, s *jobs.Schedules) error {
	raw, err := os.ReadFile(a.conf.Schedules)
	if errors.Is(err, fs.ErrNotExist) && a.conf.schedulesOptional() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("SCHEDULES_FILE: %w", err)
	}
	done, err := s.Sync(ctx, a.conf.Schedules, a.name, raw)
	if len(done.Kept) > 0 {
		a.log.Warn("schedules of the file that were made at run time, and stay", "names", done.Kept)
	}
	return err
}

func runTable(w io.Writer, runs []storage.ScheduleRun) {
	fmt.Fprintln(w, "SCHEDULE\tFIRE TIME\tOUTCOME\tJOB\tSTATE\tBY\tWHY")
	for _, r := range runs {
		job, by, why := "–", "clock", orDash(r.Reason)
		if r.JobID != nil {
			job = r.JobID.String()
		}
		if r.Manual {
			by = r.AskedBy
		}
		if r.Passed > 0 {
			why = strings.TrimPrefix(fmt.Sprintf("%s; %s %s own", why, count.Of(r.Passed, "earlier time"), count.Verb(r.Passed, "has no run of its", "have no run of their")), "–; ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Schedule, stamp(&r.FireAt), r.Outcome, job, orDash((*string)(r.JobState)), by, why)
	}
}

func (c *cli) scheduleListCmd() *cobra.Command {
	var f storage.ScheduleFilter
	cmd := &cobra.Command{Use: "list", Short: "List schedules with their next time and last run", Example: "  fenceline schedule list --limit 200", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
			page, err := a.schedules().List(ctx, everything, f)
			if err != nil {
				return err
			}
			file, err := a.store.ScheduleFile(ctx)
			if err != nil {
				return err
			}
			answer := struct {
				storage.Page[jobs.ScheduleView]
				File storage.ScheduleFile `json:"file"`
			}{page, file}
			return c.print(answer, func(w io.Writer) { c.scheduleTable(w, page, file) })
		})
	}}
	cmd.Flags().StringVar(&f.After, "after", "", "go on where a list ended")
	limitFlag(cmd, &f.Limit)
	return cmd
}

func (c *cli) scheduleTable(w io.Writer, page storage.Page[jobs.ScheduleView], file storage.ScheduleFile) {
	fmt.Fprintln(w, "SCHEDULE\tCRON\tZONE\tTENANT\tKIND\tFROM\tNEXT\tLAST\tOUTCOME\tJOB")
	for _, s := range page.Items {
		next := "–"
		switch {
		case s.PausedAt != nil:
			next = "paused"
		case len(s.Next) > 0:
			next = inZone(s.Next[0])
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Cron, s.Zone, s.Tenant, s.Kind, s.Source, next, stamp(s.LastFire), orDash(s.LastOutcome), orDash((*string)(s.LastState)))
	}
	for _, s := range page.Items {
		if s.Problem != nil {
			fmt.Fprintf(w, "\nproblem of %s: %s\n", s.Name, *s.Problem)
		}
	}
	if file.Problem != nil {
		fmt.Fprintf(w, "\nproblem of the file, since %s: %s\n", stamp(file.ProblemAt), *file.Problem)
	}
	c.more(w, page.Next)
}

// inZone is a time with its offset: which of two equal hours it is, too.
func inZone(t time.Time) string { return t.Format("2006-01-02 15:04:05 -07:00") }

func (c *cli) scheduleShowCmd() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Show a schedule, its next five times and its newest runs", Example: "  fenceline schedule show monday", Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
			s, err := a.schedules().Show(ctx, everything, args[0])
			if err != nil {
				return err
			}
			runs, err := a.store.ScheduleRuns(ctx, everything, args[0], "", 10)
			if err != nil {
				return err
			}
			return c.print(map[string]any{"schedule": s, "runs": some(runs.Items), "next_runs": runs.Next}, func(w io.Writer) { showSchedule(w, s, runs) })
		})
	}}
}

func showSchedule(w io.Writer, s jobs.ScheduleView, runs storage.Page[storage.ScheduleRun]) {
	from := s.Source + ", " + stamp(&s.ChangedAt)
	if s.ChangedBy != "" {
		from += " by " + s.ChangedBy
	}
	overlap := "may overlap"
	if !s.Overlap {
		overlap = "without overlapping"
	}
	fmt.Fprintf(w, "schedule\t%s\ncron\t%s\nzone\t%s\ntenant\t%s\nkind\t%s\npayload\t%s\noptions\t%s\nmissed\t%s\noverlap\t%s\nfrom\t%s\n",
		s.Name, s.Cron, s.Zone, s.Tenant, s.Kind, s.Payload, s.Options, s.Missed, overlap, from)
	if s.PausedAt != nil {
		fmt.Fprintf(w, "paused\t%s\n", stamp(s.PausedAt))
	}
	if s.Problem != nil {
		fmt.Fprintf(w, "problem\t%s\n", *s.Problem)
	}
	for _, at := range s.Next {
		fmt.Fprintf(w, "next\t%s\n", inZone(at))
	}
	fmt.Fprintln(w)
	runTable(w, runs.Items)
	if runs.Next != "" {
		fmt.Fprintf(w, "\nmore: fenceline schedule history %s --after %s\n", s.Name, runs.Next)
	}
}

func (c *cli) scheduleHistoryCmd() *cobra.Command {
	var after string
	var limit int
	cmd := &cobra.Command{
		Use: "history NAME", Short: "List the runs of a schedule, the newest first; also of one that was deleted", Example: "  fenceline schedule history monday --limit 200",
		Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				page, err := store.ScheduleRuns(ctx, everything, args[0], after, limit)
				if err != nil {
					return err
				}
				page.Items = some(page.Items)
				return c.print(page, func(w io.Writer) {
					runTable(w, page.Items)
					c.more(w, page.Next)
				})
			})
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "go on where a list ended")
	limitFlag(cmd, &limit)
	return cmd
}

func (c *cli) scheduleVerbCmd(verb, short, done string, do func(*storage.Store, context.Context, storage.Scope, string) error) *cobra.Command {
	return &cobra.Command{Use: verb + " NAME", Short: short, Example: "  fenceline schedule " + verb + " monday", Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			if err := do(store, ctx, everything, args[0]); err != nil {
				return err
			}
			if err := did(ctx, store, deed{action: "schedule." + done, kind: "schedule", id: args[0]}); err != nil {
				return err
			}
			return c.print(map[string]string{done: args[0]}, func(w io.Writer) { fmt.Fprintln(w, done, "schedule", args[0]) })
		})
	}}
}

func (c *cli) scheduleDeleteCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a schedule; its jobs and its history stay", Example: "  fenceline schedule delete monday --yes",
		Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.confirm(fmt.Sprintf("Delete the schedule %s?", args[0]), yes); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if err := store.DeleteSchedule(ctx, everything, args[0]); err != nil {
					return err
				}
				if err := did(ctx, store, deed{action: "schedule.deleted", kind: "schedule", id: args[0]}); err != nil {
					return err
				}
				return c.print(map[string]string{"deleted": args[0]}, func(w io.Writer) { fmt.Fprintln(w, "deleted schedule", args[0]) })
			})
		},
	}
	yesFlag(cmd, &yes)
	return cmd
}

func (c *cli) scheduleCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Check a file of schedules, and change nothing", Example: "  fenceline schedule check schedules.yml",
		Long: "Reads a file of schedules and checks every entry as `schedule put` does: times, zones, kinds, parameters, reports.\nNames what is wrong with its line (exit 2).",
		Args: exactly("FILE"), RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := readInput(args[0])
			if err != nil {
				return err
			}
			if _, err := jobs.ParseScheduleFile(raw); err != nil { // needs no database
				return err
			}
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				list, err := a.schedules().CheckFile(ctx, raw)
				if err != nil {
					return err
				}
				return c.print(map[string]any{"schedules": some(list)}, func(w io.Writer) { fmt.Fprintf(w, "%s, nothing is wrong\n", count.Of(len(list), "schedule")) })
			})
		},
	}
}

// some is a list that JSON shows as [] when it is empty.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
