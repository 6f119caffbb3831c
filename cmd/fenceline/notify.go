package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) notifyCmd() *cobra.Command {
	return group("notify", "Who is told when an export was published or a job failed",
		group("add", "Add a target", c.notifyAddWebhookCmd(), c.notifyAddMailCmd()),
		c.notifyListCmd(), c.notifyShowCmd(), c.notifyRemoveCmd(), c.notifyEnableCmd(), c.notifyDisableCmd(), c.notifyRotateCmd(), c.notifyTestCmd(),
		c.notifyDeliveriesCmd(), c.notifyDeliveryCmd(), c.notifyReplayCmd(), c.notifyWorkCmd())
}

// withTargets opens the database for what is done to targets.
func (c *cli) withTargets(ctx context.Context, fn func(context.Context, *storage.Store, *notify.Targets) error) error {
	keys, err := c.conf.keyring()
	if err != nil {
		return err
	}
	return c.withStore(ctx, func(ctx context.Context, store *storage.Store) error {
		return fn(ctx, store, notify.NewTargets(store, c.conf.Guard, keys))
	})
}

func tenantFlag(cmd *cobra.Command, tenant *string) {
	cmd.Flags().StringVar(tenant, "tenant", jobs.DefaultTenant, "whose target it is")
}

func (c *cli) notifyAddWebhookCmd() *cobra.Command {
	r := notify.Request{Kind: storage.TargetWebhook}
	cmd := &cobra.Command{
		Use: "webhook NAME URL", Short: "Call a URL, signed; the secret to check signatures with is shown once",
		Long: "Calls URL by POST when something happens, signed as Standard Webhooks says. URL must be https and public;\nWEBHOOK_ALLOW names hosts and networks that may be internal or http.",
		Example: "  fenceline notify add webhook shop https://shop.example.com/hooks/exports\n" +
			"  fenceline notify add webhook alarm https://alarm.example.com/x --topic job.failed --job-kind invoice",
		Args: exactly("NAME", "URL"), RunE: func(cmd *cobra.Command, args []string) error {
			r.Name, r.URL = args[0], args[1]
			return c.addTarget(cmd.Context(), r)
		},
	}
	requestFlags(cmd, &r)
	return cmd
}

func (c *cli) notifyAddMailCmd() *cobra.Command {
	r := notify.Request{Kind: storage.TargetMail}
	cmd := &cobra.Command{
		Use: "mail NAME ADDRESS…", Short: "Write to mail addresses (SMTP_URL and MAIL_FROM say how)",
		Example: "  fenceline notify add mail office office@example.com --topic export.published",
		Args:    cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usageError("`%s` takes NAME and one ADDRESS or more; got %q", cmd.CommandPath(), args)
			}
			r.Name, r.Addresses = args[0], args[1:]
			return c.addTarget(cmd.Context(), r)
		},
	}
	requestFlags(cmd, &r)
	return cmd
}

func requestFlags(cmd *cobra.Command, r *notify.Request) {
	tenantFlag(cmd, &r.Tenant)
	cmd.Flags().StringSliceVar(&r.Topics, "topic", nil, "what to tell: export.published, job.failed, custom.NAME, custom.* or * (default the first two)")
	cmd.Flags().StringSliceVar(&r.JobKinds, "job-kind", nil, "only of jobs of this kind, such as report or invoice")
}

func (c *cli) addTarget(ctx context.Context, r notify.Request) error {
	return c.withTargets(ctx, func(ctx context.Context, _ *storage.Store, targets *notify.Targets) error {
		e, err := deed{action: "target.added", details: map[string]any{"name": r.Name, "kind": r.Kind}}.entry()
		if err != nil {
			return err
		}
		t, secret, err := targets.Add(ctx, r, e)
		if err != nil {
			return err
		}
		return c.printSecret(t, secret, "added "+t.Kind+" "+t.Name)
	})
}

func (c *cli) printSecret(t storage.Target, secret, did string) error {
	answer := map[string]any{"target": t}
	if secret != "" {
		answer["secret"] = secret
	}
	return c.print(answer, func(w io.Writer) {
		fmt.Fprintf(w, "%s (%s)\n", did, t.ID)
		if secret != "" {
			fmt.Fprintf(w, "secret, shown once:  %s\n", secret)
		}
	})
}

