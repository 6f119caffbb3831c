package storage_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/migrations"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/localpg"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func (w *world) doctor() *storage.Doctor {
	w.t.Helper()
	d, err := storage.NewDoctor(w.url)
	w.must(err)
	return d
}

// alter changes this test's database, for sessions to come.
func (w *world) alter(what string) {
	w.t.Helper()
	var name string
	w.must(w.query("SELECT current_database()").Scan(&name))
	w.exec("ALTER DATABASE " + name + " " + what)
}

func TestDoctorReadsTheSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := w.doctor().Server(w.ctx)
	w.must(err)
	if s.User != "fenceline" || s.VersionNumber < 140000 || s.Version == "" || s.Standby || s.ReadOnly || s.SynchronousCommit != "on" ||
		s.Isolation != "read committed" || s.ReplicationRole != "origin" || len(s.Lax) > 0 || s.Fsync || s.FullPageWrites { // storagetest has the last two off
		t.Errorf("%+v", s)
	}
	for _, setting := range []string{
		"synchronous_commit = off", "default_transaction_isolation = 'serializable'", "session_replication_role = replica", "default_transaction_read_only = on",
	} {
		w.alter("SET " + setting)
	}
	s, err = w.doctor().Server(w.ctx)
	w.must(err)
	if !s.ReadOnly || s.SynchronousCommit != "off" || s.Isolation != "serializable" || s.ReplicationRole != "replica" {
		t.Errorf("%+v", s)
	}
	if len(s.Lax) != 1 || !strings.HasPrefix(s.Lax[0], "every role in the database test_") {
		t.Errorf("lax: %q", s.Lax)
	}
}

// A standby without a primary is one too; prepared transactions need a server that allows them.
func TestDoctorOnAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := storagetest.Server(t, map[string]string{"fsync": "on", "full_page_writes": "on", "max_prepared_transactions": "2"})
	must := (&world{t: t}).must
	_, err := storage.Migrate(ctx, server.URL("postgres"))
	must(err)
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	must(err)
	_, err = conn.Exec(ctx, "BEGIN; CREATE TABLE t (i int); PREPARE TRANSACTION 'left behind'")
	must(err)
	var data string
	must(conn.QueryRow(ctx, "SHOW data_directory").Scan(&data))
	must(conn.Close(ctx))
	doctor, err := storage.NewDoctor(server.URL("postgres"))
	must(err)
	l, err := doctor.LongTransactions(ctx, 0)
	must(err)
	if l.Count != 1 || l.Who != "prepared transaction 'left behind' of fenceline" {
		t.Errorf("%+v", l)
	}
	s, err := doctor.Server(ctx)
	must(err)
	if !s.Fsync || !s.FullPageWrites || s.Standby {
		t.Errorf("%+v", s)
	}

	must(server.Stop(ctx))
	must(os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644))
	standby, err := server.Restart(ctx)
	must(err)
	defer func() { must(stopSoon(standby)) }()
	doctor, err = storage.NewDoctor(standby.URL("postgres"))
	must(err)
	s, err = doctor.Server(ctx)
	must(err)
	if !s.Standby {
		t.Errorf("%+v", s)
	}
	if m, err := doctor.Migrations(ctx); err != nil || m.Newest == 0 { // a standby can be asked
		t.Errorf("%+v, %v", m, err)
	}
}

func stopSoon(s *localpg.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.Stop(ctx)
}

func TestDoctorFindsSessionsAndMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if shared, err := w.doctor().Sessions(w.ctx); err != nil || shared != "" {
		t.Errorf("%q, %v", shared, err)
	}
	if heard, err := w.doctor().Hears(w.ctx, 30*time.Second); err != nil || !heard {
		t.Errorf("%t, %v", heard, err)
	}
	if took, err := w.doctor().Latency(w.ctx); err != nil || took <= 0 {
		t.Errorf("%s, %v", took, err)
	}
	hourAgo := func() time.Time { return time.Now().Add(-time.Hour) }
	if ahead, within, err := w.doctor().Clock(w.ctx, hourAgo); err != nil || (ahead-time.Hour).Abs() > time.Second+within {
		t.Errorf("%s ± %s, %v", ahead, within, err)
	}
}

func TestDoctorOpensSnapshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.doctor().Snapshots(w.ctx)) // there is no export to look at
	w.published("sales")
	w.must(w.doctor().Snapshots(w.ctx))
	w.exec("ALTER TABLE fenceline.exports RENAME COLUMN issued_token TO given_token")
	if err := w.doctor().Snapshots(w.ctx); err == nil {
		t.Error("a snapshot that cannot be opened passes")
	}
}

func TestDoctorCountsConnectionsAndTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, err := w.doctor().Connections(w.ctx)
	w.must(err)
	if c.Max < 250 || c.Max >= 300 { // storagetest sets 300, some are reserved
		t.Errorf("%+v", c)
	}
	w.alter("CONNECTION LIMIT 7")
	if c, err = w.doctor().Connections(w.ctx); err != nil || c.Max != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	if l, err := w.doctor().LongTransactions(w.ctx, 0); err != nil || l.Count != 1 || l.Oldest <= 0 || !strings.Contains(l.Who, " of fenceline") {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := w.doctor().LongTransactions(w.ctx, time.Hour); err != nil || l.Count != 0 || l.Who != "" {
		t.Errorf("%+v, %v", l, err)
	}
}

// A role that may read our tables but not other people's sessions is told that it sees only a part.
func TestDoctorWithFewRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	role := fmt.Sprintf("reader_%d", time.Now().UnixNano())
	w.exec("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, w.url)
		w.must(err)
		_, err = conn.Exec(ctx, "DROP ROLE "+role)
		w.must(errors.Join(err, conn.Close(ctx)))
	})
	d, err := storage.NewDoctor(fmt.Sprintf("%s&options=-crole%%3D%s", w.url, role))
	w.must(err)
	if _, err := d.Sequence(w.ctx); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("the sequence: %v", err)
	}
	if s, err := d.Server(w.ctx); err != nil || s.User != role {
		t.Errorf("%+v, %v", s, err)
	}
	if l, err := d.LongTransactions(w.ctx, 0); err != nil || l.Hidden == 0 {
		t.Errorf("%+v, %v", l, err)
	}
}

// What answers nothing holds nobody up.
func TestDoctorDoesNotHang(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := storage.NewDoctor("postgres://u:secret@" + l.Addr().String() + "/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := d.Server(ctx); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(d.Address(), "secret") || !strings.HasSuffix(d.Address(), "database d") {
		t.Errorf("address %q", d.Address())
	}
	if d, err = storage.NewDoctor("postgres:///d?default_query_exec_mode=exec&host=/run/pg"); err != nil || d.Address() != "/run/pg, database d" {
		t.Errorf("%q, %v", d.Address(), err)
	}
}

func TestDoctorComparesMigrations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, err := w.doctor().Migrations(w.ctx)
	w.must(err)
	files, err := fs.Glob(migrations.Files, "*.sql")
	w.must(err)
	newest, _, _ := strings.Cut(files[len(files)-1], "_")
	if fmt.Sprintf("%05d", m.Newest) != newest || len(m.Pending)+len(m.Unknown) != 0 {
		t.Errorf("%+v", m)
	}
	w.exec("DELETE FROM fenceline.schema_migrations WHERE version_id = 6")
	w.exec("INSERT INTO fenceline.schema_migrations (version_id, is_applied) VALUES (12345, true)")
	m, err = w.doctor().Migrations(w.ctx)
	w.must(err)
	if !slices.Equal(m.Pending, []string{"00006_fences.sql"}) || !slices.Equal(m.Unknown, []int64{12345}) {
		t.Errorf("%+v", m)
	}
	w.exec("DROP SCHEMA fenceline CASCADE")
	if _, err := w.doctor().Migrations(w.ctx); !errors.Is(err, storage.ErrNoSchema) {
		t.Errorf("got %v", err)
	}
	var there bool
	w.must(w.query("SELECT to_regnamespace('fenceline') IS NOT NULL").Scan(&there))
	if there {
		t.Error("looking has made the schema")
	}
}

