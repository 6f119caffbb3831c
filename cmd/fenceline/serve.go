package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/report/demo"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/people"
)

func demoSQL() string { return demo.ShopSQL() }

// runAll is `up`: web, worker, relay, scheduler and deliverer in one process. The web goes
// on while the worker finishes what it has.
func (a *app) runAll(ctx context.Context, l net.Listener, ready func() error) error {
	site := a.web()
	deliverer, err := a.deliverer()
	if err != nil {
		return err
	}
	relay, scheduler := a.relay(), a.scheduler()
	if err := ready(); err != nil {
		return err
	}
	rest, stopRest := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRest()
	return runParts(ctx, func(ctx context.Context) error {
		defer stopRest()
		return a.workOn(ctx)
	}, func(context.Context) error {
		return runParts(rest, func(ctx context.Context) error { return site.Run(ctx, l) }, relay.Run, scheduler.Run, deliverer.Run)
	})
}

// workOn works until ctx ends: a worker that was asked to end is followed by a
// fresh one, because nobody else would start it.
func (a *app) workOn(ctx context.Context) error {
	for {
		err := a.worker(stint{}).Run(ctx)
		if !errors.Is(err, jobs.ErrAskedToStop) || ctx.Err() != nil {
			return err
		}
		a.log.Info("starting a fresh worker")
	}
}

func (c *cli) serveCmd() *cobra.Command {
	return &cobra.Command{Use: "serve", Short: "Serve the dashboard and the API", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.daemon(cmd.Context(), false, func(ctx context.Context, a *app) error {
			l, err := listen(a.conf.Addr)
			if err != nil {
				return err
			}
			a.conf.PublicURL = a.conf.url(l.Addr().String())
			c.log.Info("serving", "url", a.conf.PublicURL)
			return a.web().Run(ctx, l)
		})
	}}
}

// startPatience is how long a part waits for its servers when it starts: after a
// power cut everything starts at once.
const startPatience = time.Minute

// daemon is part for what runs until it is stopped.
func (c *cli) daemon(ctx context.Context, withRedis bool, fn func(context.Context, *app) error) error {
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		began := false
		err := c.part(ctx, withRedis, func(ctx context.Context, a *app) error {
			began = true
			a.warnPooled()
			return fn(ctx, a)
		})
		if began || !errors.Is(err, storage.ErrUnreachable) {
			return err
		}
		c.log.Warn("waiting for a server", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-patience.C:
			return err
		case <-again.C:
		}
	}
}

// part runs one part of Fenceline against configured servers, or those of a running `up`.
func (c *cli) part(ctx context.Context, withRedis bool, fn func(context.Context, *app) error) error {
	conf, err := findServers(c.conf)
	if err != nil {
		return err
	}
	conf.PublicURL = c.conf.PublicURL // another process than the one that runs on this folder
	c.conf = conf
	a, err := openApp(ctx, conf, c.log, c.extras, withRedis)
	if err != nil {
		return err
	}
	defer a.close()
	return fn(ctx, a)
}

func (c *cli) healthCmd() *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Ask whether the servers can be worked with (for health checks)", Args: exactly(),
		Long: "Asks PostgreSQL (a primary that is migrated), the files folder (marked for this database) and, when\nREDIS_URL is set, Redis. Exit 0 when all answer.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
			defer cancel()
			return c.part(ctx, c.conf.RedisURL != "", func(ctx context.Context, a *app) error {
				if err := a.ready(ctx); err != nil {
					return fmt.Errorf("not ready: %w", err)
				}
				return c.print(map[string]string{"health": "ok"}, func(w io.Writer) { fmt.Fprintln(w, "ok") })
			})
		},
	}
}

func (c *cli) migrateCmd() *cobra.Command {
	return &cobra.Command{Use: "migrate", Short: "Bring the database to the newest schema", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		conf, err := findServers(c.conf)
		if err != nil {
			return err
		}
		n, err := c.migrate(cmd.Context(), conf)
		if err != nil {
			return err
		}
		return c.print(map[string]int{"migrations": n}, func(w io.Writer) {
			fmt.Fprintf(w, "%s %s run\n", count.Of(n, "migration"), count.Verb(n, "was", "were"))
		})
	}}
}

// signinValid is how long a sign-in link works.
const signinValid = 30 * time.Minute

func newSigninLink(ctx context.Context, store *storage.Store, user uuid.UUID, base string) (string, error) {
	secret, err := store.NewSigninLink(ctx, user, signinValid)
	if err != nil {
		return "", err
	}
	d := deed{action: "signin.linked", kind: "user"}
	if user != uuid.Nil {
		d.id = user.String()
	}
	return base + "/signin?token=" + url.QueryEscape(secret), did(ctx, store, d)
}

func (c *cli) signinCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "signin", Short: "Print a sign-in link that works once",
		Long: "Prints a link that signs in once, within half an hour: the first admin, who is made by it when there is no user\n" +
			"yet, or another user with --user.",
		Example: "  fenceline signin\n  fenceline signin --user Nadia", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				user := uuid.Nil
				if name != "" {
					u, err := store.UserByName(ctx, everything, people.Name(name))
					if err == nil && u.DisabledAt != nil {
						err = &coded{exitRefused, fmt.Errorf("user %s is disabled; `fenceline user enable` lets it in again", u.Name)}
					}
					if err != nil {
						return err
					}
					user = u.ID
				}
				link, err := newSigninLink(ctx, store, user, c.conf.url(c.conf.Addr))
				if err != nil {
					return err
				}
				return c.print(map[string]string{"signin": link}, func(w io.Writer) { fmt.Fprintln(w, link) })
			})
		},
	}
	cmd.Flags().StringVar(&name, "user", "", "the user whom it signs in")
	return cmd
}

func (c *cli) withStore(ctx context.Context, fn func(context.Context, *storage.Store) error) error {
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return fn(ctx, store)
}

func orAll(tenant *string) string {
	if tenant == nil {
		return "all"
	}
	return *tenant
}

func stamp(t *time.Time) string {
	if t == nil {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
