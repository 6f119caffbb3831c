package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/people"
)

func (c *cli) tokenCmd() *cobra.Command {
	return group("token", "API tokens", c.tokenCreateCmd(), c.tokenListCmd(), c.tokenRevokeCmd())
}

func (c *cli) tokenCreateCmd() *cobra.Command {
	var tenant, expires string
	var verbs []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an API token; its secret is shown once",
		Example: "  fenceline token create ci --verbs view,request --tenant acme --expires 90d",
		Args:    exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := people.Token(args[0], tenant, verbs, expires, time.Now())
			if err != nil {
				return err
			}
			spec.CreatedBy = "cli"
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				t, secret, err := store.AddToken(ctx, spec)
				if err != nil {
					return err
				}
				details := map[string]any{"name": t.Name, "verbs": t.Verbs, "expires": t.ExpiresAt}
				if err := did(ctx, store, deed{"token.made", "token", t.ID.String(), tenant, details}); err != nil {
					return err
				}
				return c.print(map[string]any{"token": t, "secret": secret}, func(w io.Writer) { fmt.Fprintln(w, secret) })
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "the only tenant that it sees; empty: all")
	cmd.Flags().StringSliceVar(&verbs, "verbs", []string{"view", "request", "operate", "administer"}, "what it may do")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: 90d, 12h or a day such as 2027-01-31; empty: never")
	return cmd
}

func (c *cli) tokenListCmd() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List API tokens", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			tokens, err := store.Tokens(ctx)
			if err != nil {
				return err
			}
			return c.print(tokens, func(w io.Writer) {
				fmt.Fprintln(w, "ID\tNAME\tTENANT\tVERBS\tCREATED\tEXPIRES\tLAST USED\tREVOKED")
				for _, t := range tokens {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, inCellWhole(t.Name), orAll(t.Tenant), verbText(t.Verbs),
						stamp(&t.CreatedAt), stamp(t.ExpiresAt), stamp(t.LastUsedAt), stamp(t.RevokedAt))
				}
			})
		})
	}}
}

func verbText(verbs []storage.Verb) string {
	texts := make([]string, len(verbs))
	for i, v := range verbs {
		texts[i] = string(v)
	}
	return strings.Join(texts, ",")
}

func (c *cli) tokenRevokeCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{Use: "revoke ID", Short: "End an API token for good", Args: exactly("ID"), RunE: func(cmd *cobra.Command, args []string) error {
		if err := c.confirm(fmt.Sprintf("End the API token %s for good?", args[0]), yes); err != nil {
			return err
		}
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			id, err := parseID("ID", args[0])
			if err != nil {
				return err
			}
			if err := store.RevokeToken(ctx, everything, id); err != nil {
				return err
			}
			if err := did(ctx, store, deed{action: "token.revoked", kind: "token", id: id.String()}); err != nil {
				return err
			}
			return c.print(map[string]any{"revoked": id}, func(w io.Writer) { fmt.Fprintln(w, "revoked", id) })
		})
	}}
	yesFlag(cmd, &yes)
	return cmd
}