func (c *cli) notifyListCmd() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{Use: "list", Short: "List targets", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			list, err := store.Targets(ctx, scopeOf(tenant))
			if err != nil {
				return err
			}
			return c.print(list, func(w io.Writer) {
				fmt.Fprintln(w, "NAME\tTENANT\tKIND\tTO\tTOPICS\tSTATE")
				for _, t := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.Name, t.Tenant, t.Kind, whereTo(t), strings.Join(t.Topics, ","), stateOf(t))
				}
			})
		})
	}}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only targets of this tenant")
	return cmd
}

// scopeOf is one tenant, or all for an empty name.
func scopeOf(tenant string) storage.Scope {
	if tenant == "" {
		return everything
	}
	return storage.Scope{Tenant: tenant}
}

func whereTo(t storage.Target) string {
	if t.Kind == storage.TargetMail {
		return strings.Join(t.Addresses, ", ")
	}
	return t.URL
}

func stateOf(t storage.Target) string {
	switch {
	case t.DisabledAt != nil:
		return fmt.Sprintf("disabled since %s (%s)", stamp(t.DisabledAt), t.DisabledWhy)
	case t.Failures > 0:
		return fmt.Sprintf("failing since %s (%s)", stamp(t.FailingSince), count.Of(t.Failures, "time"))
	}
	return "ok"
}

// onTarget is a command about one target.
func (c *cli) onTarget(use, short string, do func(context.Context, *storage.Store, *notify.Targets, storage.Target) error) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: use + " TARGET", Short: short, Example: "  fenceline notify " + use + " shop", Args: exactly("TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withTargets(cmd.Context(), func(ctx context.Context, store *storage.Store, targets *notify.Targets) error {
				t, err := targets.Find(ctx, everything, tenant, args[0])
				if err != nil {
					return err
				}
				return do(ctx, store, targets, t)
			})
		},
	}
	tenantFlag(cmd, &tenant)
	return cmd
}

func (c *cli) notifyShowCmd() *cobra.Command {
	return c.onTarget("show", "Show a target", func(_ context.Context, _ *storage.Store, _ *notify.Targets, t storage.Target) error {
		return c.print(map[string]any{"target": t}, func(w io.Writer) {
			fmt.Fprintf(w, "target\t%s\nname\t%s / %s\nkind\t%s\nto\t%s\ntopics\t%s\nkinds of jobs\t%s\nstate\t%s\n", t.ID, t.Tenant, t.Name, t.Kind, whereTo(t),
				strings.Join(t.Topics, ", "), orAllKinds(t.JobKinds), stateOf(t))
			if t.OldSecretUntil != nil {
				fmt.Fprintf(w, "old secret\tsigns too until %s\n", stamp(t.OldSecretUntil))
			}
		})
	})
}

func orAllKinds(kinds []string) string {
	if len(kinds) == 0 {
		return "all"
	}
	return strings.Join(kinds, ", ")
}

