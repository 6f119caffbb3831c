package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/fenceline/fenceline/storage"
)

// keepDays is a flag of days, or of forever, which is nil.
type keepDays struct{ into **int }

// Set takes days or forever.
func (d keepDays) Set(text string) error {
	if text == "forever" {
		*d.into = nil
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("must be a number of days, or forever")
	}
	*d.into = &n
	return nil
}

// String is the days, or empty.
func (d keepDays) String() string { return optionalInt(d).String() }

// Type is what the help shows.
func (keepDays) Type() string { return "DAYS|forever" }

// ruleSet is what set answers: the rule, and the one in whose place it came; nil without.
type ruleSet struct {
	storage.RetentionRule
	Before *storage.RetentionRule `json:"before"`
}

// setRetention sets a rule, and says what was said before: a rule that was set by mistake can be put back.
func (c *cli) setRetention(ctx context.Context, store *storage.Store, r storage.RetentionRule) error {
	scope := everything
	if r.Tenant != nil {
		scope = storage.Scope{Tenant: *r.Tenant}
	}
	rules, err := store.RetentionRules(ctx, scope)
	if err != nil {
		return err
	}
	answer := ruleSet{RetentionRule: r}
	for _, old := range rules {
		if value(old.Tenant) == value(r.Tenant) && value(old.Kind) == value(r.Kind) {
			answer.Before = &old
		}
	}
	if err := store.SetRetention(ctx, r, byCommandLine()); err != nil {
		return err
	}
	if err := c.hintNone(ctx, store, r.Tenant, r.Kind, "the rule is for what comes"); err != nil {
		return err
	}
	return c.print(answer, func(w io.Writer) {
		fmt.Fprintf(w, "%s: current publications stay %s, replaced ones %s\n", r.Name(), r.Current(), r.Superseded())
		if old := answer.Before; old != nil {
			fmt.Fprintf(w, "before: current ones %s, replaced ones %s; %s set that\n", old.Current(), old.Superseded(), old.SetBy)
		} else {
			fmt.Fprintln(w, "before: there was no such rule, a more general one counted if there is one")
		}
		fmt.Fprintln(w, "`fenceline sweep plan` shows what is due now")
	})
}

// hintNone says on standard error when there is no export of a tenant and kind, nil
// being any: it is allowed, but may be a slip of the pen that protects nothing.
func (c *cli) hintNone(ctx context.Context, store *storage.Store, tenant, kind *string, so string) error {
	scope, of := everything, ""
	if kind != nil {
		of = " of kind " + *kind
	}
	if tenant != nil {
		scope, of = storage.Scope{Tenant: *tenant}, of+" of tenant "+*tenant
	}
	if of == "" {
		return nil
	}
	for after := ""; ; {
		page, err := store.RulesInForce(ctx, scope, after, 200)
		if err != nil {
			return err
		}
		for _, there := range page.Items {
			if kind == nil || there.Kind == *kind {
				return nil
			}
		}
		if after = page.Next; after == "" {
			fmt.Fprintf(c.err, "no export%s exists yet; %s\n", of, so)
			return nil
		}
	}
}
