package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/migrations"
)

// ErrNoSchema means that the database was never migrated.
var ErrNoSchema = errors.New("the database has no schema " + migrations.Schema)

// MigrationFacts compare what ran with what this program knows.
type MigrationFacts struct {
	Newest  int64    // that ran
	Pending []string // names of files that this program holds and that did not run
	Unknown []int64  // versions that ran and that this program does not hold
}

// Migrations looks which migrations ran. Unlike [Pending] it makes nothing.
// [ErrNoSchema] when none ever did.
func (d *Doctor) Migrations(ctx context.Context) (MigrationFacts, error) {
	var m MigrationFacts
	there, err := lookAt[struct{ Yes bool }](ctx, d, "SELECT to_regclass($1) IS NOT NULL", migrations.Schema+".schema_migrations")
	if err != nil {
		return m, fmt.Errorf("look for the migrations: %w", err)
	}
	if !there.Yes {
		return m, ErrNoSchema
	}
	ran, err := lookFor[struct{ Version int64 }](ctx, d, "SELECT version_id FROM fenceline.schema_migrations WHERE is_applied AND version_id > 0 ORDER BY 1")
	if err != nil {
		return m, fmt.Errorf("look for the migrations: %w", err)
	}
	known, err := migrationFiles()
	if err != nil {
		return m, err
	}
	for _, r := range ran {
		m.Newest = r.Version
		if known[r.Version] == "" {
			m.Unknown = append(m.Unknown, r.Version)
		}
		delete(known, r.Version)
	}
	for _, version := range slices.Sorted(maps.Keys(known)) {
		m.Pending = append(m.Pending, known[version])
	}
	return m, nil
}

// migrationFiles are the names of the embedded migrations by version.
func migrationFiles() (map[int64]string, error) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return nil, err
	}
	files := make(map[int64]string, len(names))
	for _, name := range names {
		digits, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s: its name does not begin with a number", name)
		}
		files[version] = name
	}
	return files, nil
}

// Installation is the id that the file store must carry.
func (d *Doctor) Installation(ctx context.Context) (uuid.UUID, error) {
	row, err := lookAt[struct{ ID string }](ctx, d, "SELECT id::text FROM fenceline.installation")
	if err != nil {
		return uuid.Nil, fmt.Errorf("read the installation's id: %w", err)
	}
	return uuid.Parse(row.ID)
}

// SequenceFacts are about fenceline.fence_tokens.
type SequenceFacts struct {
	Cache, Increment int64
	Cycle            bool
	Position         int64 // the newest token that was given out
	Left             int64 // values up to its end
	Issued           int64 // the highest of exports
	Attempt          int64 // the highest of attempts
	Fence            int64 // the highest of fences, writes included
}

// Sequence looks at the sequence that tokens come from.
func (d *Doctor) Sequence(ctx context.Context) (SequenceFacts, error) {
	s, err := lookAt[SequenceFacts](ctx, d, `SELECT p.seqcache, p.seqincrement, p.seqcycle,
			s.last_value - CASE WHEN s.is_called THEN 0 ELSE p.seqincrement END, p.seqmax - s.last_value,
			coalesce((SELECT max(issued_token) FROM fenceline.exports), 0), coalesce((SELECT max(token) FROM fenceline.attempts), 0),
			coalesce((SELECT max(greatest(issued_token, last_write)) FROM fenceline.fences), 0)
		FROM pg_sequence p CROSS JOIN fenceline.fence_tokens s WHERE p.seqrelid = 'fenceline.fence_tokens'::regclass`)
	if err != nil {
		return s, fmt.Errorf("look at the sequence fenceline.fence_tokens: %w", err)
	}
	return s, nil
}

// Fault is something of the schema that is not as it was migrated.
type Fault struct {
	Name string // such as "trigger guard on exports"
	What string // missing, disabled, changed, …
	// Guards tells that a law leans on it; else it makes things quick.
	Guards bool
	// Differs tells that it is wrong only in comparison with the migrations that this program holds.
	Differs bool
}

// String is the fault as a phrase.
func (f Fault) String() string { return f.Name + " is " + f.What }