func TestDoctorLooksAtTheSequence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, b := w.published("sales")
	look := func() storage.SequenceFacts {
		t.Helper()
		s, err := w.doctor().Sequence(w.ctx)
		w.must(err)
		return s
	}
	if s := look(); s.Cache != 1 || s.Increment != 1 || s.Cycle || s.Position != b.Token || s.Issued != b.Token || s.Attempt != b.Token || s.Left < 1e18 {
		t.Errorf("%+v", s)
	}
	f, err := w.store.Fence(w.ctx, "acme", "account:1", "")
	w.must(err)
	w.must(f.Write(w.ctx, func(storage.Tx) error { return nil }))
	if s := look(); s.Fence != f.Token()+1 || s.Position != s.Fence || s.Issued != b.Token {
		t.Errorf("%+v", s)
	}
	w.exec("SELECT setval('fenceline.fence_tokens', 1, false)") // the next is 1
	if s := look(); s.Position != 0 {
		t.Errorf("%+v", s)
	}
	w.exec("ALTER SEQUENCE fenceline.fence_tokens CACHE 20 CYCLE MAXVALUE 100 INCREMENT 2")
	if s := look(); s.Cache != 20 || !s.Cycle || s.Left != 99 || s.Increment != 2 {
		t.Errorf("%+v", s)
	}
}

// names asks the catalog for everything of a kind, under the names of the faults.
func (w *world) names(query string) []string {
	w.t.Helper()
	rows, err := w.conn().Query(w.ctx, query)
	w.must(err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	w.must(err)
	if len(names) < 5 {
		w.t.Fatalf("the catalog knows only %q", names)
	}
	slices.Sort(names)
	return names
}

func faults(t *testing.T, found []storage.Fault, err error) (texts []string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		texts = append(texts, f.String())
	}
	slices.Sort(texts)
	return texts
}

// each runs a statement for every row of a query, as psql's \gexec.
func (w *world) each(query string) {
	w.t.Helper()
	for _, statement := range w.names(query) {
		w.exec(statement)
	}
}

