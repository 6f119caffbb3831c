package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// keepCmds are what people do to an export so that it stays, or goes.
func (c *cli) keepCmds() []*cobra.Command {
	return []*cobra.Command{c.pinCmd(), c.unpinCmd(), c.holdCmd(), c.releaseCmd(), c.exportDeleteCmd(), c.exportRestoreCmd(), c.holdsCmd()}
}

// keep runs one of them on an export, and says it.
func (c *cli) keep(cmd *cobra.Command, text, done string, do func(context.Context, *storage.Store, uuid.UUID) error) error {
	id, err := parseID("EXPORT", text)
	if err != nil {
		return err
	}
	return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
		if err := do(ctx, store, id); err != nil {
			return err
		}
		k, err := store.Keeping(ctx, everything, id, c.conf.SweepSuperseded)
		if err != nil {
			return err
		}
		return c.print(map[string]any{"export": id, "done": done, "keeping": k.Sentence()}, func(w io.Writer) { fmt.Fprintf(w, "%s %s\n%s\n", done, id, k.Sentence()) })
	})
}

// publication reads --attempt; nil when it is left out.
func publication(text string) (*uuid.UUID, error) {
	if text == "" {
		return nil, nil
	}
	id, err := parseID("--attempt", text)
	return &id, err
}

func (c *cli) pinCmd() *cobra.Command {
	var note, attempt string
	cmd := &cobra.Command{
		Use: "pin EXPORT", Short: "Keep an export, or one publication of it, until it is unpinned", Args: exactly("EXPORT"), Example: "  fenceline export pin 0199a1b2-… --note 'year end'",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := publication(attempt)
			if err == nil {
				err = needNote(note)
			}
			if err != nil {
				return err
			}
			return c.keep(cmd, args[0], "pinned", func(ctx context.Context, s *storage.Store, id uuid.UUID) error {
				return s.PinExport(ctx, everything, id, of, note, byCommandLine())
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why")
	cmd.Flags().StringVar(&attempt, "attempt", "", "only this publication")
	return cmd
}

func (c *cli) unpinCmd() *cobra.Command {
	var attempt string
	cmd := &cobra.Command{Use: "unpin EXPORT", Short: "Take a pin back", Args: exactly("EXPORT"), RunE: func(cmd *cobra.Command, args []string) error {
		of, err := publication(attempt)
		if err != nil {
			return err
		}
		return c.keep(cmd, args[0], "unpinned", func(ctx context.Context, s *storage.Store, id uuid.UUID) error {
			return s.UnpinExport(ctx, everything, id, of, byCommandLine())
		})
	}}
	cmd.Flags().StringVar(&attempt, "attempt", "", "only this publication")
	return cmd
}

func (c *cli) holdCmd() *cobra.Command {
	var note, tenant, kind string
	cmd := &cobra.Command{
		Use: "hold [EXPORT]", Short: "Put an export, or all of a tenant, on hold: nothing of it is deleted", Args: cobra.MaximumNArgs(1),
		Example: "  fenceline export hold 0199a1b2-… --note 'case 7'\n  fenceline export hold --tenant acme --kind invoice --note 'tax audit'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needNote(note); err != nil {
				return err
			}
			return c.oneOrTenant(cmd, args, tenant, kind, "put on hold",
				func(ctx context.Context, s *storage.Store, id uuid.UUID) error {
					return s.HoldExport(ctx, everything, id, note, byCommandLine())
				},
				func(ctx context.Context, s *storage.Store) error {
					if err := s.HoldTenant(ctx, tenant, given(kind), note, byCommandLine()); err != nil {
						return err
					}
					return c.hintNone(ctx, s, given(tenant), given(kind), "it will hold what comes")
				})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why")
	scopeFlags(cmd, &tenant, &kind)
	return cmd
}

func (c *cli) releaseCmd() *cobra.Command {
	var tenant, kind string
	cmd := &cobra.Command{
		Use: "release [EXPORT]", Short: "Release a hold", Args: cobra.MaximumNArgs(1), Example: "  fenceline export release --tenant acme --kind invoice",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.oneOrTenant(cmd, args, tenant, kind, "released",
				func(ctx context.Context, s *storage.Store, id uuid.UUID) error {
					return s.ReleaseExport(ctx, everything, id, byCommandLine())
				},
				func(ctx context.Context, s *storage.Store) error {
					return s.ReleaseTenant(ctx, tenant, given(kind), byCommandLine())
				})
		},
	}
	scopeFlags(cmd, &tenant, &kind)
	return cmd
}

// oneOrTenant does something to an export, or to all of a tenant.
func (c *cli) oneOrTenant(cmd *cobra.Command, args []string, tenant, kind, done string, one func(context.Context, *storage.Store, uuid.UUID) error, all func(context.Context, *storage.Store) error) error {
	switch {
	case (len(args) == 1) == (tenant != ""):
		return usageError("name an EXPORT, or a --tenant")
	case len(args) == 1 && kind != "":
		return usageError("--kind goes with --tenant")
	case len(args) == 1:
		return c.keep(cmd, args[0], done, one)
	}
	return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
		if err := all(ctx, store); err != nil {
			return err
		}
		return c.print(map[string]any{"tenant": tenant, "kind": given(kind), "done": done}, func(w io.Writer) { fmt.Fprintln(w, done, storage.AllOf(tenant, given(kind))) })
	})
}

