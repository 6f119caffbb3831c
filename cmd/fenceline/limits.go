package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) limitCmd() *cobra.Command {
	return group("limit", "What keeps jobs waiting: rates, holds, circuits", c.limitListCmd(), c.limitResetCmd())
}

func (c *cli) limitListCmd() *cobra.Command {
	var f storage.LimitFilter
	var tenant string
	list := &cobra.Command{
		Use: "list", Short: "List circuits, holds and rates as they stand",
		Long: "Lists what the middleware of kinds keeps: circuits that have seen failures, holds (jobs that must not overlap) and rates.\n" +
			"What is not listed is closed, or free.",
		Example: "  fenceline limit list\n  fenceline limit list --type circuit --tenant acme",
		Args:    exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
			if types := []string{"circuit", "hold", "rate"}; f.Type != "" && !slices.Contains(types, f.Type) {
				return invalid.New("--type", f.Type, "is not a type of limit; use one of %s", strings.Join(types, ", "))
			}
			scope := everything
			if tenant != "" {
				scope = storage.Scope{Tenant: tenant}
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				page, err := store.Limits(ctx, scope, f)
				if err != nil {
					return err
				}
				return c.print(page, func(w io.Writer) {
					limitTable(w, page.Items)
					c.more(w, page.Next)
				})
			})
		},
	}
	list.Flags().StringVar(&f.Type, "type", "", "only circuit, hold or rate")
	list.Flags().StringVar(&tenant, "tenant", "", "only limits of this tenant, without those of all tenants")
	list.Flags().StringVar(&f.After, "after", "", "go on where a list ended")
	limitFlag(list, &f.Limit)
	return list
}

func limitTable(w io.Writer, limits []storage.Limit) {
	fmt.Fprintln(w, "TYPE\tTENANT\tKEY\tSTATE\tSINCE\tUNTIL\tWAITING\tFAILURES\tJOB")
	for _, l := range limits {
		job := "–"
		if l.Job != nil {
			job = l.Job.String()
		}
		waiting := fmt.Sprint(l.Waiting)
		if l.Waiting == storage.LimitCountCap {
			waiting += " or more"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", l.Type, cmp.Or(l.Tenant, "*"), l.Key, l.State, stamp(l.Since), stamp(l.Until), waiting, l.Failures, job)
	}
}

func (c *cli) limitResetCmd() *cobra.Command {
	var key storage.LimitKey
	var yes bool
	cmd := &cobra.Command{
		Use: "reset KEY", Short: "Forget what is known under a key: close its circuit, free its hold, begin its rate afresh",
		Long: "Forgets what is known under a key of `limit list`: its circuit is closed, its rate begins afresh, and its hold is free, even when\n" +
			"a job still runs that has it. The jobs that wait for it become due.",
		Example: "  fenceline limit reset kind:mail --yes\n  fenceline limit reset 'everything 100/1m' --tenant '*' --yes",
		Args:    exactly("KEY"), RunE: func(cmd *cobra.Command, args []string) error {
			if key.Key = args[0]; key.Key == "" {
				return invalid.New("KEY", "", "is empty; `fenceline limit list` shows keys")
			}
			if !yes {
				return usageError("resetting %q lets jobs run that are kept waiting; add --yes to do it", key.Key)
			}
			if key.Tenant == "*" {
				key.Tenant = ""
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				woken, err := store.ResetLimit(ctx, everything, key)
				if err != nil {
					return err
				}
				if err := did(ctx, store, deed{"limit.changed", "limit", key.Key, key.Tenant, map[string]any{"reset": true, "jobs": woken}}); err != nil {
					return err
				}
				return c.print(map[string]any{"tenant": key.Tenant, "key": key.Key, "woken": woken}, func(w io.Writer) {
					fmt.Fprintf(w, "reset %s; %s that waited %s due\n", key.Key, count.Of(woken, "job"), count.Verb(woken, "is", "are"))
				})
			})
		},
	}
	cmd.Flags().StringVar(&key.Tenant, "tenant", jobs.DefaultTenant, "whose limit it is; * for one across all tenants")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}
