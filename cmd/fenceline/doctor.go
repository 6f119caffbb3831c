package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// The grades of a finding. A danger is a law that does not hold here or may not,
// and nothing else is one.
const (
	gradeOK      = "ok"
	gradeWarning = "warning"
	gradeDanger  = "danger"
)

// finding is what one check has found.
type finding struct {
	Check string `json:"check"`
	Grade string `json:"grade"`
	Found string `json:"found"`
	// Endangers begins with the laws (L1 to L9), "speed" or "nothing".
	Endangers string `json:"endangers"`
	Do        string `json:"do"`
}

func fine(format string, args ...any) finding {
	return finding{Grade: gradeOK, Found: fmt.Sprintf(format, args...), Endangers: "nothing"}
}

func warning(found, endangers, do string) finding {
	return finding{Grade: gradeWarning, Found: found, Endangers: endangers, Do: do}
}

func danger(found, endangers, do string) finding {
	return finding{Grade: gradeDanger, Found: found, Endangers: endangers, Do: do}
}

// check is one question to a deployment. Its ask may answer a finding and an
// error together: what was found, and why the checks that need this one cannot
// be made.
type check struct {
	name  string // part.what
	law   string // that is in doubt when it cannot be checked; "" when only speed is
	needs string // the check without which it cannot be made
	ask   func(context.Context, *doctor) (finding, error)
}

// part is the first half of a check's name.
func (c check) part() string {
	part, _, _ := strings.Cut(c.name, ".")
	return part
}

// limits are where a finding stops being ok, and how long a check may take.
type limits struct {
	check, whole    time.Duration // for one, for all
	latency         time.Duration // of PostgreSQL and Redis
	sync            time.Duration // of a file and its folder
	clock           time.Duration // difference that people would notice
	longTransaction time.Duration
	waiting         time.Duration // for jobs that are due
	unswept         time.Duration // for what the clean-up should have taken
	scarce, gone    float64       // of space and files: the parts that must be free
}

func usualLimits() limits {
	return limits{
		check: 5 * time.Second, whole: time.Minute, latency: 20 * time.Millisecond, sync: 200 * time.Millisecond, clock: 2 * time.Second,
		longTransaction: time.Hour, waiting: 10 * time.Minute, unswept: time.Hour, scarce: 0.10, gone: 0.01,
	}
}

// doctor examines one deployment. What it holds does not change while checks run:
// one that hangs is left behind and may still be reading.
type doctor struct {
	conf     Config
	limits   limits
	now      func() time.Time
	postgres *storage.Doctor
	redis    jobs.Redis
	redisErr error // why there is none

	// Asked once, because several checks look at the answers.
	sessions func() (string, error)
	probe    func() (files.ProbeFacts, error)
	workers  func() ([]jobs.WorkerFacts, error)
	layout   func() (jobs.RedisLayout, error)
	migrated func() (storage.MigrationFacts, error)
}

// newDoctor opens what can be opened. Only a configuration that names no
// deployment is an error. The caller closes it.
func newDoctor(ctx context.Context, conf Config, l limits) (*doctor, error) {
	postgres, err := storage.NewDoctor(conf.DatabaseURL)
	if err != nil {
		return nil, err
	}
	if conf.DirectURL != "" {
		if err := postgres.ListenAt(conf.DirectURL); err != nil {
			return nil, err
		}
	}
	d := &doctor{conf: conf, limits: l, now: time.Now, postgres: postgres}
	opening, cancel := context.WithTimeout(ctx, l.check)
	defer cancel()
	if conf.RedisURL == "" {
		d.redisErr = errors.New("REDIS_URL is not set")
	} else {
		d.redis, d.redisErr = jobs.OpenRedis(opening, conf.RedisURL, conf.Namespace)
	}
	d.sessions = askOnce(ctx, l, postgres.Sessions)
	d.migrated = askOnce(ctx, l, postgres.Migrations)
	d.probe = askOnce(ctx, l, func(ctx context.Context) (files.ProbeFacts, error) {
		id, err := postgres.Installation(ctx)
		if err != nil {
			return files.ProbeFacts{}, err
		}
		return files.Probe(conf.Files, id)
	})
	d.workers = askOnce(ctx, l, func(context.Context) ([]jobs.WorkerFacts, error) {
		if d.redisErr != nil {
			return nil, d.redisErr
		}
		return d.redis.Workers()
	})
	d.layout = askOnce(ctx, l, func(ctx context.Context) (jobs.RedisLayout, error) {
		if d.redisErr != nil {
			return jobs.RedisLayout{}, d.redisErr
		}
		return d.redis.Layout(ctx)
	})
	return d, nil
}

// askOnce keeps the first answer to a question.
func askOnce[T any](ctx context.Context, l limits, ask func(context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		ctx, cancel := context.WithTimeout(ctx, l.check)
		defer cancel()
		return ask(ctx)
	})
}

func (d *doctor) close() {
	if d.redis.Client != nil {
		_ = d.redis.Client.Close()
	}
}

