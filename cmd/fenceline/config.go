package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/web/oidc"
)

// setting is one thing that can be configured. The table below is the only
// place that knows it: flags, environment, help, README and the compose file are
// made from it or checked against it.
type setting struct {
	name    string // of the flag; empty when there is only the variable (secrets would show in the process list)
	env     string
	def     string
	help    string
	secret  bool
	example string // in the README, instead of the default
	is      shape  // in the configuration file
}

// shape is what a setting may look like in the configuration file.
type shape int

const (
	isText    shape = iota // durations too
	isNumber               // without quotes
	isList                 // a text with commas, or a list of texts
	isWeights              // the same, or names with numbers
)

// key is the setting's name in the configuration file: its flag's, or, for what has
// none, its variable's in small letters.
func (s setting) key() string {
	if s.name != "" {
		return s.name
	}
	return strings.ToLower(s.env)
}

var settings = [...]setting{
	{name: "config", env: "FENCELINE_CONFIG", def: "./fenceline.yml", help: "file with settings (YAML: the names of flags); the default is read if it is there, and if nobody else owns it"},
	{name: "data", env: "FENCELINE_DATA", def: "./.fenceline", help: "folder of the private servers, and where other commands find them"},
	{name: "addr", env: "FENCELINE_ADDR", def: "127.0.0.1:8080", help: "address of the dashboard and the API"},
	{env: "DATABASE_URL", help: "PostgreSQL to use; empty: a private one in the data folder", secret: true, example: "postgres://user:secret@host/db"},
	{env: "DATABASE_DIRECT_URL", help: "where DATABASE_URL leads to a pooler in transaction mode: PostgreSQL itself, for LISTEN and migrations; empty: messages are replaced by looking once a second", secret: true, example: "postgres://user:secret@host/db"},
	{env: "SOURCE_DATABASE_URL", help: "PostgreSQL that reports are read from, best with a role that may only read; empty: the same database", secret: true, example: "postgres://reader:secret@host/shop"},
	{env: "REDIS_URL", help: "Redis to use: redis://, redis-sentinel://HOSTS/PRIMARY or redis-cluster://HOSTS, with rediss for TLS; empty: a private one in memory", secret: true, example: "redis://:secret@host:6379/0"},
	{name: "files", env: "FILES_DIR", help: "folder of the export files; empty: files in the data folder"},
	{name: "files-url", env: "FILES_URL", help: "where the export files are kept instead: file:///FOLDER, or s3://BUCKET/PREFIX?region=…&endpoint=… with credentials from the AWS configuration", example: "s3://exports/fenceline?region=eu-central-1"},
	{name: "reports", env: "REPORTS_DIR", def: "./reports", help: "folder of your reports (*.sql)"},
	{name: "schedules", env: "SCHEDULES_FILE", def: "./schedules.yml", help: "file of your schedules; a file of the default name need not be there"},
	{name: "invoice-style", env: "INVOICE_STYLE", help: "file with the look of invoices (JSON: layout, accent, footer, columns, logo)", example: "./style.json"},
	{name: "invoice-fonts", env: "INVOICE_FONTS", help: "further fonts for invoices, such as for Japanese: files (TrueType) with commas between them", example: "/usr/share/fonts/truetype/japanese.ttf", is: isList},
	{name: "public-url", env: "PUBLIC_URL", help: "how browsers reach the dashboard; empty: http:// and the address", example: "https://exports.example.com"},
	{name: "namespace", env: "FENCELINE_NAMESPACE", def: "fenceline", help: "beginning of every name in Redis, for a Redis that others use too"},
	{name: "concurrency", env: "FENCELINE_CONCURRENCY", def: "8", help: "how many jobs a worker runs at once", is: isNumber},
	{name: "queues", env: "FENCELINE_QUEUES", def: "default=1", help: "queues that a worker serves, with their weights", is: isWeights},
	{name: "autoscale", env: "FENCELINE_AUTOSCALE", help: "bounds of the slots that a worker's queues have, by how long their jobs wait; --concurrency in all", example: "default=2..16,reports=1..4", is: isList},
	{name: "autoscale-wait", env: "FENCELINE_AUTOSCALE_WAIT", def: "5s", help: "how long jobs may wait before their queue gets more slots"},
	{env: "FENCELINE_KEYS", help: "keys that seal the secret fields of payloads, NAME:KEY with commas: the first seals, all open (`fenceline keys new` makes one)", secret: true, example: "k2:JlZ…=,k1:9aB…=", is: isList},
	{name: "keys-file", env: "FENCELINE_KEYS_FILE", help: "file with these keys, in lines, instead", example: "/run/secrets/fenceline-keys"},
	{name: "lease", env: "FENCELINE_LEASE", def: "15s", help: "how long a worker may be silent before its job goes to another"},
	{env: "LEASE_URL", def: "redis", help: "who hands out leases: redis (that of REDIS_URL), postgres (that of DATABASE_DIRECT_URL or DATABASE_URL), an address of either, redlock://HOST,HOST,HOST (independent servers), etcd://, zookeeper:// or kubernetes://NAMESPACE (in builds with that tag), or none (every worker may work; nothing breaks)", secret: true},
	{name: "grace", env: "FENCELINE_GRACE", def: "10s", help: "how long running jobs may go on after a stop before they are handed back"},
	{name: "sweep-every", env: "SWEEP_EVERY", def: "1m", help: "how often the scheduler cleans up; 0 for never"},
	{name: "sweep-grace", env: "SWEEP_GRACE", def: "15m", help: "how long an attempt must be silent before it is condemned"},
	{name: "sweep-quarantine", env: "SWEEP_QUARANTINE", def: "10m", help: "how long files of a fenced, failed or condemned attempt stay"},
	{name: "sweep-superseded", env: "SWEEP_SUPERSEDED", def: "168h", help: "how long replaced publications stay"},
	{name: "sweep-after-recovery", env: "SWEEP_AFTER_RECOVERY", def: "24h", help: "how long nothing is cleaned up after a recovery: another backup may have to be restored"},
	{name: "sweep-limit", env: "SWEEP_LIMIT", def: "100000", help: "how many attempts one clean-up takes on; the next one goes on", is: isNumber},
	{name: "sweep-time", env: "SWEEP_TIME", def: "10m", help: "how long one clean-up goes on; 0 for as long as there is something"},
	{name: "sweep-pace", env: "SWEEP_PACE", def: "20", help: "share of the time, in percent, that a clean-up works; in between it lets others work", is: isNumber},
	{name: "sweep-parallel", env: "SWEEP_PARALLEL", def: "4", help: "how many attempts' files a clean-up deletes at once", is: isNumber},
	{name: "sweep-max-share", env: "SWEEP_MAX_SHARE", def: "50", help: "share of all stored bytes, in percent, that one clean-up may delete: one that would delete more, and more than 1 GiB, deletes nothing; 100 for no bound", is: isNumber},
	{name: "sweep-off", env: "SWEEP_OFF", def: "no", help: "yes: this process deletes nothing (`fenceline sweep off` is for all)"},
	{env: "SMTP_URL", help: "mail server for `notify`: smtp:// (with STARTTLS), smtps://, or smtp+insecure:// without TLS; empty: no mail is sent", secret: true, example: "smtp://user:secret@mail.example.com:587"},
	{name: "mail-from", env: "MAIL_FROM", help: "sender of mail; needed with SMTP_URL", example: "Exports <exports@example.com>"},
	{name: "webhook-allow", env: "WEBHOOK_ALLOW", help: "hosts and networks that webhooks may reach although they are internal or without TLS, with commas between them", example: "hooks.internal,10.1.0.0/16", is: isList},
	{name: "notify-keep", env: "NOTIFY_KEEP", def: "168h", help: "how long deliveries that arrived stay in the lists; 0 for ever"},
	{name: "audit-keep", env: "AUDIT_KEEP", def: "8760h", help: "how long entries of the audit log stay, at least 720h; 0 for ever"},
	{name: "oidc-issuer", env: "OIDC_ISSUER", help: "OpenID provider that people may sign in by: its https URL, without /.well-known; needs PUBLIC_URL", example: "https://id.example.com"},
	{name: "oidc-client-id", env: "OIDC_CLIENT_ID", help: "id of the client at the provider; its redirect address is PUBLIC_URL/signin/callback", example: "fenceline"},
	{env: "OIDC_CLIENT_SECRET", help: "secret of this client, at least 16 characters", secret: true, example: "…"},
	{name: "oidc-name", env: "OIDC_NAME", def: "single sign-on", help: "what people call the provider: the button says “Sign in with” it"},
	{name: "oidc-scopes", env: "OIDC_SCOPES", help: "scopes to ask for besides openid and profile, with commas between them", example: "groups", is: isList},
	{name: "oidc-role-claim", env: "OIDC_ROLE_CLAIM", help: "claim that says the role, a text or a list; dots lead into objects", example: "realm_access.roles"},
	{name: "oidc-roles", env: "OIDC_ROLES", help: "roles of the values of this claim, VALUE=ROLE with commas; the highest counts", example: "staff=viewer,heads=admin", is: isList},
	{name: "oidc-default-role", env: "OIDC_DEFAULT_ROLE", def: "refuse", help: "role of whom this claim gives none: viewer, requester, operator, or refuse"},
	{name: "oidc-tenant-claim", env: "OIDC_TENANT_CLAIM", help: "claim that says the tenant, * for all; empty: new people see all tenants", example: "tenant"},
	{name: "api-rate", env: "API_RATE", def: "600", help: "how many requests of the API a token or a user may make in a minute, a sixth of them at once; 0 for any number", is: isNumber},
	{name: "trusted-proxies", env: "TRUSTED_PROXIES", help: "addresses and networks of the proxies in front of the dashboard, with commas between them: their X-Forwarded-For and X-Forwarded-Proto are believed", example: "10.0.0.0/8,192.0.2.7", is: isList},
	{name: "link-max", env: "LINK_MAX", def: "168h", help: "how long a link to a file may open at most"},
	{name: "url", env: "FENCELINE_URL", help: "a Fenceline elsewhere that `dispatch` asks over its API", example: "https://exports.example.com"},
	{env: "FENCELINE_TOKEN", help: "API token for FENCELINE_URL", secret: true, example: "fl_…"},
	{name: "log-level", env: "LOG_LEVEL", def: "info", help: "debug, info, warn or error"},
	{name: "log-format", env: "LOG_FORMAT", def: "text", help: "text or json"},
}

