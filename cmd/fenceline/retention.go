package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// byCommandLine is who changes what is kept.
func byCommandLine() storage.AuditEntry {
	return storage.AuditEntry{Actor: actor(), ActorKind: storage.ActorSystem}
}

// readers is the longest time that somebody may need a replaced publication.
func (c Config) readers() time.Duration { return max(c.LinkMax, c.SweepSuperseded) }

func (c *cli) retentionCmd() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the rules, the general ones first", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			rules, err := store.RetentionRules(ctx, everything)
			if err != nil {
				return err
			}
			return c.print(map[string]any{"items": rules}, func(w io.Writer) { retentionTable(w, rules) })
		})
	}}
	return group("retention", "For how long publications are kept", list, c.retentionSetCmd(), c.retentionRemoveCmd(), c.retentionDefaultsCmd())
}

func retentionTable(w io.Writer, rules []storage.RetentionRule) {
	fmt.Fprintln(w, "TENANT\tKIND\tCURRENT\tREPLACED\tSET BY\tSET")
	for _, r := range rules {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(value(r.Tenant), "*"), cmp.Or(value(r.Kind), "*"), r.Current(), r.Superseded(), inCell(r.SetBy), stamp(&r.SetAt))
	}
	if len(rules) == 0 {
		fmt.Fprintln(w, "no rules: current publications stay for ever, replaced ones for SWEEP_SUPERSEDED; `fenceline retention defaults` sets some")
	}
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// scopeFlags are those that name what a rule is for.
func scopeFlags(cmd *cobra.Command, tenant, kind *string) {
	cmd.Flags().StringVar(tenant, "tenant", "", "only for this tenant")
	cmd.Flags().StringVar(kind, "kind", "", "only for this kind, such as report")
}

func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (c *cli) retentionSetCmd() *cobra.Command {
	var tenant, kind string
	var dry bool
	var r storage.RetentionRule
	cmd := &cobra.Command{
		Use: "set", Short: "Set the rule for a tenant, a kind, both or everything", Args: exactly(),
		Long: "Sets a rule in place of the one for the same tenant and kind. The most specific one counts: of a tenant and kind,\n" +
			"of a kind, of a tenant, of everything. Give --current, --superseded or both; the one that is left out is for ever.",
		Example: "  fenceline retention set --kind report --current 90 --superseded 14 --keep 3\n  fenceline retention set --kind report --current 30 --dry-run\n  fenceline retention set --kind invoice --current forever",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Tenant, r.Kind = given(tenant), given(kind)
			if err := jobs.CheckRetention(r, c.conf.readers(), retentionFlag); err != nil {
				return err
			}
			if !cmd.Flags().Changed("current") && !cmd.Flags().Changed("superseded") {
				return usageError("%s needs --current DAYS|forever, --superseded DAYS|forever, or both: without them it would keep all for ever", r.Name())
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if dry {
					return c.previewRetention(ctx, store, storage.RetentionChange{Rule: r})
				}
				return c.setRetention(ctx, store, r)
			})
		},
	}
	scopeFlags(cmd, &tenant, &kind)
	cmd.Flags().Var(keepDays{&r.CurrentDays}, "current", "days that a publication stays that nothing replaced, or forever")
	cmd.Flags().Var(keepDays{&r.SupersededDays}, "superseded", "days that a replaced publication stays, or forever")
	cmd.Flags().IntVar(&r.SupersededKeep, "keep", 0, "so many of the newest replaced publications stay, however old")
	dryFlag(cmd, &dry)
	return cmd
}