// examine makes all checks, whatever becomes of each; the error is that of ctx.
func (d *doctor) examine(ctx context.Context, checks []check) ([]finding, error) {
	whole, cancel := context.WithTimeout(ctx, d.limits.whole)
	defer cancel()
	failed := map[string]bool{}
	findings := make([]finding, 0, len(checks))
	for _, c := range checks {
		f, err := finding{}, error(nil)
		if failed[c.needs] {
			f = c.cannot("it needs "+c.needs, "repair "+c.needs+" first")
			failed[c.name] = true
		} else if f, err = d.try(whole, c); err != nil {
			failed[c.name] = true
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if f.Grade == "" {
			f = c.cannot(d.withoutSecrets(err), "repair what the message names and run `fenceline doctor` again")
		}
		f.Check = c.name
		findings = append(findings, f)
	}
	return findings, nil
}

// try makes one check and does not wait for it longer than it may take: a file
// system that hangs ends for no context.
func (d *doctor) try(ctx context.Context, c check) (finding, error) {
	type answer struct {
		finding
		error
	}
	ctx, cancel := context.WithTimeout(ctx, d.limits.check)
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		f, err := c.ask(ctx, d)
		answered <- answer{f, err}
	}()
	select {
	case a := <-answered:
		return a.finding, a.error
	case <-ctx.Done():
		return finding{}, fmt.Errorf("no answer within %s", d.limits.check)
	}
}

// cannot is the finding of a check that could not be made.
func (c check) cannot(why, do string) finding {
	if c.law == "" {
		return warning("cannot be checked: "+why, "speed: nobody knows; no law leans on it", do)
	}
	return danger("cannot be checked: "+why, c.law+": nobody knows whether it holds here", do)
}

// withoutSecrets is an error's text without the addresses, which hold passwords.
func (d *doctor) withoutSecrets(err error) string {
	text, lease := oneLine(err.Error()), ""
	if strings.Contains(d.conf.LeaseURL, "://") { // else it is a word
		lease = d.conf.LeaseURL
	}
	raw, plain := leaseSecret(lease)
	for _, secret := range []struct{ text, name string }{{d.conf.RedisURL, "REDIS_URL"}, {d.conf.DatabaseURL, "DATABASE_URL"}, {d.conf.DirectURL, "DATABASE_DIRECT_URL"}, {d.conf.SourceURL, "SOURCE_DATABASE_URL"}, {lease, "LEASE_URL"}, {raw, "…"}, {plain, "…"}} {
		if secret.text != "" {
			text = strings.ReplaceAll(strings.ReplaceAll(text, fmt.Sprintf("%q", secret.text), secret.name), secret.text, secret.name)
		}
	}
	return text
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// diagnosis is the answer of `fenceline doctor`.
type diagnosis struct {
	Findings []finding `json:"findings"`
	OK       int       `json:"ok"`
	Warnings int       `json:"warnings"`
	Dangers  int       `json:"dangers"`
}

func newDiagnosis(findings []finding) diagnosis {
	r := diagnosis{Findings: findings}
	for _, f := range findings {
		switch f.Grade {
		case gradeOK:
			r.OK++
		case gradeWarning:
			r.Warnings++
		default:
			r.Dangers++
		}
	}
	return r
}

func (c *cli) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check a deployment: what is wrong, what it endangers, what to do",
		Long: "Looks at PostgreSQL, the schema, Redis, leases (it takes one of its own, and releases it), the files folder, the\n" +
			"settings and the work in progress, and says what it found, what that endangers (a law, L1 to L9; speed; or\n" +
			"nothing) and what to do. It changes nothing, waits for nothing longer than some seconds, and goes on when a check cannot be made.\n\n" +
			"Run it as the user and with the environment of a worker: it judges the settings and the rights that it has.\n\n" +
			"Exit codes: 0 no law is endangered (there may be warnings), 1 one is, or it could not be checked.",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.doctor(cmd.Context(), usualLimits()) },
	}
}

func (c *cli) doctor(ctx context.Context, l limits) error {
	conf, err := findServers(c.conf)
	if err != nil {
		return err
	}
	d, err := newDoctor(ctx, conf, l)
	if err != nil {
		return err
	}
	defer d.close()
	findings, err := d.examine(ctx, checks())
	if err != nil {
		return err
	}
	r := newDiagnosis(findings)
	if err := c.print(r, func(w io.Writer) { r.write(w) }); err != nil {
		return err
	}
	if r.Dangers > 0 {
		return &coded{exitFailed, fmt.Errorf("doctor: %s", count.Of(r.Dangers, "danger"))}
	}
	return nil
}

// write prints the findings by part, a line for each that is ok.
func (r diagnosis) write(w io.Writer) {
	part := ""
	for _, f := range r.Findings {
		of, name, _ := strings.Cut(f.Check, ".")
		if of != part {
			part = of
			fmt.Fprintln(w, partTitle(part))
		}
		fmt.Fprintf(w, "  %-8s %-18s %s\n", f.Grade, name, f.Found)
		if f.Grade != gradeOK {
			fmt.Fprintf(w, "           endangers %s\n           do        %s\n", f.Endangers, f.Do)
		}
	}
	fmt.Fprintf(w, "%d ok, %s, %s\n", r.OK, count.Of(r.Warnings, "warning"), count.Of(r.Dangers, "danger"))
}

func partTitle(part string) string {
	switch part {
	case "postgres":
		return "PostgreSQL"
	case "redis":
		return "Redis"
	case "lease":
		return "leases"
	}
	return part
}

// approximately is a time as people say it.
func approximately(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