// Config is the configuration of one run: flag before environment before file before default.
type Config struct {
	Data, Addr, DatabaseURL, DirectURL, SourceURL, RedisURL, Files, Reports, PublicURL, Namespace     string
	RemoteURL, RemoteToken, LeaseURL, LogFormat, InvoiceStyle, Keys, KeysFile                         string
	Schedules                                                                                         string
	InvoiceFonts                                                                                      []string
	Guard                                                                                             *notify.Guard
	Mailer                                                                                            *notify.Mailer // nil: no mail is sent
	Provider                                                                                          *oidc.Config   // nil: nobody signs in by a provider
	Concurrency                                                                                       int
	Queues                                                                                            map[string]int
	Autoscale                                                                                         map[string]jobs.Bounds
	AutoscaleWait, Lease, Grace, SweepEvery, SweepGrace, SweepQuarantine, SweepSuperseded, NotifyKeep time.Duration
	SweepAfterRecovery                                                                                time.Duration
	AuditKeep, LinkMax                                                                                time.Duration
	SweepTime                                                                                         time.Duration
	SweepLimit, SweepPace, SweepParallel, SweepMaxShare                                               int
	SweepOff                                                                                          bool
	APIRate                                                                                           int
	TrustedProxies                                                                                    []netip.Prefix
	LogLevel                                                                                          slog.Level

	file     *configFile // nil when there is none
	warnings []string    // about the file; the program that starts writes them to its log
	settings []settled   // all, in the order of the table
}

