package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) auditCmd() *cobra.Command {
	var f storage.AuditFilter
	var since, tenant string
	cmd := &cobra.Command{
		Use: "audit", Short: "List who did what, the newest first", Args: exactly(),
		Example: "  fenceline audit --action export.downloaded --since 24h\n  fenceline audit --actor Nadia --json",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.From, err = sinceWhen(since, time.Now()); err != nil {
				return err
			}
			scope := everything
			if tenant != "" {
				scope = storage.Scope{Tenant: tenant}
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				page, err := store.AuditLog(ctx, scope, f)
				if err != nil {
					return err
				}
				return c.print(page, func(w io.Writer) { c.auditTable(w, page) })
			})
		},
	}
	cmd.Flags().StringVar(&f.Actor, "actor", "", "only deeds of this person or API token")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this action, such as export.downloaded")
	cmd.Flags().StringVar(&f.ObjectID, "object", "", "only what was done to the object of this id or name")
	cmd.Flags().StringVar(&since, "since", "", "only what was done since: a time, a day, or how long ago, such as 24h")
	cmd.Flags().StringVar(&tenant, "tenant", "", "only of this tenant")
	cmd.Flags().StringVar(&f.After, "after", "", "go on where a list ended")
	limitFlag(cmd, &f.Limit)
	return cmd
}

func (c *cli) auditTable(w io.Writer, page storage.Page[storage.AuditEntry]) {
	fmt.Fprintln(w, "AT\tACTOR\tKIND\tTENANT\tACTION\tOBJECT\tFROM\tDETAILS")
	for _, e := range page.Items {
		object := e.ObjectKind
		if e.ObjectID != "" {
			object += " " + e.ObjectID
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", stamp(&e.At), inCell(e.Actor), e.ActorKind, orDash(e.Tenant), e.Action, inCell(orDash(&object)),
			orDash(&e.Address), inCell(string(e.Details)))
	}
	c.more(w, page.Next)
}

// sinceWhen reads a time, a day (of UTC), or how long ago; empty is the zero time.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, invalid.New("--since", text, "must be a time such as 2026-11-30T10:00:00Z, a day, or how long ago, such as 24h")
}