func (c *cli) retentionRemoveCmd() *cobra.Command {
	var tenant, kind string
	var dry bool
	cmd := &cobra.Command{
		Use: "remove", Short: "Remove the rule for exactly this tenant and kind", Args: exactly(), Example: "  fenceline retention remove --kind report\n  fenceline retention remove --kind report --dry-run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				if dry {
					return c.previewRetention(ctx, store, storage.RetentionChange{Rule: storage.RetentionRule{Tenant: given(tenant), Kind: given(kind)}, Remove: true})
				}
				if err := store.RemoveRetention(ctx, given(tenant), given(kind), byCommandLine()); err != nil {
					return err
				}
				name := storage.RetentionRule{Tenant: given(tenant), Kind: given(kind)}.Name()
				return c.print(map[string]string{"removed": name}, func(w io.Writer) { fmt.Fprintln(w, "removed", name) })
			})
		},
	}
	scopeFlags(cmd, &tenant, &kind)
	dryFlag(cmd, &dry)
	return cmd
}

func dryFlag(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "change nothing: say what would be due at once")
}

// previewPatience is how long --dry-run counts.
const previewPatience = time.Minute

// previewRetention says what a change would make due at once.
func (c *cli) previewRetention(ctx context.Context, store *storage.Store, change storage.RetentionChange) error {
	p, err := store.PreviewRetention(ctx, change, c.conf.SweepSuperseded, previewPatience)
	if err != nil {
		return err
	}
	return c.print(p, func(w io.Writer) {
		least, does := "", "set"
		if p.Partial {
			least = "at least "
		}
		if change.Remove {
			does = "removed"
		}
		fmt.Fprintf(w, "nothing is %s; %s would decide for %s%s\n", does, change.Rule.Name(), least, countOf(p.Exports, "export"))
		fmt.Fprintln(w, "due with the next clean-up, and not due as things are:")
		fmt.Fprintf(w, "  %s%s, %s: their exports expire\n", least, countOf(p.Current, "current publication"), bytesText(uint64(p.CurrentBytes)))
		fmt.Fprintf(w, "  %s%s, %s: their files are removed\n", least, countOf(p.Replaced, "replaced publication"), bytesText(uint64(p.ReplacedBytes)))
		if p.Partial {
			fmt.Fprintf(w, "counting stopped after %s, when %s had been looked at\n", previewPatience, count.Of(p.LookedAt, "publication"))
		}
	})
}

func (c *cli) retentionDefaultsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "defaults", Short: "Set the rules that a new installation begins with", Args: exactly(),
		Long: "Sets three rules: reports stay 30 days, replaced ones 7 days and the newest five; invoices for ever; all else for ever.\n" +
			"Days are more when LINK_MAX or SWEEP_SUPERSEDED are. Other rules stay as they are.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				rules := storage.DefaultRetention(c.conf.readers())
				for _, r := range rules {
					if err := store.SetRetention(ctx, r, byCommandLine()); err != nil {
						return err
					}
				}
				return c.print(map[string]any{"items": rules}, func(w io.Writer) {
					for _, r := range rules {
						fmt.Fprintf(w, "%s: current publications stay %s, replaced ones %s\n", r.Name(), r.Current(), r.Superseded())
					}
				})
			})
		},
	}
}

// needNote refuses to pin or hold for no reason: who finds it a year later has to know.
func needNote(note string) error {
	if note == "" {
		return invalid.New("--note", "", "is needed: say why, for who finds it later")
	}
	return nil
}

// migrate brings the database to the newest schema. A new installation begins with
// the default rules of retention; one that was there before keeps what it has.
func (c *cli) migrate(ctx context.Context, conf Config) (int, error) {
	n, err := storage.Migrate(ctx, cmp.Or(conf.DirectURL, conf.DatabaseURL))
	if err != nil || n < storage.MigrationCount() {
		return n, err
	}
	store, err := storage.Open(ctx, cmp.Or(conf.DirectURL, conf.DatabaseURL), storage.Options{})
	if err != nil {
		return n, err
	}
	defer store.Close()
	for _, r := range storage.DefaultRetention(conf.readers()) {
		if err := store.SetRetention(ctx, r, byCommandLine()); err != nil {
			return n, err
		}
	}
	return n, nil
}

// retentionFlag is the flag of a field of a rule.
func retentionFlag(field string) string {
	return "--" + strings.TrimPrefix(strings.TrimSuffix(field, "_days"), "superseded_")
}