// addFlags registers the settings that have a flag.
func addFlags(flags *pflag.FlagSet) {
	for _, s := range settings {
		if s.name != "" {
			help := strings.ReplaceAll(s.help, "`", "") // what is in backquotes would be shown as the name of the value
			flags.String(s.name, s.def, help+" ("+s.env+")")
		}
	}
}

// loadConfig reads every setting and refuses what does not fit, naming the
// setting and its value (never a secret's).
func loadConfig(flags *pflag.FlagSet, getenv func(string) string) (Config, error) {
	r := &configReader{flags: flags, getenv: getenv}
	var err error
	if r.file, err = r.openFile(); err != nil {
		return Config{}, err
	}
	c := Config{
		file: r.file, settings: r.all(), Keys: r.text("FENCELINE_KEYS"), KeysFile: r.text("FENCELINE_KEYS_FILE"),
		Data: r.text("FENCELINE_DATA"), Addr: r.text("FENCELINE_ADDR"),
		DatabaseURL: r.text("DATABASE_URL"), DirectURL: r.text("DATABASE_DIRECT_URL"), RedisURL: r.text("REDIS_URL"),
		SourceURL: r.text("SOURCE_DATABASE_URL"), InvoiceStyle: r.text("INVOICE_STYLE"), InvoiceFonts: r.list("INVOICE_FONTS"),
		Files: r.files(), Reports: r.text("REPORTS_DIR"), Schedules: r.text("SCHEDULES_FILE"),
		PublicURL: r.text("PUBLIC_URL"), Namespace: r.text("FENCELINE_NAMESPACE"),
		RemoteURL: r.text("FENCELINE_URL"), RemoteToken: r.text("FENCELINE_TOKEN"),
		Concurrency: r.number("FENCELINE_CONCURRENCY", 1, 10_000), Queues: r.queues("FENCELINE_QUEUES"),
		Lease: r.duration("FENCELINE_LEASE", time.Second), Grace: r.duration("FENCELINE_GRACE", 0),
		LeaseURL:   r.leases("LEASE_URL"),
		SweepEvery: r.duration("SWEEP_EVERY", 0), SweepGrace: r.duration("SWEEP_GRACE", 0),
		SweepQuarantine: r.duration("SWEEP_QUARANTINE", 0), SweepSuperseded: r.duration("SWEEP_SUPERSEDED", 0), SweepAfterRecovery: r.duration("SWEEP_AFTER_RECOVERY", 0),
		SweepTime: r.duration("SWEEP_TIME", 0), SweepLimit: r.number("SWEEP_LIMIT", 1, 100_000_000), SweepPace: r.number("SWEEP_PACE", 1, 100),
		SweepParallel: r.number("SWEEP_PARALLEL", 1, 256), SweepMaxShare: r.number("SWEEP_MAX_SHARE", 1, 100), SweepOff: r.oneOf("SWEEP_OFF", "no", "yes") == "yes",
		NotifyKeep: r.duration("NOTIFY_KEEP", 0), Guard: r.guard("WEBHOOK_ALLOW"), Mailer: r.mailer("SMTP_URL", "MAIL_FROM"),
		LogLevel: r.level("LOG_LEVEL"), LogFormat: r.oneOf("LOG_FORMAT", "text", "json"),
	}
	c.Autoscale, c.AutoscaleWait = r.bounds("FENCELINE_AUTOSCALE", c.Concurrency), r.duration("FENCELINE_AUTOSCALE_WAIT", time.Millisecond)
	for name := range c.Autoscale {
		if c.Queues != nil && c.Queues[name] == 0 {
			c.Queues[name] = 1
		}
	}
	if c.Files == "" {
		c.Files = filepath.Join(c.Data, "files")
	}
	if c.AuditKeep = r.duration("AUDIT_KEEP", 0); c.AuditKeep > 0 && c.AuditKeep < storage.LeastAuditKept {
		r.refuse("AUDIT_KEEP", r.text("AUDIT_KEEP"), "must be 720h or more, or 0 for ever")
	}
	c.TrustedProxies = r.networks("TRUSTED_PROXIES")
	c.APIRate = r.number("API_RATE", 0, 10_000_000)
	c.LinkMax = r.duration("LINK_MAX", time.Minute)
	r.checkURL("PUBLIC_URL", c.PublicURL)
	c.Provider = r.provider(c.PublicURL)
	r.checkURL("FENCELINE_URL", c.RemoteURL)
	if strings.ContainsAny(c.Namespace, "{} ") || c.Namespace == "" {
		r.refuse("FENCELINE_NAMESPACE", c.Namespace, "must not be empty or hold braces or spaces")
	}
	if c.Keys != "" && c.KeysFile != "" {
		r.refuse("FENCELINE_KEYS_FILE", c.KeysFile, "cannot be set together with FENCELINE_KEYS; keep one of them")
	}
	c.warnings = r.file.warnings()
	return c, r.refused.OrNil()
}