// Functions compares the functions' text with that of the migrations.
func (d *Doctor) Functions(ctx context.Context) ([]Fault, error) {
	want, err := asMigrated(migrations.Files)
	if err != nil {
		return nil, err
	}
	got, err := lookFor[struct{ Name, Text string }](ctx, d, `SELECT p.proname::text, p.prosrc FROM pg_proc p
		JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'fenceline'`)
	if err != nil {
		return nil, fmt.Errorf("read the functions: %w", err)
	}
	texts := map[string]string{}
	for _, f := range got {
		texts[f.Name] += f.Text // a second one of the same name makes it differ
	}
	var faults []Fault
	for _, name := range slices.Sorted(maps.Keys(want.functions)) {
		text, there := texts[name]
		f := Fault{Name: "function " + name, Guards: guardsLaw(name), Differs: true}
		switch {
		case !there:
			f.What = "missing"
		case text != want.functions[name]:
			f.What = "not as migrated"
		default:
			continue
		}
		faults = append(faults, f)
	}
	return faults, nil
}

// Triggers looks whether every trigger of the migrations is there, fires when
// and for what it should, and is enabled; and the same of those by which
// PostgreSQL itself keeps foreign keys.
func (d *Doctor) Triggers(ctx context.Context) ([]Fault, error) {
	want, err := asMigrated(migrations.Files)
	if err != nil {
		return nil, err
	}
	got, err := lookFor[struct {
		Definition, Table, Constraint string
		Internal, Enabled             bool
	}](ctx, d, `SELECT pg_get_triggerdef(t.oid), c.relname::text, coalesce(k.conname, '')::text, t.tgisinternal, t.tgenabled IN ('O', 'A') FROM pg_trigger t
		JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
		WHERE n.nspname = 'fenceline' ORDER BY c.relname, t.tgname`)
	if err != nil {
		return nil, fmt.Errorf("read the triggers: %w", err)
	}
	var faults []Fault
	there := map[string]trigger{}
	for _, g := range got {
		t, ok := parseTrigger(g.Definition)
		if !g.Internal && ok {
			there[t.name()] = t
		}
		switch {
		case g.Enabled:
		case g.Internal:
			faults = append(faults, Fault{Name: "foreign key " + g.Constraint + " on " + g.Table, What: "not enforced: its triggers are disabled", Guards: true})
		case want.triggers[t.name()] != trigger{}:
			faults = append(faults, Fault{Name: t.name(), What: "disabled", Guards: t.guards()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.triggers)) {
		t, ok := there[name]
		if f := (Fault{Name: name, What: "missing", Guards: want.triggers[name].guards(), Differs: true}); !ok {
			faults = append(faults, f)
		} else if t != want.triggers[name] {
			f.What = "not as migrated"
			faults = append(faults, f)
		}
	}
	return slices.CompactFunc(faults, func(a, b Fault) bool { return a == b }), nil
}

// Indexes looks whether every index of the migrations is there, and every index
// of the schema valid.
func (d *Doctor) Indexes(ctx context.Context) ([]Fault, error) {
	want, err := asMigrated(migrations.Files)
	if err != nil {
		return nil, err
	}
	got, err := lookFor[struct {
		Name          string
		Unique, Valid bool
	}](ctx, d, `SELECT c.relname::text, i.indisunique, i.indisvalid AND i.indisready AND i.indislive FROM pg_index i
		JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class r ON r.oid = i.indrelid JOIN pg_namespace n ON n.oid = r.relnamespace
		WHERE n.nspname = 'fenceline' ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("read the indexes: %w", err)
	}
	var faults []Fault
	unique := map[string]bool{}
	for _, i := range got {
		unique[i.Name] = i.Unique
		if !i.Valid {
			faults = append(faults, Fault{Name: "index " + i.Name, What: "not valid", Guards: i.Unique || want.indexes[i.Name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.indexes)) {
		is, there := unique[name]
		if !there {
			faults = append(faults, Fault{Name: "index " + name, What: "missing", Guards: want.indexes[name], Differs: true})
		} else if want.indexes[name] && !is {
			faults = append(faults, Fault{Name: "index " + name, What: "not unique", Guards: true, Differs: true})
		}
	}
	return faults, nil
}

// lawfulConstraints are the keys, references and relations between columns that
// the laws lean on, under the names that PostgreSQL gives them.
var lawfulConstraints = [...]string{
	"attempts.attempts_check", "attempts.attempts_export_id_fkey", "attempts.attempts_export_id_id_token_key", "attempts.attempts_job_id_fkey",
	"attempts.attempts_job_id_number_key", "attempts.attempts_pkey", "attempts.attempts_state_check", "attempts.attempts_token_key",
	"deliveries.deliveries_outbox_id_fkey", "deliveries.deliveries_outbox_id_target_id_key", "deliveries.deliveries_pkey", "deliveries.deliveries_target_id_fkey",
	"epoch.epoch_check", "epoch.epoch_check1", "epoch.epoch_check2", "epoch.epoch_pkey", "epoch.epoch_state_check",
	"exports.exports_check", "exports.exports_check1", "exports.exports_check2", "exports.exports_pkey", "exports.exports_pointer",
	"exports.exports_expired", "exports.exports_pinned", "attempts.attempts_pinned", "holds.holds_pkey", "holds.holds_released", "fences.fences_check", "fences.fences_check1", "fences.fences_check2", "fences.fences_check3",
	"fences.fences_pkey", "files.files_attempt_id_fkey", "files.files_attempt_id_name_key", "files.files_attempt_id_object_key",
	"files.files_pkey", "files.files_sha256_check", "installation.installation_pkey",
	"invoice_series.invoice_series_pkey", "invoices.invoices_pkey", "invoices.invoices_tenant_number_key",
	"invoices.invoices_tenant_series_fkey", "invoices.invoices_tenant_series_n_key", "jobs.jobs_attempt", "jobs.jobs_after_job_fkey", "jobs.jobs_attended", "jobs.jobs_batch_id_fkey", "jobs.jobs_check1",
	"jobs.jobs_check2", "jobs.jobs_export_id_fkey", "jobs.jobs_pkey", "jobs.jobs_plain", "jobs.jobs_ready_only_plain", "jobs.jobs_state_check", "jobs.jobs_unique_how", "batch_calls.batch_calls_pkey", "outbox.outbox_attempt_id_fkey",
	"outbox.outbox_export_id_fkey", "outbox.outbox_job_id_fkey", "outbox.outbox_pkey", "outbox.outbox_published_check", "outbox.outbox_subject_check", "schedule_runs.schedule_runs_pkey",
	"uploads.uploads_attempt_id_fkey", "uploads.uploads_pkey",
}

// Constraints looks whether those that the laws lean on are there, and all of
// the schema validated and enforced.
func (d *Doctor) Constraints(ctx context.Context) ([]Fault, error) {
	got, err := lookFor[struct {
		Name            string
		Valid, Enforced bool
	}](ctx, d, `SELECT r.relname || '.' || c.conname, c.convalidated, coalesce((to_jsonb(c) ->> 'conenforced')::boolean, true)
		FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid JOIN pg_namespace n ON n.oid = r.relnamespace
		WHERE n.nspname = 'fenceline' AND c.contype IN ('p', 'u', 'f', 'c', 'x') ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("read the constraints: %w", err)
	}
	var faults []Fault
	there := map[string]bool{}
	for _, c := range got {
		there[c.Name] = true
		if !c.Enforced {
			faults = append(faults, Fault{Name: "constraint " + c.Name, What: "not enforced", Guards: true})
		} else if !c.Valid {
			faults = append(faults, Fault{Name: "constraint " + c.Name, What: "not validated: rows that were there before may break it", Guards: true})
		}
	}
	for _, name := range lawfulConstraints {
		if !there[name] {
			faults = append(faults, Fault{Name: "constraint " + name, What: "missing", Guards: true, Differs: true})
		}
	}
	return faults, nil
}

// Unlogged lists what of the schema would be empty after a crash, because its
// changes are not written to the log. News are meant to be.
func (d *Doctor) Unlogged(ctx context.Context) ([]string, error) {
	rows, err := lookFor[struct{ Name string }](ctx, d, `SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'fenceline' AND c.relkind IN ('r', 'p', 'S') AND c.relpersistence <> 'p' AND c.relname <> 'news' ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("look for unlogged tables: %w", err)
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names, nil
}

// expected is what the migrations make, as far as the doctor compares it.
type expected struct {
	functions map[string]string  // by name: their text
	triggers  map[string]trigger // by [trigger.name]
	indexes   map[string]bool    // by name: unique
}

// trigger is when a trigger fires, on what, and what it calls. Its condition is
// not compared: PostgreSQL writes it in its own way.
type trigger struct {
	called, table, timing, events, level, function string
}

func (t trigger) name() string { return "trigger " + t.called + " on " + t.table }

func (t trigger) guards() bool { return guardsLaw(t.function) }

// tells is true for functions that only wake those who wait for news.
func tells(function string) bool { return function == "tell" || strings.HasPrefix(function, "tell_") }

// guardsLaw reports whether a law leans on a function: not on those that wake, not on those of limits or totals.
func guardsLaw(function string) bool {
	return !tells(function) && !slices.Contains([]string{"run_is_live", "take_rate", "give_back_rate", "take_hold", "release_hold", "wait_for_hold",
		"leave_limits", "enter_circuit", "leave_circuit", "prune_limits", "reset_limit", "set_tenant", "count_stored", "fold_stored", "recount_stored"}, function)
}

var (
	dollarQuoted   = regexp.MustCompile(`(?s)\$\$.*?\$\$`)
	lineComment    = regexp.MustCompile(`--[^\n]*`)
	createFunction = regexp.MustCompile(`(?is)^\s*CREATE (?:OR REPLACE )?FUNCTION fenceline\.(\w+)\s*\(.*\$(\d+)\$`)
	createTrigger  = regexp.MustCompile(`(?is)^\s*CREATE (?:OR REPLACE )?(?:CONSTRAINT )?TRIGGER (\w+)\s+(BEFORE|AFTER)\s+(.*?)\s+ON\s+fenceline\.(\w+)\b.*?FOR EACH (\w+).*?EXECUTE (?:FUNCTION|PROCEDURE) (?:fenceline\.)?(\w+)\s*\(`)
	createIndex    = regexp.MustCompile(`(?is)^\s*CREATE (UNIQUE )?INDEX (?:CONCURRENTLY )?(?:IF NOT EXISTS )?(\w+)\s+ON\s+fenceline\.`)
	dropThing      = regexp.MustCompile(`(?is)^\s*DROP (FUNCTION|TRIGGER|INDEX) (?:CONCURRENTLY )?(?:IF EXISTS )?(?:fenceline\.)?(\w+)(?:\s+ON\s+fenceline\.(\w+))?`)
)

// asMigrated reads off the migrations what they leave behind: the one place
// that says what a guard is, is what made it.
func asMigrated(files fs.FS) (expected, error) {
	want := expected{map[string]string{}, map[string]trigger{}, map[string]bool{}}
	names, err := fs.Glob(files, "*.sql") // in the order in which they run
	if err != nil {
		return want, err
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return want, fmt.Errorf("read migration %s: %w", name, err)
		}
		up, _, _ := strings.Cut(string(raw), "-- +goose Down")
		want.apply(up)
	}
	return want, nil
}

// apply follows the statements of one migration.
func (want expected) apply(text string) {
	var bodies []string
	text = dollarQuoted.ReplaceAllStringFunc(text, func(body string) string { // they hold semicolons
		bodies = append(bodies, strings.Trim(body, "$"))
		return fmt.Sprintf("$%d$", len(bodies)-1)
	})
	for statement := range strings.SplitSeq(lineComment.ReplaceAllString(text, ""), ";") {
		if m := createFunction.FindStringSubmatch(statement); m != nil {
			n, _ := strconv.Atoi(m[2]) // we wrote it
			want.functions[m[1]] = bodies[n]
		} else if t, ok := parseTrigger(statement); ok {
			want.triggers[t.name()] = t
		} else if m := createIndex.FindStringSubmatch(statement); m != nil {
			want.indexes[m[2]] = m[1] != ""
		} else if m := dropThing.FindStringSubmatch(statement); m != nil {
			want.drop(strings.ToUpper(m[1]), m[2], m[3])
		}
	}
}

func (want expected) drop(kind, name, table string) {
	switch kind {
	case "FUNCTION":
		delete(want.functions, name)
	case "TRIGGER":
		delete(want.triggers, trigger{called: name, table: table}.name())
	case "INDEX":
		delete(want.indexes, name)
	}
}

// parseTrigger reads a CREATE TRIGGER, ours or one that PostgreSQL has written.
func parseTrigger(statement string) (trigger, bool) {
	m := createTrigger.FindStringSubmatch(statement)
	if m == nil {
		return trigger{}, false
	}
	events := regexp.MustCompile(`(?i)\s+OR\s+`).Split(strings.ToUpper(m[3]), -1)
	slices.Sort(events)
	return trigger{
		called: m[1], timing: strings.ToUpper(m[2]), events: strings.Join(events, ", "), table: m[4], level: strings.ToUpper(m[5]), function: m[6],
	}, true
}
