package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// keyring reads the keys as configured; nil when there are none.
func (c Config) keyring() (*secret.Keyring, error) {
	text, from := c.Keys, "FENCELINE_KEYS"
	if c.KeysFile != "" {
		from = "FENCELINE_KEYS_FILE"
		raw, err := os.ReadFile(c.KeysFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		text = string(raw)
	}
	ring, err := secret.Parse(text)
	if err != nil {
		return nil, invalid.New(from, "", "%s", err)
	}
	if ring == nil && c.KeysFile != "" {
		return nil, invalid.New(from, c.KeysFile, "holds no key")
	}
	return ring, nil
}

func (c *cli) keysCmd() *cobra.Command {
	return group("keys", "Keys that seal the secret fields of payloads", c.keysNewCmd(), c.keysStatusCmd(), c.keysRotateCmd())
}

func (c *cli) keysNewCmd() *cobra.Command {
	return &cobra.Command{
		Use: "new [NAME]", Short: "Print a fresh key, as an entry for FENCELINE_KEYS",
		Long: "Prints a fresh key as NAME:KEY. It is kept nowhere: put it in front of FENCELINE_KEYS (or into the file\n" +
			"that FENCELINE_KEYS_FILE names) on every machine. Without NAME it is named after the day, such as k20260131.",
		Example: "  export FENCELINE_KEYS=$(fenceline keys new)\n  export FENCELINE_KEYS=$(fenceline keys new k2),$FENCELINE_KEYS",
		Args:    asUsed(0, 1), RunE: func(_ *cobra.Command, args []string) error {
			name := "k" + time.Now().UTC().Format("20060102")
			if len(args) == 1 {
				name = args[0]
			}
			entry, err := secret.NewEntry(name)
			if err != nil {
				return usageError("%w", err)
			}
			return c.print(map[string]string{"name": name, "entry": entry}, func(w io.Writer) { fmt.Fprintln(w, entry) })
		},
	}
}

// keyStatus is a key and what it is needed for.
type keyStatus struct {
	Name  string `json:"name"`
	Seals bool   `json:"seals"` // new values
	Here  bool   `json:"here"`  // FENCELINE_KEYS has it
	storage.SealedUse
	Advice string `json:"advice"`
}

// keysLooked bounds how many finished jobs `keys status` looks at.
const keysLooked = storage.CountCap

func (c *cli) keysStatusCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show how many stored values need each key, and which keys can go",
		Long: "Counts the sealed values of jobs by the key that sealed them: of all jobs that can still run, failed ones\n" +
			fmt.Sprintf("included, and of the newest %d that have finished; with --all of every job, which reads the whole table.\n\n", keysLooked) +
			"A key can be removed when no job needs it that can still run. What finished jobs have sealed with it cannot\n" +
			"be opened any more then; nothing but a repeated idempotency key asks for it.\n\n" +
			"Exit codes: 0 every value can be opened, 5 some need a key that is not here.",
		Example: "  fenceline keys status\n  fenceline keys status --all --json",
		Args:    exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
			ring, err := c.conf.keyring()
			if err != nil {
				return err
			}
			limit := keysLooked
			if all {
				limit = -1
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				uses, looked, err := store.SealedUses(ctx, limit)
				if err != nil {
					return err
				}
				bare := uses[""].Webhooks
				delete(uses, "")
				return c.printKeys(keysStatus(ring, uses), bare, looked, all || looked < keysLooked)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "look at all finished jobs, however many there are")
	return cmd
}

// keysStatus lists the keys at hand in their order, then those that are missing.
func keysStatus(ring *secret.Keyring, uses map[string]storage.SealedUse) []keyStatus {
	list := []keyStatus{}
	for _, name := range ring.Names() {
		s := keyStatus{Name: name, Here: true, Seals: name == ring.First(), SealedUse: uses[name]}
		switch {
		case s.Seals:
			s.Advice = "seals new values"
		case s.needed() > 0:
			s.Advice = "needed: run `fenceline keys rotate`"
		default:
			s.Advice = "can be removed, when no machine seals with it any more"
		}
		list = append(list, s)
	}
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		if slices.Contains(ring.Names(), name) {
			continue
		}
		s := keyStatus{Name: name, SealedUse: uses[name], Advice: "was removed; only finished jobs have values of it"}
		if s.needed() > 0 {
			s.Advice = "missing: add it to FENCELINE_KEYS, or what it sealed cannot be used here"
		}
		list = append(list, s)
	}
	return list
}

