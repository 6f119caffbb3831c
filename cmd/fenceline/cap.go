package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// mostRunning bounds a cap.
const mostRunning = 1_000_000

func (c *cli) queueCapCmd() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List the caps", Args: exactly(), Example: "  fenceline queue cap list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				caps, err := store.Caps(ctx)
				if err != nil {
					return err
				}
				return c.print(caps, func(w io.Writer) {
					fmt.Fprintln(w, "OF\tNAME\tAT MOST")
					for _, one := range caps {
						fmt.Fprintf(w, "%s\t%s\t%d\n", one.Scope, one.Name, one.MaxRunning)
					}
				})
			})
		},
	}
	set := &cobra.Command{
		Use: "set queue|kind|tenant NAME N", Short: "Let at most N jobs of a queue, a kind or a tenant run at once, on all workers together",
		Long:    "Jobs above it wait; that is no attempt, and what runs goes on. The tenant * stands for each tenant without a cap of its own, so that none starves the others.",
		Example: "  fenceline queue cap set kind invoice 4\n  fenceline queue cap set tenant '*' 8", Args: exactly("queue|kind|tenant", "NAME", "N"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[2])
			if err != nil || n < 0 || n > mostRunning {
				err = invalid.New("N", args[2], "must be 0 to %d", mostRunning)
			}
			if err := invalid.Join(checkCap(args[0], args[1]), err); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				one := storage.Cap{Scope: args[0], Name: args[1], MaxRunning: n}
				if err := store.SetCap(ctx, one); err != nil {
					return err
				}
				if err := did(ctx, store, deed{action: "limit.changed", kind: one.Scope, id: one.Name, details: map[string]any{"running": n}}); err != nil {
					return err
				}
				return c.print(one, func(w io.Writer) {
					fmt.Fprintf(w, "at most %s of %s %s %s at once\n", count.Of(n, "job"), one.Scope, one.Name, count.Verb(n, "runs", "run"))
				})
			})
		},
	}
	remove := &cobra.Command{
		Use: "delete queue|kind|tenant NAME", Short: "Remove a cap", Args: exactly("queue|kind|tenant", "NAME"), Example: "  fenceline queue cap delete kind invoice",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkCap(args[0], args[1]); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if err := store.DeleteCap(ctx, args[0], args[1]); err != nil {
					return err
				}
				return c.print(map[string]string{"scope": args[0], "deleted": args[1]}, func(w io.Writer) { fmt.Fprintf(w, "%s %s has no cap any more\n", args[0], args[1]) })
			})
		},
	}
	return group("cap", "How many jobs may run at once", list, set, remove)
}

func checkCap(scope, name string) error {
	switch scope {
	case "tenant":
		if name == "*" {
			return nil
		}
		return jobs.CheckName("NAME", name)
	case "queue":
		return jobs.CheckName("NAME", name)
	case "kind":
		if name == "" {
			return invalid.New("NAME", name, "must not be empty")
		}
		return nil
	}
	return invalid.New("queue|kind|tenant", scope, "must be queue, kind or tenant")
}