func (c *cli) notifyRemoveCmd() *cobra.Command {
	var yes bool
	cmd := c.onTarget("remove", "Remove a target with its deliveries", func(ctx context.Context, store *storage.Store, _ *notify.Targets, t storage.Target) error {
		if !yes {
			return usageError("this removes target %s and all its deliveries, also those that still wait; add --yes", t.Name)
		}
		if err := store.RemoveTarget(ctx, everything, t.ID, didToTarget("target.removed")); err != nil {
			return err
		}
		return c.print(map[string]any{"removed": t.ID}, func(w io.Writer) { fmt.Fprintln(w, "removed", t.Name) })
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func (c *cli) notifyEnableCmd() *cobra.Command {
	return c.onTarget("enable", "Tell a target again, also of what waits since it was disabled", func(ctx context.Context, store *storage.Store, _ *notify.Targets, t storage.Target) error {
		t, err := store.EnableTarget(ctx, everything, t.ID, didToTarget("target.enabled"))
		if err != nil {
			return err
		}
		return c.printSecret(t, "", "enabled "+t.Name)
	})
}

func (c *cli) notifyDisableCmd() *cobra.Command {
	return c.onTarget("disable", "Stop telling a target; what waits for it waits on", func(ctx context.Context, store *storage.Store, _ *notify.Targets, t storage.Target) error {
		t, err := store.DisableTarget(ctx, everything, t.ID, "by an operator", didToTarget("target.disabled"))
		if err != nil {
			return err
		}
		return c.printSecret(t, "", "disabled "+t.Name)
	})
}

func (c *cli) notifyRotateCmd() *cobra.Command {
	return c.onTarget("rotate", "Give a webhook a new secret; for a day the old one signs too", func(ctx context.Context, _ *storage.Store, targets *notify.Targets, t storage.Target) error {
		t, secret, err := targets.Rotate(ctx, everything, t.ID, didToTarget("target.rotated"))
		if err != nil {
			return err
		}
		return c.printSecret(t, secret, "rotated "+t.Name)
	})
}

func (c *cli) notifyTestCmd() *cobra.Command {
	var wait time.Duration
	cmd := c.onTarget("test", "Send a target a test and say what came of it", func(ctx context.Context, store *storage.Store, targets *notify.Targets, t storage.Target) error {
		d, err := targets.Test(ctx, everything, t.ID, didToTarget("target.tested"))
		if err != nil {
			return err
		}
		if d, err = awaitDelivery(ctx, store, d, wait); err != nil {
			return err
		}
		if err := c.print(map[string]any{"delivery": d}, func(w io.Writer) { deliveryTable(w, []storage.Delivery{d}) }); err != nil {
			return err
		}
		return testOutcome(t, d)
	})
	cmd.Flags().DurationVar(&wait, "wait", 20*time.Second, "how long to wait for the outcome")
	return cmd
}

// testOutcome is what came of a test, as far as it is known.
func testOutcome(t storage.Target, d storage.Delivery) error {
	switch {
	case d.State == storage.DeliveryDelivered:
		return nil
	case d.LastError != "":
		return fmt.Errorf("the test of %s did not arrive: %s", t.Name, d.LastError)
	case d.Attempts > 0:
		return &coded{exitBusy, fmt.Errorf("the test is being sent, and %s has not answered yet; `fenceline notify delivery %s` shows what comes of it", t.Name, d.ID)}
	}
	return &coded{exitBusy, fmt.Errorf("nobody has sent the test yet: does `fenceline up` or `fenceline schedule work` run (with SMTP_URL, for mail)? `fenceline notify delivery %s` shows it", d.ID)}
}

// awaitDelivery waits until an attempt to deliver has an outcome, or the time is up.
func awaitDelivery(ctx context.Context, store *storage.Store, d storage.Delivery, wait time.Duration) (storage.Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for d.State == storage.DeliveryPending && d.LastError == "" {
		select {
		case <-ctx.Done():
			return d, nil
		case <-look.C:
		}
		now, err := store.Delivery(ctx, everything, d.ID)
		if errors.Is(err, context.DeadlineExceeded) {
			return d, nil
		}
		if err != nil {
			return d, err
		}
		d = now
	}
	return d, nil
}

func (c *cli) notifyDeliveriesCmd() *cobra.Command {
	var f storage.DeliveryFilter
	var state, tenant, target string
	cmd := &cobra.Command{
		Use: "deliveries", Short: "List deliveries, the newest first", Example: "  fenceline notify deliveries --state dead --target shop", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.State = storage.DeliveryState(state); !f.State.Known() {
				return usageError("--state %q is no state of deliveries; use pending, delivered or dead", state)
			}
			return c.withTargets(cmd.Context(), func(ctx context.Context, store *storage.Store, targets *notify.Targets) (err error) {
				if f.Target, err = targetID(ctx, targets, tenant, target); err != nil {
					return err
				}
				page, err := store.Deliveries(ctx, scopeOf(tenant), f)
				if err != nil {
					return err
				}
				return c.print(page, func(w io.Writer) {
					deliveryTable(w, page.Items)
					c.more(w, page.Next)
				})
			})
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "pending, delivered or dead")
	cmd.Flags().StringVar(&target, "target", "", "only to this target")
	cmd.Flags().StringVar(&tenant, "tenant", "", "only of this tenant")
	cmd.Flags().StringVar(&f.After, "after", "", "what follows this page")
	limitFlag(cmd, &f.Limit)
	return cmd
}

// targetID is the id of a target that a flag names, or the zero id when it names none.
func targetID(ctx context.Context, targets *notify.Targets, tenant, called string) (uuid.UUID, error) {
	if called == "" {
		return uuid.Nil, nil
	}
	if tenant == "" {
		tenant = jobs.DefaultTenant
	}
	t, err := targets.Find(ctx, everything, tenant, called)
	return t.ID, err
}

func deliveryTable(w io.Writer, list []storage.Delivery) {
	fmt.Fprintln(w, "DELIVERY\tTARGET\tTOPIC\tSTATE\tATTEMPTS\tCREATED\tNEXT\tERROR")
	for _, d := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", d.ID, d.Target, d.Topic, d.State, d.Attempts, stamp(&d.CreatedAt), stamp(d.NextAt), orDash(&d.LastError))
	}
}

func (c *cli) notifyDeliveryCmd() *cobra.Command {
	return &cobra.Command{Use: "delivery DELIVERY", Short: "Show a delivery with what it says and what was answered", Args: exactly("DELIVERY"), RunE: func(cmd *cobra.Command, args []string) error {
		id, err := parseID("DELIVERY", args[0])
		if err != nil {
			return err
		}
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			d, err := store.Delivery(ctx, everything, id)
			if err != nil {
				return err
			}
			return c.print(map[string]any{"delivery": d}, func(w io.Writer) {
				deliveryTable(w, []storage.Delivery{d})
				fmt.Fprintf(w, "\nanswer: %s\n\n%s\n", orDash(&d.LastAnswer), d.Body)
			})
		})
	}}
}

