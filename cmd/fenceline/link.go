package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// commandLine is who does things from here: whoever can reach the database itself.
const commandLine = "command line"

func (c *cli) linkCmd() *cobra.Command {
	var after string
	var limit int
	list := &cobra.Command{Use: "list EXPORT", Short: "List the links to an export, the newest first", Args: exactly("EXPORT"), RunE: func(cmd *cobra.Command, args []string) error {
		id, err := parseID("EXPORT", args[0])
		if err != nil {
			return err
		}
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			page, err := store.Links(ctx, everything, id, after, limit)
			if err != nil {
				return err
			}
			return c.print(page, func(w io.Writer) { c.linkTable(w, page) })
		})
	}}
	list.Flags().StringVar(&after, "after", "", "go on where a list ended")
	limitFlag(list, &limit)
	revoke := &cobra.Command{Use: "revoke EXPORT LINK", Short: "End a link for good", Args: exactly("EXPORT", "LINK"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error { return c.revokeLink(ctx, store, args) })
	}}
	return group("link", "Links that open one file for whoever has them", c.linkCreateCmd(), list, revoke)
}

func (c *cli) linkCreateCmd() *cobra.Command {
	n := storage.NewLink{MadeBy: commandLine}
	var attempt string
	cmd := &cobra.Command{Use: "create EXPORT", Short: "Make a link to a file of an export; it is shown once", Args: exactly("EXPORT"),
		Example: "  fenceline link create 0199a1b2-… --lifetime 24h\n  fenceline link create 0199a1b2-… --file orders.csv --max-uses 1",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if n.Export, err = parseID("EXPORT", args[0]); err != nil {
				return err
			}
			if attempt != "" {
				if n.Attempt, err = parseID("--attempt", attempt); err != nil {
					return err
				}
			}
			if n.Valid < time.Second || n.Valid > c.conf.LinkMax {
				return invalid.New("--lifetime", n.Valid.String(), "must be from 1s to %s (LINK_MAX)", c.conf.LinkMax)
			}
			if n.MaxUses < 0 {
				return invalid.New("--max-uses", fmt.Sprint(n.MaxUses), "must not be negative")
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error { return c.createLink(ctx, store, n) })
		}}
	cmd.Flags().StringVar(&n.File, "file", "", "name of the file; not needed when there is one only")
	cmd.Flags().StringVar(&attempt, "attempt", "", "publication to open; the current one when left out")
	cmd.Flags().DurationVar(&n.Valid, "lifetime", 24*time.Hour, "how long it opens")
	cmd.Flags().IntVar(&n.MaxUses, "max-uses", 0, "how many downloads; 0 for any number")
	return cmd
}

func (c *cli) createLink(ctx context.Context, store *storage.Store, n storage.NewLink) error {
	export, err := store.Export(ctx, everything, n.Export)
	if err != nil {
		return err
	}
	of := n.Attempt
	if export.AttemptID != nil && n.Attempt == uuid.Nil {
		of = *export.AttemptID
	}
	files, err := store.Files(ctx, of)
	if err != nil {
		return err
	}
	if n.File == "" && len(files) == 1 {
		n.File = files[0].Name
	}
	if n.File == "" {
		return usageError("export %s has %s there: name one with --file", n.Export, count.Of(len(files), "file"))
	}
	l, secret, err := store.MakeLink(ctx, everything, n)
	if err != nil {
		return err
	}
	if err := c.auditLink(ctx, store, "link.made", export, l); err != nil {
		return err
	}
	url := c.conf.url(c.conf.Addr) + "/l/" + secret
	return c.print(struct {
		storage.Link
		URL string `json:"url"`
	}{l, url}, func(w io.Writer) { fmt.Fprintln(w, url) })
}

func (c *cli) revokeLink(ctx context.Context, store *storage.Store, args []string) error {
	id, err := parseID("EXPORT", args[0])
	if err != nil {
		return err
	}
	link, err := parseID("LINK", args[1])
	if err != nil {
		return err
	}
	l, err := store.RevokeLink(ctx, everything, id, link, commandLine)
	if err != nil {
		return err
	}
	export, err := store.Export(ctx, everything, id)
	if err != nil {
		return err
	}
	if err := c.auditLink(ctx, store, "link.revoked", export, l); err != nil {
		return err
	}
	return c.print(l, func(w io.Writer) { fmt.Fprintf(w, "link %s opens nothing any more\n", l.ID) })
}

// auditLink writes down what was done to a link from here.
func (c *cli) auditLink(ctx context.Context, store *storage.Store, action string, export storage.Export, l storage.Link) error {
	details, err := json.Marshal(map[string]any{"file": l.FileName, "attempt": l.AttemptID, "link": l.ID, "expires": l.ExpiresAt})
	if err != nil {
		return fmt.Errorf("encode the details of %s: %w", action, err)
	}
	return store.Audit(ctx, storage.AuditEntry{Actor: actor(), ActorKind: storage.ActorSystem, Tenant: &export.Tenant, Action: action,
		ObjectKind: "export", ObjectID: export.ID.String(), Details: details})
}

func (c *cli) linkTable(w io.Writer, page storage.Page[storage.Link]) {
	fmt.Fprintln(w, "LINK\tFILE\tMADE BY\tMADE\tUNTIL\tUSES\tSTATE")
	for _, l := range page.Items {
		state, uses := "open", fmt.Sprint(l.Uses)
		if l.Ended(time.Now()) {
			state = "ended"
		}
		if l.RevokedAt != nil {
			state = "revoked"
		}
		if l.MaxUses != nil {
			uses += fmt.Sprintf(" of %d", *l.MaxUses)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, inCellWhole(l.FileName), inCell(l.MadeBy), stamp(&l.MadeAt), stamp(&l.ExpiresAt), uses, state)
	}
	c.more(w, page.Next)
}
