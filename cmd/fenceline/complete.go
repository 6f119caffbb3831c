package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/storage"
)

// completePatience bounds how long the shell waits for names.
const completePatience = 2 * time.Second

// names lists what an argument or a flag can be, each with a tab and a
// description behind it if there is one.
type names func(ctx context.Context, c *cli) []string

// completions says which commands and flags have values that can be listed.
func (c *cli) completions(root *cobra.Command) {
	for path, list := range map[string]names{
		"dispatch report": reportNames, "report check": reportNames, "report preview": reportNames, "dispatch invoices": sourceNames,
		"schedule delete": scheduleNames, "schedule pause": scheduleNames, "schedule resume": scheduleNames, "schedule show": scheduleNames, "schedule run": scheduleNames, "schedule history": scheduleNames,
		"schedule put": nil, "job show": jobNames(""), "job cancel": jobNames(storage.JobRunning), "job retry": jobNames(storage.JobFailed),
		"queue retry": jobNames(storage.JobFailed), "queue forget": jobNames(storage.JobFailed),
		"notify show": targetNames, "notify test": targetNames, "notify rotate": targetNames, "notify enable": targetNames, "notify disable": targetNames, "notify remove": targetNames,
		"user role": userNames, "user password": userNames, "user disable": userNames, "user enable": userNames, "user remove": userNames,
		"queue pause": queueNames, "queue resume": queueNames, "queue clear": queueNames, "queue monitor": queueNames,
	} {
		if cmd, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			cmd.ValidArgsFunction = c.complete(list, path == "schedule put")
		}
	}
	c.completeFlags(root)
	if cmd, rest, err := root.Find([]string{"notify", "deliveries"}); err == nil && len(rest) == 0 {
		_ = cmd.RegisterFlagCompletionFunc("target", c.completeFlag(targetNames))
	}
}

// completeFlags gives flags of one name the same values wherever they are.
func (c *cli) completeFlags(cmd *cobra.Command) {
	for flag, list := range map[string]names{"kind": kindNames, "queue": queueNames, "state": stateNames} {
		if cmd.LocalNonPersistentFlags().Lookup(flag) == nil {
			continue
		}
		if flag == "state" && cmd.Name() == "deliveries" {
			list = deliveryStates
		}
		_ = cmd.RegisterFlagCompletionFunc(flag, c.completeFlag(list))
	}
	for _, sub := range cmd.Commands() {
		c.completeFlags(sub)
	}
}

func (c *cli) completeFlag(list names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return c.list(cmd, list, typed)
	}
}

// complete completes the first argument; with put the second, which is a report.
func (c *cli) complete(list names, put bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case put && len(args) == 1:
			return c.list(cmd, reportNames, typed)
		case put || len(args) > 0:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.list(cmd, list, typed)
	}
}

// list asks with the settings of the line that is being typed. Whatever goes
// wrong, the shell gets no names and no message in the middle of a line.
func (c *cli) list(cmd *cobra.Command, list names, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completePatience)
	defer cancel()
	conf, err := loadConfig(cmd.Root().PersistentFlags(), c.getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c.conf, c.log = conf, newLog(c.err, conf)
	var found []string
	for _, name := range list(ctx, c) {
		if strings.HasPrefix(name, typed) {
			found = append(found, name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

func reportNames(_ context.Context, c *cli) []string { return c.catalogNames(false) }
func sourceNames(_ context.Context, c *cli) []string { return c.catalogNames(true) }

func (c *cli) catalogNames(sources bool) (found []string) {
	defs, _ := newCatalog(c.conf).List() // broken ones are not listed
	for _, d := range defs {
		if (d.Series != "") == sources {
			found = append(found, d.Name+"\t"+inCellWhole(d.Title))
		}
	}
	return found
}

func scheduleNames(ctx context.Context, c *cli) (found []string) {
	_ = c.withStore(ctx, func(ctx context.Context, store *storage.Store) error {
		page, err := store.Schedules(ctx, everything, storage.ScheduleFilter{Limit: 200})
		for _, s := range page.Items {
			found = append(found, s.Name+"\t"+s.Cron)
		}
		return err
	})
	return found
}

// jobNames are the newest jobs in a state.
func jobNames(state storage.JobState) names {
	return func(ctx context.Context, c *cli) (found []string) {
		_ = c.withStore(ctx, func(ctx context.Context, store *storage.Store) error {
			page, err := store.Jobs(ctx, everything, storage.JobFilter{State: state, Limit: 20})
			for _, j := range page.Items {
				found = append(found, j.ID.String()+"\t"+string(j.State)+" "+inCellWhole(j.Title))
			}
			return err
		})
		return found
	}
}

func kindNames(ctx context.Context, c *cli) (found []string) {
	_ = c.withApp(ctx, func(_ context.Context, a *app) error {
		found = a.dispatcher.Kinds()
		return nil
	})
	return found
}

func queueNames(_ context.Context, c *cli) (found []string) {
	for name := range c.conf.Queues {
		found = append(found, name)
	}
	return found
}

func targetNames(ctx context.Context, c *cli) (found []string) {
	_ = c.withStore(ctx, func(ctx context.Context, store *storage.Store) error {
		list, err := store.Targets(ctx, everything)
		for _, t := range list {
			found = append(found, t.Name+"\t"+t.Kind+" of "+t.Tenant)
		}
		return err
	})
	return found
}

func userNames(ctx context.Context, c *cli) (found []string) {
	_ = c.withStore(ctx, func(ctx context.Context, store *storage.Store) error {
		list, _, err := store.Users(ctx, everything, "", 200)
		for _, u := range list {
			found = append(found, u.Name+"\t"+string(u.Role)+" of "+orAllTenants(u.Tenant))
		}
		return err
	})
	return found
}

func deliveryStates(context.Context, *cli) []string {
	return []string{string(storage.DeliveryPending), string(storage.DeliveryDelivered), string(storage.DeliveryDead)}
}

func stateNames(context.Context, *cli) (found []string) {
	for _, s := range storage.JobStates() {
		found = append(found, string(s))
	}
	return found
}
