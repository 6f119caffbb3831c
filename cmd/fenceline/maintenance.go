package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// longestNote bounds the note of a maintenance, in bytes.
const longestNote = 500

func (c *cli) maintenanceCmd() *cobra.Command {
	var note string
	on := &cobra.Command{
		Use: "on", Short: "Let workers begin nothing: jobs are accepted and wait, what runs goes on", Args: exactly(),
		Example: "  fenceline maintenance on --note 'moving the files'", RunE: func(cmd *cobra.Command, _ []string) error {
			if len(note) > longestNote {
				return invalid.New("--note", note, "must have %d bytes at most", longestNote)
			}
			return c.setMaintenance(cmd.Context(), true, note)
		},
	}
	on.Flags().StringVar(&note, "note", "", "why, for others to see")
	off := &cobra.Command{Use: "off", Short: "End the maintenance", Args: exactly(), Example: "  fenceline maintenance off", RunE: func(cmd *cobra.Command, _ []string) error {
		return c.setMaintenance(cmd.Context(), false, "")
	}}
	status := &cobra.Command{
		Use: "status", Short: "Say whether maintenance goes on", Args: exactly(), Example: "  fenceline maintenance status --json",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.withStore(cmd.Context(), c.sayMaintenance) },
	}
	return group("maintenance", "Let workers begin nothing for a while", on, off, status)
}

func (c *cli) setMaintenance(ctx context.Context, on bool, note string) error {
	return c.withStore(ctx, func(ctx context.Context, store *storage.Store) error {
		if err := store.SetMaintenance(ctx, on, note); err != nil {
			return err
		}
		action := "maintenance.ended"
		if on {
			action = "maintenance.begun"
		}
		if err := did(ctx, store, deed{action: action, details: map[string]any{"note": note}}); err != nil {
			return err
		}
		return c.sayMaintenance(ctx, store)
	})
}

func (c *cli) sayMaintenance(ctx context.Context, store *storage.Store) error {
	m, err := store.MaintenanceMode(ctx)
	if err != nil {
		return err
	}
	return c.print(map[string]any{"on": m.Since != nil, "since": m.Since, "note": m.Note}, func(w io.Writer) {
		if m.Since == nil {
			fmt.Fprintln(w, "maintenance is off")
			return
		}
		fmt.Fprintf(w, "maintenance is on since %s", stamp(m.Since))
		if m.Note != "" {
			fmt.Fprintf(w, ": %s", inCellWhole(m.Note))
		}
		fmt.Fprintln(w)
	})
}
