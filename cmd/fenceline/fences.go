package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) fenceCmd() *cobra.Command {
	return group("fence", "Fences of your own tables", c.fenceListCmd(), c.fenceShowCmd(), c.fenceForgetCmd())
}

func (c *cli) fenceListCmd() *cobra.Command {
	var filter storage.FenceFilter
	var tenant string
	cmd := &cobra.Command{
		Use: "list", Short: "List fences by tenant and resource: who holds the newest token, which one wrote last",
		Example: "  fenceline fence list --tenant acme --prefix account:",
		Args:    exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
			scope, err := fenceScope(tenant, filter.Prefix)
			if err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				page, err := store.Fences(ctx, scope, filter)
				if err != nil {
					return err
				}
				return c.print(page, func(w io.Writer) {
					fmt.Fprintln(w, "TENANT\tRESOURCE\tNEWEST TOKEN\tHOLDER\tDRAWN\tLAST WRITE\tWRITTEN")
					for _, f := range page.Items {
						fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", f.Tenant, inCellWhole(f.Resource), f.IssuedToken, holder(f), stamp(&f.IssuedAt), lastWrite(f), stamp(f.WrittenAt))
					}
					c.more(w, page.Next)
				})
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only fences of this tenant")
	cmd.Flags().StringVar(&filter.Prefix, "prefix", "", "with --tenant: only resources that begin with this")
	cmd.Flags().StringVar(&filter.After, "after", "", "go on where a list ended")
	limitFlag(cmd, &filter.Limit)
	return cmd
}

// fenceScope is one tenant or all of them.
func fenceScope(tenant, prefix string) (storage.Scope, error) {
	switch {
	case tenant != "":
		return storage.Scope{Tenant: tenant}, jobs.CheckFence(tenant, cmp.Or(prefix, "any"))
	case prefix != "":
		return everything, usageError("--prefix needs --tenant: resources of all tenants are in no common order")
	}
	return everything, nil
}

func holder(f storage.FenceState) string {
	name := inCell(f.Holder)
	return orDash(&name)
}

// lastWrite is the token that wrote last, with its operation when it has several.
func lastWrite(f storage.FenceState) string {
	switch {
	case f.LastToken == 0:
		return "–"
	case f.LastOp == 0:
		return fmt.Sprintf("token %d", f.LastToken)
	}
	return fmt.Sprintf("token %d, operation %d", f.LastToken, f.LastOp)
}

func (c *cli) fenceShowCmd() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "show RESOURCE", Short: "Show the fence of a resource: who holds the newest token, which one wrote last",
		Example: "  fenceline fence show account:4711 --tenant acme",
		Args:    exactly("RESOURCE"), RunE: func(cmd *cobra.Command, args []string) error {
			if err := jobs.CheckFence(tenant, args[0]); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				f, err := store.FenceState(ctx, everything, tenant, args[0])
				if err != nil {
					return err
				}
				return c.print(map[string]any{"fence": f}, func(w io.Writer) {
					fmt.Fprintf(w, "resource\t%s\ntenant\t%s\nnewest token\t%d\nheld by\t%s\ndrawn\t%s\nlast write\t%s\nwritten\t%s\n",
						inCellWhole(f.Resource), f.Tenant, f.IssuedToken, holder(f), stamp(&f.IssuedAt), lastWrite(f), stamp(f.WrittenAt))
				})
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", jobs.DefaultTenant, "whose resource it is")
	return cmd
}

// leastForgotten keeps honest writers from being refused by a slip of the finger.
const leastForgotten = time.Hour

func (c *cli) fenceForgetCmd() *cobra.Command {
	var tenant string
	var unused time.Duration
	var yes bool
	cmd := &cobra.Command{
		Use: "forget", Short: "Delete fences that nobody has used for long; tokens that are still held of them are refused for ever",
		Example: "  fenceline fence forget --unused 720h --yes",
		Args:    exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case unused < leastForgotten:
				return usageError("--unused must be at least %s, such as 720h; got %s", leastForgotten, unused)
			case !yes:
				return usageError("a writer that was paused for longer than %s would be refused, rightly or not; add --yes to delete these fences", unused)
			}
			scope, err := fenceScope(tenant, "")
			if err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				n, err := store.ForgetFences(ctx, scope, unused)
				if err != nil {
					return err
				}
				return c.print(map[string]int64{"forgotten": n}, func(w io.Writer) { fmt.Fprintf(w, "forgot %s\n", count.Of(n, "fence")) })
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only fences of this tenant")
	cmd.Flags().DurationVar(&unused, "unused", 0, "for how long nobody drew a token or wrote, such as 720h (needed)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}