// Whatever the migrations make is compared: everything that the catalog holds is
// taken away under its name, and missed.
func TestDoctorMissesWhateverIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.doctor()
	const ours = " JOIN pg_namespace n ON n.nspname = 'fenceline' AND n.oid = "
	for _, kind := range []struct {
		name, from, called string // called is the fault's name
		rename             string // a statement
		ask                func(context.Context) ([]storage.Fault, error)
	}{
		{"triggers", "pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid" + ours + "c.relnamespace WHERE NOT tgisinternal",
			"'trigger ' || tgname || ' on ' || relname", "format('ALTER TRIGGER %I ON fenceline.%I RENAME TO x_%s', tgname, relname, tgname)", d.Triggers},
		{"functions", "pg_proc p" + ours + "p.pronamespace WHERE true",
			"'function ' || proname", "format('ALTER FUNCTION %s RENAME TO x_%s', p.oid::regprocedure, proname)", d.Functions},
		{"indexes", "pg_index i JOIN pg_class c ON c.oid = i.indexrelid" + ours + "c.relnamespace WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = c.oid AND k.conrelid = i.indrelid) AND relname NOT LIKE 'schema_migrations%'",
			"'index ' || relname", "format('ALTER INDEX fenceline.%I RENAME TO x_%s', relname, relname)", d.Indexes},
		{"keys", "pg_constraint k JOIN pg_class c ON c.oid = k.conrelid" + ours + "c.relnamespace WHERE contype IN ('p', 'u', 'f', 'x') AND relname IN ('exports', 'attempts', 'jobs', 'files', 'invoices', 'invoice_series', 'fences')",
			"'constraint ' || relname || '.' || conname", "format('ALTER TABLE fenceline.%I RENAME CONSTRAINT %I TO x_%s', relname, conname, conname)", d.Constraints},
	} {
		found, err := kind.ask(w.ctx)
		if texts := faults(t, found, err); len(texts) > 0 {
			t.Errorf("%s: before anything was changed: %q", kind.name, texts)
		}
		want := w.names("SELECT " + kind.called + " || ' is missing' FROM " + kind.from)
		w.each("SELECT " + kind.rename + " FROM " + kind.from)
		found, err = kind.ask(w.ctx)
		if texts := faults(t, found, err); !slices.Equal(texts, want) {
			t.Errorf("%s: missed\n%s\nwant\n%s", kind.name, strings.Join(texts, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestDoctorSeesWhatWasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for _, c := range []struct {
		statements string
		fault      string
		guards     bool
	}{
		{"ALTER TABLE fenceline.exports DISABLE TRIGGER guard", "trigger guard on exports is disabled", true},
		{"ALTER TABLE fenceline.exports ENABLE REPLICA TRIGGER guard_new", "trigger guard_new on exports is disabled", true},
		{"ALTER TABLE fenceline.jobs DISABLE TRIGGER tell", "trigger tell on jobs is disabled", false},
		{"DROP TRIGGER wait_for_hold ON fenceline.jobs", "trigger wait_for_hold on jobs is missing", false},
		{"DROP FUNCTION fenceline.take_rate", "function take_rate is missing", false},
		{"DROP TRIGGER guard_delete ON fenceline.attempts", "trigger guard_delete on attempts is missing", true},
		{"CREATE OR REPLACE TRIGGER guard BEFORE INSERT ON fenceline.files FOR EACH ROW EXECUTE FUNCTION fenceline.guard_file()",
			"trigger guard on files is not as migrated", true},
		{"ALTER TABLE fenceline.outbox DISABLE TRIGGER ALL", "foreign key outbox_job_id_fkey on outbox is not enforced: its triggers are disabled", true},
		{"SELECT 1", "foreign key deliveries_outbox_id_fkey on outbox is not enforced: its triggers are disabled", true},
		{"SELECT 1", "trigger tell on outbox is disabled", false},
		{"SELECT 1", "foreign key outbox_export_id_fkey on outbox is not enforced: its triggers are disabled", true},
		{"SELECT 1", "foreign key outbox_attempt_id_fkey on outbox is not enforced: its triggers are disabled", true},
		{"CREATE OR REPLACE FUNCTION fenceline.guard_export() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
			"function guard_export is not as migrated", true},
		{"CREATE FUNCTION fenceline.cancel_job(text) RETURNS text LANGUAGE sql AS 'SELECT $1'", "function cancel_job is not as migrated", true},
		{"DROP INDEX fenceline.attempts_one_published", "index attempts_one_published is missing", true},
		{"DROP INDEX fenceline.jobs_to_ring", "index jobs_to_ring is missing", false},
		{"DROP INDEX fenceline.outbox_once;; CREATE INDEX outbox_once ON fenceline.outbox (attempt_id)", "index outbox_once is not unique", true},
		{"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'fenceline.attempts_token_key'::regclass", "index attempts_token_key is not valid", true},
		{"ALTER TABLE fenceline.exports DROP CONSTRAINT exports_check", "constraint exports.exports_check is missing", true},
		{"ALTER TABLE fenceline.exports DROP CONSTRAINT exports_pointer;; ALTER TABLE fenceline.exports ADD CONSTRAINT exports_pointer FOREIGN KEY (id, attempt_id, last_token) REFERENCES fenceline.attempts (export_id, id, token) NOT VALID",
			"constraint exports.exports_pointer is not validated: rows that were there before may break it", true},
	} {
		for statement := range strings.SplitSeq(c.statements, ";; ") {
			w.exec(statement)
		}
		want = append(want, fmt.Sprintf("%s, a guard: %t", c.fault, c.guards))
	}
	var got []string
	d := w.doctor()
	for _, ask := range []func(context.Context) ([]storage.Fault, error){d.Triggers, d.Functions, d.Indexes, d.Constraints} {
		found, err := ask(w.ctx)
		w.must(err)
		for _, f := range found {
			got = append(got, fmt.Sprintf("%s, a guard: %t", f, f.Guards))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	names, err := d.Unlogged(w.ctx)
	if err != nil || len(names) > 0 {
		t.Errorf("%q, %v", names, err)
	}
	w.exec("ALTER TABLE fenceline.sweeps SET UNLOGGED")
	names, err = d.Unlogged(w.ctx)
	if err != nil || !slices.Contains(names, "sweeps") {
		t.Errorf("%q, %v", names, err)
	}
}