type configReader struct {
	flags   *pflag.FlagSet
	getenv  func(string) string
	file    *configFile
	refused invalid.Error
}

// refuse names a setting by the place where it is set.
func (r *configReader) refuse(env, value, format string, args ...any) {
	if s := r.settled(settingOf(env)); s.From == fromFile {
		env = s.Where + ": " + s.Name
	}
	r.refused.Add(env, value, format, args...)
}

func settingOf(env string) setting {
	for _, s := range settings {
		if s.env == env {
			return s
		}
	}
	panic("no setting " + env) // a mistake in this file
}

func (r *configReader) text(env string) string { return r.settled(settingOf(env)).Value }

// list is what stands between commas.
func (r *configReader) list(env string) []string {
	var list []string
	for part := range strings.SplitSeq(r.text(env), ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func (r *configReader) number(env string, least, most int) int {
	n, err := strconv.Atoi(r.text(env))
	if err != nil || n < least || n > most {
		r.refuse(env, r.text(env), "must be a number from %d to %d", least, most)
	}
	return n
}

func (r *configReader) duration(env string, least time.Duration) time.Duration {
	d, err := time.ParseDuration(r.text(env))
	if err != nil || d < least {
		r.refuse(env, r.text(env), "must be a duration such as 30s or 15m, at least %s", least)
	}
	return d
}

// networks reads addresses and networks.
func (r *configReader) networks(env string) (list []netip.Prefix) {
	for _, text := range r.list(env) {
		p, err := netip.ParsePrefix(text)
		if a, bad := netip.ParseAddr(text); bad == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			r.refuse(env, text, "is no address and no network; write it as 192.0.2.7 or 10.0.0.0/8")
			continue
		}
		list = append(list, p.Masked())
	}
	return list
}

func (r *configReader) guard(env string) *notify.Guard {
	g, err := notify.NewGuard(r.list(env))
	r.takeOver(err)
	return g
}

// mailer is nil when no mail server is configured.
func (r *configReader) mailer(server, from string) *notify.Mailer {
	if r.text(server) == "" {
		return nil
	}
	m, err := notify.ParseMailer(r.text(server), r.text(from))
	r.takeOver(err)
	return m
}

// provider is nil when no OpenID provider is configured.
func (r *configReader) provider(publicURL string) *oidc.Config {
	c, err := oidc.Parse(oidc.Settings{
		Issuer: r.text("OIDC_ISSUER"), ClientID: r.text("OIDC_CLIENT_ID"), ClientSecret: r.text("OIDC_CLIENT_SECRET"), Name: r.text("OIDC_NAME"),
		Scopes: r.list("OIDC_SCOPES"), RoleClaim: r.text("OIDC_ROLE_CLAIM"), Roles: r.list("OIDC_ROLES"), DefaultRole: r.text("OIDC_DEFAULT_ROLE"),
		TenantClaim: r.text("OIDC_TENANT_CLAIM"), PublicURL: publicURL,
	})
	r.takeOver(err)
	return c
}

// takeOver refuses what another has found to be wrong; the fields are settings by their variables.
func (r *configReader) takeOver(err error) {
	var bad *invalid.Error
	if errors.As(err, &bad) {
		for _, p := range bad.Problems {
			r.refuse(p.Field, p.Value, "%s", p.Message)
		}
	}
}

func (r *configReader) oneOf(env string, values ...string) string {
	v := r.text(env)
	for _, ok := range values {
		if v == ok {
			return v
		}
	}
	r.refuse(env, v, "must be one of %s", strings.Join(values, ", "))
	return v
}

// files is where the files are kept: of a folder and a URL what is said closer to
// this run (a flag before a variable before the file).
func (r *configReader) files() string {
	dir, location := r.settled(settingOf("FILES_DIR")), r.settled(settingOf("FILES_URL"))
	if location.Value == "" {
		return dir.Value
	}
	l, err := files.ParseURL(location.Value)
	if err == nil && !strings.Contains(location.Value, "://") {
		err = errors.New("must be file:///FOLDER or s3://BUCKET/PREFIX; a folder alone is for FILES_DIR")
	}
	if err != nil {
		shown := location.Value
		if strings.ContainsAny(shown, "@?") { // there may be a secret in it
			shown = ""
		}
		r.refuse("FILES_URL", shown, "%s", err)
		return ""
	}
	if dir.Value != "" && dir.From == location.From {
		r.refuse("FILES_URL", "", "cannot be set together with FILES_DIR; keep one of them")
	}
	closeness := []string{fromFile, fromEnv, fromFlag}
	if slices.Index(closeness, dir.From) > slices.Index(closeness, location.From) {
		return dir.Value
	}
	if l.Dir != "" {
		return l.Dir
	}
	return location.Value
}

func (r *configReader) level(env string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(r.text(env))); err != nil {
		r.refuse(env, r.text(env), "must be debug, info, warn or error")
	}
	return l
}