func (c *cli) exportDeleteCmd() *cobra.Command {
	var yes, unpin bool
	cmd := &cobra.Command{
		Use: "delete EXPORT", Short: "Delete an export: its files go with a clean-up after SWEEP_SUPERSEDED", Args: exactly("EXPORT"),
		Long: "Deletes an export, softly: nothing publishes to it any more, its jobs are cancelled, and its files go with a clean-up\n" +
			"after SWEEP_SUPERSEDED. Until then `fenceline export restore` brings it back. Its key is not given to another.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.keep(cmd, args[0], "deleted", func(ctx context.Context, s *storage.Store, id uuid.UUID) error {
				return c.deleteExport(ctx, s, id, yes, unpin)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&unpin, "unpin", false, "also when it is pinned")
	return cmd
}

func (c *cli) deleteExport(ctx context.Context, s *storage.Store, id uuid.UUID, yes, unpin bool) error {
	e, err := s.Export(ctx, everything, id)
	if err != nil {
		return err
	}
	if !yes {
		w, err := s.WeighExport(ctx, everything, id)
		if err != nil {
			return err
		}
		return usageError("deleting %q takes %s (%s) and cancels %s; add --yes to do it", e.Title, count.Of(w.Files, "file"), count.Of(w.Bytes, "byte"), count.Of(w.Jobs, "job"))
	}
	if unpin {
		if err := s.UnpinExport(ctx, everything, id, nil, byCommandLine()); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return s.DeleteExport(ctx, everything, id, byCommandLine())
}

func (c *cli) exportRestoreCmd() *cobra.Command {
	return &cobra.Command{Use: "restore EXPORT", Short: "Bring a deleted export back while its files are there", Args: exactly("EXPORT"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.keep(cmd, args[0], "restored", func(ctx context.Context, s *storage.Store, id uuid.UUID) error {
			return s.RestoreExport(ctx, everything, id, byCommandLine())
		})
	}}
}

func (c *cli) holdsCmd() *cobra.Command {
	return &cobra.Command{Use: "holds", Short: "List what is on hold", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			list, err := store.Holds(ctx, everything)
			if err != nil {
				return err
			}
			return c.print(map[string]any{"items": list}, func(w io.Writer) {
				fmt.Fprintln(w, "TENANT\tKIND\tEXPORT\tPLACED BY\tPLACED\tNOTE")
				for _, h := range list {
					export := "all"
					if h.ExportID != nil {
						export = h.ExportID.String()
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", inCell(h.Tenant), inCell(orDash(h.Kind)), export, inCell(h.PlacedBy), stamp(&h.PlacedAt), inCell(h.Note))
				}
			})
		})
	}}
}
