package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/password"
	"github.com/fenceline/fenceline/web/people"
)

func (c *cli) userCmd() *cobra.Command {
	return group("user", "People who sign in", c.userAddCmd(), c.userListCmd(), c.userRoleCmd(), c.userPasswordCmd(),
		c.userEnableCmd("disable", "Keep a user from signing in, and end its sessions", true),
		c.userEnableCmd("enable", "Let a disabled user sign in again", false), c.userRemoveCmd())
}

// madeUser is what `user add` and `user password` answer. The password is there only
// when it was made here.
type madeUser struct {
	storage.User
	Generated string `json:"password,omitempty"`
}

// passwordFlags say where a password comes from: the terminal, a pipe or a die.
type passwordFlags struct{ generate, stdin bool }

func (f *passwordFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.generate, "generate", false, "make a password and print it, this once")
	cmd.Flags().BoolVar(&f.stdin, "password-stdin", false, "read the password from standard input, up to the end of its line")
	cmd.MarkFlagsMutuallyExclusive("generate", "password-stdin")
}

func (c *cli) userAddCmd() *cobra.Command {
	var role, tenant string
	var from passwordFlags
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add a user",
		Long: "Adds a user. The password is asked for in the terminal, read from standard input (--password-stdin) or made\n" +
			"here and printed (--generate); it is never an argument, which the list of processes would show. Without any of\n" +
			"them, where there is no terminal, the user has none and signs in by a link (`fenceline signin --user NAME`) or\n" +
			"through the provider.",
		Example: "  fenceline user add Nadia --role operator --generate\n  fenceline user add Omar --role requester --tenant acme",
		Args:    exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			text, err := c.newPassword(from, false)
			if err != nil {
				return err
			}
			n, err := people.User(args[0], role, tenant, text)
			if err != nil {
				return err
			}
			if n.Password, err = hashed(cmd.Context(), text); err != nil {
				return err
			}
			return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
				u, err := store.AddUser(ctx, n)
				if err != nil {
					return err
				}
				if err := didToUser(ctx, store, "user.added", u); err != nil {
					return err
				}
				return c.printMade(u, text, from.generate, "added")
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", string(storage.RoleViewer), "viewer, requester, operator or admin")
	cmd.Flags().StringVar(&tenant, "tenant", "", "the only tenant that it sees; empty: all")
	from.add(cmd)
	return cmd
}

func hashed(ctx context.Context, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	return password.New(1).Hash(ctx, text)
}

// newPassword gets a password that somebody will have; empty is none, unless one is needed.
func (c *cli) newPassword(from passwordFlags, needed bool) (string, error) {
	switch {
	case from.generate:
		return password.Generate(), nil
	case from.stdin:
		return readLine(c.in)
	case isTerminal(c.in):
		return c.askPassword(needed)
	case needed:
		return "", usageError("nobody can be asked without a terminal: add --generate or --password-stdin")
	}
	return "", nil
}

// readLine reads a line of bounded length byte by byte, so that what follows is left for others.
func readLine(in io.Reader) (string, error) {
	if in == nil {
		return "", usageError("there is no standard input to read a password from")
	}
	raw, err := io.ReadAll(io.LimitReader(in, password.MaxBytes+64))
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", invalid.New("password", "", "is empty; standard input has no line")
	}
	return line, nil
}

// askPassword asks twice, without showing what is typed.
func (c *cli) askPassword(needed bool) (string, error) {
	question := "Password (empty for none): "
	if needed {
		question = "New password: "
	}
	first, err := c.hidden(question)
	if err != nil || first == "" && !needed {
		return "", err
	}
	again, err := c.hidden("Once more: ")
	if err == nil && again != first {
		err = invalid.New("password", "", "was not typed the same twice")
	}
	return first, err
}

// hidden reads a line from the terminal that is not shown. Ctrl-C puts the terminal back.
func (c *cli) hidden(question string) (string, error) {
	f, ok := c.in.(*os.File)
	if !ok {
		return "", usageError("there is no terminal")
	}
	fd := int(f.Fd()) //nolint:gosec // a descriptor is small
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("look at the terminal: %w", err)
	}
	fmt.Fprint(c.err, question)
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // a read cannot be broken off; the program ends
		text, err := term.ReadPassword(fd)
		answered <- answer{text, err}
	}()
	select {
	case a := <-answered:
		fmt.Fprintln(c.err)
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return "", fmt.Errorf("read the password: %w", a.err)
		}
		return string(a.text), nil
	case <-c.interrupted:
		_ = term.Restore(fd, before)
		fmt.Fprintln(c.err)
		return "", &coded{exitFailed, errors.New("nothing was done")}
	}
}

func (c *cli) printMade(u storage.User, text string, generated bool, did string) error {
	made := madeUser{User: u}
	if generated {
		made.Generated = text
	}
	return c.print(made, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s: %s of %s\n", did, u.Name, u.Role, orAllTenants(u.Tenant))
		if generated {
			fmt.Fprintf(w, "password\t%s\n", text)
		}
	})
}

func orAllTenants(tenant *string) string {
	if tenant == nil {
		return "all tenants"
	}
	return "tenant " + *tenant
}

