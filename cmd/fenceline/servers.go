package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/localredis"
	"github.com/fenceline/fenceline/storage/localpg"
)

// private are the servers that `up` starts when none are configured.
type private struct {
	postgres *localpg.Server
	redis    *localredis.Server
}

// startPrivate starts what the configuration leaves out and fills it in.
func startPrivate(ctx context.Context, c *cli, conf *Config) (_ *private, err error) {
	p := &private{}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	// PostgreSQL may have to run as another user, who must be able to pass through; what is secret in here is 0600.
	if err := os.MkdirAll(conf.Data, 0o711); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	if conf.DatabaseURL == "" {
		fmt.Fprintln(c.err, "Starting a private PostgreSQL in", filepath.Join(conf.Data, "postgres"), "…")
		p.postgres, err = localpg.Start(ctx, localpg.Options{Dir: filepath.Join(conf.Data, "postgres"), Log: c.log})
		if err != nil {
			return nil, err
		}
		if err := p.postgres.EnsureDatabase(ctx, "fenceline"); err != nil {
			return nil, err
		}
		conf.DatabaseURL = p.postgres.URL("fenceline")
	}
	if conf.RedisURL == "" {
		fmt.Fprintln(c.err, "Using a private Redis in memory: for one machine and for trying out; it may lose everything at any time, and nothing depends on it.")
		if p.redis, err = localredis.Start("127.0.0.1:0"); err != nil {
			return nil, err
		}
		conf.RedisURL = p.redis.URL()
	}
	return p, nil
}

// died is closed when the private PostgreSQL ends by itself; nil without one.
func (p *private) died() <-chan struct{} {
	if p.postgres == nil {
		return nil
	}
	return p.postgres.Done()
}

func (p *private) stop() {
	if p.redis != nil {
		p.redis.Stop()
	}
	if p.postgres != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = p.postgres.Stop(ctx)
	}
}

func (c *cli) upCmd() *cobra.Command {
	var demo bool
	cmd := &cobra.Command{
		Use: "up", Short: "Start everything in one process, with private servers where none are configured", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.up(cmd.Context(), demo) },
	}
	cmd.Flags().BoolVar(&demo, "demo", false, "fill a small shop, so that there is something to export")
	return cmd
}

func (c *cli) up(ctx context.Context, withDemo bool) error {
	conf := c.conf
	listener, err := listen(conf.Addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	conf.PublicURL = conf.url(listener.Addr().String())
	servers, err := startPrivate(ctx, c, &conf)
	if err != nil {
		return err
	}
	defer servers.stop()
	if _, err := c.migrate(ctx, conf); err != nil {
		return err
	}
	a, err := openApp(ctx, conf, c.log, c.extras, true)
	if err != nil {
		return err
	}
	defer a.close()
	a.warnPooled()
	if withDemo {
		if err := a.fillDemo(ctx, c.err); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-servers.died():
			cancel(fmt.Errorf("%w; its log is in %s", errServerEnded, filepath.Join(conf.Data, "postgres")))
		case <-ctx.Done():
		}
	}()
	err = a.runAll(ctx, listener, func() error { return c.announce(ctx, a) })
	removeRunning(conf.Data)
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, errServerEnded) {
		return cause
	}
	return err
}

var errServerEnded = errors.New("the private PostgreSQL ended by itself")

// announce writes where others find this process and says it to the person.
func (c *cli) announce(ctx context.Context, a *app) error {
	r := running{PID: os.Getpid(), Started: time.Now().UTC(), URL: a.conf.PublicURL, Namespace: a.conf.Namespace, Files: a.conf.Files, Lease: a.conf.Lease.String()}
	if c.conf.DatabaseURL == "" { // the secrets of other servers stay where they were configured
		r.DatabaseURL = a.conf.DatabaseURL
	}
	if c.conf.RedisURL == "" {
		r.RedisURL = a.conf.RedisURL
	}
	err := writeRunning(a.conf.Data, r)
	if err != nil {
		return err
	}
	link, err := newSigninLink(ctx, a.store, uuid.Nil, a.conf.PublicURL)
	if err != nil {
		return err
	}
	return c.print(map[string]string{"url": a.conf.PublicURL, "signin": link, "data": a.conf.Data}, func(w io.Writer) {
		fmt.Fprintf(w, "\nFenceline is up:  %s\nSign in (once):   %s\nStop with Ctrl-C. Everything is in %s and is found again by the next start.\n\n",
			a.conf.PublicURL, link, a.conf.Data)
	})
}

func (a *app) fillDemo(ctx context.Context, w io.Writer) error {
	fmt.Fprintln(w, "Filling the demo shop …")
	return a.store.Exec(ctx, demoSQL())
}

// parts of the program that run until the context ends.
type part func(context.Context) error

// runParts runs parts side by side; when one fails, all stop.
func runParts(ctx context.Context, parts ...part) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range parts {
		g.Go(func() error { return p(ctx) })
	}
	return g.Wait()
}
