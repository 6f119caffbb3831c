package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// cli is the command line of one run.
type cli struct {
	getenv      func(string) string
	in          io.Reader
	interrupted <-chan struct{} // closed by the first Ctrl-C
	out         io.Writer
	err         io.Writer
	json        bool
	conf        Config
	log         *slog.Logger
	extras      extras
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "fenceline",
		Short:         "A job runner whose jobs publish exports behind a fence",
		Long:          "Fenceline runs report and invoice jobs and publishes their files so that a worker that\nwas frozen, cut off or started twice can never overwrite newer files.",
		SilenceErrors: true, SilenceUsage: true, SuggestionsMinimumDistance: 2,
		Args:              cobra.ArbitraryArgs,
		PersistentPreRunE: c.configure,
		RunE:              helpOrUnknown,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w; see `%s --help`", err, cmd.CommandPath())
	})
	addFlags(root.PersistentFlags())
	root.PersistentFlags().BoolVar(&c.json, "json", false, "answer in JSON")
	root.AddCommand(c.commands()...)
	c.completions(root)
	return root
}

// configure reads the settings before a command runs. What the shell calls when
// somebody starts it or presses Tab must work without them.
func (c *cli) configure(cmd *cobra.Command, _ []string) (err error) {
	if cmd.Name() == cobra.ShellCompRequestCmd || cmd.Name() == cobra.ShellCompNoDescRequestCmd || cmd.HasParent() && cmd.Parent().Name() == "completion" {
		return nil
	}
	// Not cmd.Flags(): a command may have a flag of its own of the same name, such as --files of `dispatch invoice`.
	if c.conf, err = loadConfig(cmd.Root().PersistentFlags(), c.getenv); err != nil {
		return err
	}
	c.log = newLog(c.err, c.conf)
	for _, warning := range c.conf.warnings {
		c.log.Warn(warning)
	}
	return nil
}

func (c *cli) commands() []*cobra.Command {
	return []*cobra.Command{
		c.upCmd(), c.serveCmd(), c.workCmd(),
		c.scheduleCmd(),
		c.dispatchCmd(), c.jobCmd(), c.batchCmd(), c.limitCmd(), c.notifyCmd(),
		c.exportCmd(), c.retentionCmd(), c.reportCmd(), c.invoiceCmd(), c.seriesCmd(),
		c.queueCmd(), c.workerCmd(), c.maintenanceCmd(),
		c.auditCmd(), c.linkCmd(),
		c.fenceCmd(),
		c.sweepCmd(), c.verifyCmd(), c.recoverCmd(), c.drillCmd(), c.labCmd(), c.doctorCmd(), c.healthCmd(), c.migrateCmd(),
		c.signinCmd(), c.userCmd(), c.tokenCmd(), c.keysCmd(), c.configCmd(), c.versionCmd(),
	}
}

// group is a command that only holds others.
func group(use, short string, sub ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: helpOrUnknown, SuggestionsMinimumDistance: 2}
	g.AddCommand(sub...)
	return g
}

func helpOrUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usageError("%q is not a command of `%s`%s; see `%s --help`", args[0], cmd.CommandPath(), hint, cmd.CommandPath())
}

// exactly is cobra.ExactArgs with an error that says what is missing.
func exactly(what ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(what) {
			return usageError("`%s` takes %s; got %q", cmd.CommandPath(), orNothing(what), args)
		}
		return nil
	}
}

// asUsed is cobra.RangeArgs with an error that says what the command takes.
func asUsed(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			_, what, _ := strings.Cut(cmd.Use, " ")
			return usageError("`%s` takes %s; got %q", cmd.CommandPath(), what, args)
		}
		return nil
	}
}

// pageLimit is how many items of a list are asked for.
type pageLimit struct{ into *int }

// limitFlag adds --limit to a list.
func limitFlag(cmd *cobra.Command, into *int) {
	*into = 50
	cmd.Flags().Var(pageLimit{into}, "limit", "how many, at most 200")
}

// Set reads a number that the lists take.
func (p pageLimit) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 200 {
		return errors.New("must be a number from 1 to 200")
	}
	*p.into = n
	return nil
}

// String is the number.
func (p pageLimit) String() string {
	if p.into == nil {
		return ""
	}
	return strconv.Itoa(*p.into)
}

// Type is what the help shows.
func (pageLimit) Type() string { return "int" }

func orNothing(what []string) string {
	if len(what) == 0 {
		return "no arguments"
	}
	return strings.Join(what, " and ")
}

func newLog(w io.Writer, c Config) *slog.Logger {
	opt := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

// store opens the database of this run: the environment's, or that of the
// running `up`.
func (c *cli) store(ctx context.Context) (*storage.Store, error) {
	conf, err := findServers(c.conf)
	if err != nil {
		return nil, err
	}
	c.conf = conf
	return storage.Open(ctx, conf.DatabaseURL, storage.Options{MaxConns: 4, DirectURL: conf.DirectURL})
}

// everything is the scope of whoever can reach the database itself.
var everything = storage.Scope{All: true}

// print answers v as JSON, or as people want it.
func (c *cli) print(v any, people func(w io.Writer)) error {
	if c.json {
		enc := json.NewEncoder(c.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	tab := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
	people(tab)
	return tab.Flush()
}

func parseID(what, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, invalid.New(what, text, "is not an id; lists show them")
	}
	return id, nil
}

func (c *cli) versionCmd() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: exactly(), RunE: func(*cobra.Command, []string) error {
		v := "unknown"
		if info, ok := debug.ReadBuildInfo(); ok {
			v = info.Main.Version
		}
		return c.print(map[string]string{"version": v}, func(w io.Writer) { fmt.Fprintln(w, "fenceline", v) })
	}}
}