func (r *configReader) queues(env string) map[string]int {
	queues := map[string]int{}
	for part := range strings.SplitSeq(r.text(env), ",") {
		name, weight, found := strings.Cut(strings.TrimSpace(part), "=")
		n, err := 1, error(nil)
		if found {
			n, err = strconv.Atoi(weight)
		}
		if err != nil || n < 1 || jobs.CheckName("queue", name) != nil {
			r.refuse(env, r.text(env), "must be names with weights, such as default=3,slow=1")
			return nil
		}
		if _, twice := queues[name]; twice {
			r.refuse(env, r.text(env), "names %s twice", name)
			return nil
		}
		queues[name] = n
	}
	return queues
}

// bounds are least..most by queue; all that is least must fit into total.
func (r *configReader) bounds(env string, total int) map[string]jobs.Bounds {
	text, sum := r.text(env), 0
	if text == "" {
		return nil
	}
	all := map[string]jobs.Bounds{}
	for part := range strings.SplitSeq(text, ",") {
		name, span, _ := strings.Cut(strings.TrimSpace(part), "=")
		low, high, _ := strings.Cut(span, "..")
		least, err1 := strconv.Atoi(low)
		most, err2 := strconv.Atoi(high)
		if _, twice := all[name]; twice || jobs.CheckName("queue", name) != nil || err1 != nil || err2 != nil || least < 0 || most < max(least, 1) {
			r.refused.Add(env, text, "must be queues with their bounds, such as default=2..16,reports=1..4")
			return nil
		}
		all[name] = jobs.Bounds{Least: least, Most: most}
		sum += least
	}
	if sum > total {
		r.refused.Add(env, text, "has lower bounds of %d in all, more than the %d of FENCELINE_CONCURRENCY", sum, total)
	}
	return all
}

func (r *configReader) checkURL(env, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		if strings.Contains(text, "@") { // there may be a password before it
			text = ""
		}
		r.refuse(env, text, "must be an http or https URL")
	case u.User != nil: // it would show in lists, messages and links
		r.refuse(env, "", "must not hold a name or password")
	}
}

// url is how browsers reach the dashboard: as configured, or at the address
// that is listened on.
func (c Config) url(addr string) string {
	if c.PublicURL != "" {
		return strings.TrimSuffix(c.PublicURL, "/")
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// LogValue shows the configuration without its secrets.
func (c Config) LogValue() slog.Value {
	set := func(s string) string {
		if s == "" {
			return "private"
		}
		return "set"
	}
	return slog.GroupValue(slog.String("data", c.Data), slog.String("addr", c.Addr), slog.String("database", set(c.DatabaseURL)),
		slog.String("redis", set(c.RedisURL)), slog.String("files", c.Files), slog.String("lease", fmt.Sprint(c.Lease)))
}

// schedulesOptional reports whether there may be no file of schedules: nobody has named one.
func (c Config) schedulesOptional() bool {
	for _, s := range settings {
		if s.env == "SCHEDULES_FILE" {
			return c.Schedules == s.def
		}
	}
	return false
}