func (c *cli) userListCmd() *cobra.Command {
	var limit int
	var after string
	cmd := &cobra.Command{Use: "list", Short: "List users by name", Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			list, more, err := store.Users(ctx, everything, after, limit)
			if err != nil {
				return err
			}
			return c.print(map[string]any{"items": append([]storage.User{}, list...), "more": more}, func(w io.Writer) {
				if len(list) == 0 {
					fmt.Fprintln(w, "no users yet; `fenceline signin` prints a link for the first, `fenceline user add` adds others")
					return
				}
				fmt.Fprintln(w, "NAME\tROLE\tTENANT\tPASSWORD\tPROVIDER\tLAST SIGN-IN\tDISABLED")
				for _, u := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", inCellWhole(u.Name), u.Role, orAll(u.Tenant), stamp(u.PasswordAt), cmp.Or(u.Issuer, "–"), stamp(u.SignedInAt), stamp(u.DisabledAt))
				}
				if more {
					fmt.Fprintf(w, "\nmore: fenceline user list --after %q\n", list[len(list)-1].Name)
				}
			})
		})
	}}
	limitFlag(cmd, &limit)
	cmd.Flags().StringVar(&after, "after", "", "begin behind this name")
	return cmd
}

// changeUser changes a user by name, as whoever can reach the database itself.
func (c *cli) changeUser(ctx context.Context, name string, change storage.UserChange) (u storage.User, err error) {
	err = c.withStore(ctx, func(ctx context.Context, store *storage.Store) error {
		if u, err = store.UserByName(ctx, everything, people.Name(name)); err != nil {
			return err
		}
		if u, err = store.ChangeUser(ctx, everything, u.ID, change); err != nil {
			return err
		}
		return didToUser(ctx, store, changeAction(change), u)
	})
	return u, err
}

// changeAction is what the audit log calls a change.
func changeAction(change storage.UserChange) string {
	switch {
	case change.Password != nil:
		return "user.password_set"
	case change.Disabled == nil:
		return "user.changed"
	case *change.Disabled:
		return "user.disabled"
	}
	return "user.enabled"
}

func (c *cli) userRoleCmd() *cobra.Command {
	var tenant string
	var all bool
	cmd := &cobra.Command{
		Use: "role NAME ROLE", Short: "Say what a user may do, and for which tenant; its sessions end",
		Example: "  fenceline user role Omar operator\n  fenceline user role Omar operator --tenant acme\n  fenceline user role Omar admin --all-tenants",
		Args:    exactly("NAME", "ROLE"), RunE: func(cmd *cobra.Command, args []string) error {
			var refused invalid.Error
			people.Role(&refused, args[1])
			people.Tenant(&refused, tenant)
			if err := refused.OrNil(); err != nil {
				return err
			}
			change := storage.UserChange{Role: new(storage.Role(args[1]))}
			if all || tenant != "" {
				change.Tenant = &tenant
			}
			u, err := c.changeUser(cmd.Context(), args[0], change)
			if err != nil {
				return err
			}
			return c.printMade(u, "", false, "changed")
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "the only tenant that it sees from now on; without it and --all-tenants that stays")
	cmd.Flags().BoolVar(&all, "all-tenants", false, "let it see every tenant")
	cmd.MarkFlagsMutuallyExclusive("tenant", "all-tenants")
	return cmd
}

func (c *cli) userPasswordCmd() *cobra.Command {
	var from passwordFlags
	var none bool
	cmd := &cobra.Command{
		Use: "password NAME", Short: "Give a user another password; its sessions end",
		Example: "  fenceline user password Omar\n  fenceline user password Omar --generate",
		Args:    exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			var text string
			var err error
			if !none {
				if text, err = c.newPassword(from, true); err != nil {
					return err
				}
				if problem := password.Check(text, people.Name(args[0])); problem != "" {
					return invalid.New("password", "", "%s", problem)
				}
			}
			hash, err := hashed(cmd.Context(), text)
			if err != nil {
				return err
			}
			u, err := c.changeUser(cmd.Context(), args[0], storage.UserChange{Password: &hash})
			if err != nil {
				return err
			}
			return c.printMade(u, text, from.generate, "changed the password of")
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&none, "none", false, "take the password away: only a link or the provider signs in")
	cmd.MarkFlagsMutuallyExclusive("none", "generate", "password-stdin")
	return cmd
}

func (c *cli) userEnableCmd(verb, short string, disabled bool) *cobra.Command {
	return &cobra.Command{Use: verb + " NAME", Short: short, Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		u, err := c.changeUser(cmd.Context(), args[0], storage.UserChange{Disabled: &disabled})
		if err != nil {
			return err
		}
		return c.printMade(u, "", false, verb+"d")
	}}
}

func (c *cli) userRemoveCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{Use: "remove NAME", Short: "Remove a user; what it asked for keeps the name", Args: exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		if err := c.confirm(fmt.Sprintf("Remove the user %s for good?", args[0]), yes); err != nil {
			return err
		}
		return c.withStore(cmd.Context(), func(ctx context.Context, store *storage.Store) error {
			u, err := store.UserByName(ctx, everything, people.Name(args[0]))
			if err != nil {
				return err
			}
			if err := store.RemoveUser(ctx, everything, u.ID); err != nil {
				return err
			}
			if err := didToUser(ctx, store, "user.removed", u); err != nil {
				return err
			}
			return c.print(map[string]any{"removed": u}, func(w io.Writer) { fmt.Fprintln(w, "removed", u.Name) })
		})
	}}
	yesFlag(cmd, &yes)
	return cmd
}