func (c *cli) notifyReplayCmd() *cobra.Command {
	var dead, yes bool
	var tenant, target string
	cmd := &cobra.Command{
		Use: "replay [DELIVERY]", Short: "Send a delivery again, or with --dead everything that was given up",
		Example: "  fenceline notify replay 0190f1d2-…\n  fenceline notify replay --dead --target shop --yes",
		Args:    asUsed(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
			if dead == (len(args) == 1) {
				return usageError("give one DELIVERY, or --dead")
			}
			return c.withTargets(cmd.Context(), func(ctx context.Context, store *storage.Store, targets *notify.Targets) error {
				if !dead {
					return c.replayOne(ctx, store, scopeOf(tenant), args[0])
				}
				id, err := targetID(ctx, targets, tenant, target)
				if err != nil {
					return err
				}
				return c.replayDead(ctx, store, scopeOf(tenant), id, yes)
			})
		},
	}
	cmd.Flags().BoolVar(&dead, "dead", false, "everything that was given up")
	cmd.Flags().StringVar(&target, "target", "", "with --dead: only what was for this target")
	cmd.Flags().StringVar(&tenant, "tenant", "", "only of this tenant")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --dead: do it; without it the deliveries are only counted")
	return cmd
}

func (c *cli) replayOne(ctx context.Context, store *storage.Store, scope storage.Scope, text string) error {
	id, err := parseID("DELIVERY", text)
	if err != nil {
		return err
	}
	d, err := store.ReplayDelivery(ctx, scope, id, didToTarget("delivery.replayed"))
	if err != nil {
		return err
	}
	when, err := sentWhen(ctx, store, d.TargetID)
	if err != nil {
		return err
	}
	return c.print(map[string]any{"delivery": d}, func(w io.Writer) { fmt.Fprintf(w, "delivery %s is sent again%s\n", d.ID, when) })
}

func (c *cli) replayDead(ctx context.Context, store *storage.Store, scope storage.Scope, target uuid.UUID, yes bool) error {
	if !yes {
		n, err := store.CountDead(ctx, scope, target)
		if err != nil {
			return err
		}
		return c.print(map[string]any{"dead": n, "replayed": 0}, func(w io.Writer) {
			fmt.Fprintf(w, "%s %s given up; add --yes to send %s again\n", count.Of(n, "delivery"), count.Verb(n, "was", "were"), count.Verb(n, "it", "them"))
		})
	}
	n, err := store.ReplayDead(ctx, scope, target)
	d := deed{action: "delivery.replayed", kind: "target", tenant: scope.Tenant, details: map[string]any{"deliveries": n}}
	if target != uuid.Nil {
		d.id = target.String()
	}
	if err := errors.Join(err, did(ctx, store, d)); err != nil {
		return err
	}
	when, err := sentWhen(ctx, store, target)
	if err != nil {
		return err
	}
	return c.print(map[string]any{"replayed": n}, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s sent again%s\n", count.Of(n, "delivery"), count.Verb(n, "is", "are"), when)
	})
}

// sentWhen is what a target must wait for before anything is sent to it; empty for nothing, and for no target in particular.
func sentWhen(ctx context.Context, store *storage.Store, id uuid.UUID) (string, error) {
	if id == uuid.Nil {
		return "", nil
	}
	t, err := store.Target(ctx, everything, id)
	if err != nil || t.DisabledAt == nil {
		return "", err
	}
	return fmt.Sprintf(" when %s is enabled: `fenceline notify enable %s`", t.Name, t.ID), nil
}

func (c *cli) notifyWorkCmd() *cobra.Command {
	return &cobra.Command{Use: "work", Short: "Send notices (any number may run; `up` and `schedule work` do it too)", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.daemon(cmd.Context(), false, func(ctx context.Context, a *app) error {
			deliverer, err := a.deliverer()
			if err != nil {
				return err
			}
			return deliverer.Run(ctx)
		})
	}}
}