// needed are values that somebody will want opened.
func (s keyStatus) needed() int64 { return s.Live + s.Webhooks + s.Failed }

// printKeys says how the keys stand; bare are secrets of webhooks that none has sealed.
func (c *cli) printKeys(list []keyStatus, bare, looked int64, whole bool) error {
	err := c.print(map[string]any{"keys": list, "webhooks_not_sealed": bare, "finished_jobs_looked_at": looked, "finished_jobs_all": whole}, func(w io.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(w, "no keys here, and no sealed values; `fenceline keys new` makes a key")
			return
		}
		fmt.Fprintln(w, "KEY\tWAITING OR RUNNING\tWEBHOOKS\tFAILED\tFINISHED\tADVICE")
		for _, s := range list {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", s.Name, s.Live, s.Webhooks, s.Failed, s.Finished, s.Advice)
		}
		if bare > 0 {
			fmt.Fprintf(w, "\n%s of webhooks %s not sealed: run `fenceline keys rotate` with a key\n", count.Of(bare, "secret"), count.Verb(bare, "is", "are"))
		}
		if !whole {
			fmt.Fprintf(w, "\nof finished jobs the newest %d were looked at; --all looks at every one\n", looked)
		}
	})
	if err != nil {
		return err
	}
	for _, s := range list {
		if !s.Here && s.needed() > 0 {
			return &coded{exitPartly, fmt.Errorf("%s of jobs that can still run and of webhooks %s the key %s, which is not here", count.Of(s.needed(), "value"), count.Verb(s.needed(), "needs", "need"), s.Name)}
		}
	}
	return nil
}

func (c *cli) keysRotateCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "rotate", Short: "Seal stored values again with the first key",
		Long: "Seals the values of all jobs that can still run, failed ones included, again with the first key of\n" +
			"FENCELINE_KEYS; with --all those of finished jobs too. Workers may run meanwhile. It can be broken off and\n" +
			"started again.\n\n" +
			"To change keys: 1. put the new key behind the old one on every machine, and restart them; 2. put it first\n" +
			"everywhere; 3. run this; 4. remove the old key when `fenceline keys status` says so.\n\n" +
			"Exit codes: 0 every value has the first key, 5 some could not be opened.",
		Example: "  fenceline keys rotate",
		Args:    exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
			ring, err := c.conf.keyring()
			if err != nil {
				return err
			}
			if err := ring.Ready(); err != nil {
				return usageError("%w", err)
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				r, err := jobs.RotateKeys(ctx, store, ring, all)
				if err != nil {
					return errors.Join(fmt.Errorf("after %s: %w", count.Of(r.Jobs, "job"), err), didRotate(ctx, store, r, 0))
				}
				hooks, err := notify.ResealSecrets(ctx, store, ring)
				if err := errors.Join(err, didRotate(ctx, store, r, hooks)); err != nil {
					return &coded{exitPartly, err}
				}
				return c.printRotation(r, hooks)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "finished jobs too")
	return cmd
}

// didRotate writes down what was sealed again, in many transactions.
func didRotate(ctx context.Context, store *storage.Store, r jobs.Rotation, hooks int64) error {
	return did(ctx, store, deed{action: "keys.rotated", kind: "key", id: r.Key, details: map[string]any{"jobs": r.Jobs, "values": r.Values, "left": r.Left, "webhooks": hooks}})
}

func (c *cli) printRotation(r jobs.Rotation, hooks int64) error {
	err := c.print(struct {
		jobs.Rotation
		Webhooks int64 `json:"webhooks"`
	}{r, hooks}, func(w io.Writer) {
		fmt.Fprintf(w, "sealed %s of %s again with key %s; %s %s left\n", count.Of(r.Values, "value"), count.Of(r.Jobs, "job"), r.Key, count.Of(r.Left, "job"), count.Verb(r.Left, "is", "are"))
		if hooks > 0 {
			fmt.Fprintf(w, "sealed %s of webhooks with it\n", count.Of(hooks, "secret"))
		}
		for _, why := range slices.Sorted(maps.Keys(r.Unopened)) {
			fmt.Fprintf(w, "%s: %s\n", count.Of(r.Unopened[why], "job"), why)
		}
	})
	if err == nil && r.Left > 0 {
		err = &coded{exitPartly, fmt.Errorf("%s still %s values of other keys; run it again, with the keys that are missing", count.Of(r.Left, "job"), count.Verb(r.Left, "has", "have"))}
	}
	return err
}
