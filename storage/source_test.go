package storage_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceline/fenceline/storage"
)

// gate stands before a server and calls before ahead of its nth connection.
func gate(t *testing.T, target string, nth int, before func()) string {
	t.Helper()
	conf, err := pgx.ParseConfig(target)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(conf.Host, conf.Port)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 1; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if n == nth {
				before()
			}
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
		}
	}()
	u := url.URL{Scheme: "postgres", User: url.UserPassword(conf.User, conf.Password), Host: l.Addr().String(), Path: "/" + conf.Database, RawQuery: "sslmode=disable"}
	return u.String()
}

func (w *world) source(url string) *storage.Source {
	w.t.Helper()
	src, err := storage.OpenSource(url)
	w.must(err)
	return src
}

func firstValue(t *testing.T, sn *storage.Snapshot, sql string) string {
	t.Helper()
	rows, err := sn.Query(t.Context(), sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !rows.Next() {
		t.Fatal("no row", rows.Err())
	}
	v := string(rows.Values()[0])
	for rows.Next() {
	}
	if n, ok := rows.Count(); !ok || n != 1 || rows.Err() != nil {
		t.Errorf("%s: %d rows, %t, %v", sql, n, ok, rows.Err())
	}
	return v
}

// The same database read through another role is seen as it was when the token
// was checked, even if the role's connection took its time.
func TestASourceInTheSameDatabaseSharesTheView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("CREATE TABLE t (n int)")
	job := w.insert(newJob("sales"))
	attempt := w.begin(job)
	// The first connection asks which database it is, the second reads.
	late := gate(t, w.url, 2, func() { w.exec("INSERT INTO t VALUES (1)") })
	sn, err := w.store.SnapshotOf(w.ctx, job.ExportID, attempt.Token, storage.ReadOptions{Source: w.source(late)})
	w.must(err)
	defer sn.Close()
	if n := firstValue(t, sn, "SELECT count(*) FROM t"); n != "0" {
		t.Errorf("the view of the source holds %s rows that came after the token was checked", n)
	}
	newer := w.begin(w.insert(newJob("sales")))
	_, err = w.store.SnapshotOf(w.ctx, job.ExportID, attempt.Token, storage.ReadOptions{Source: w.source(w.url)})
	fencedFor(t, err, "newer_token", newer.Token)
}

// Another database is read as it is after the check; the data is not older than
// the time that is recorded, which is that of our own database.
func TestASourceElsewhere(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	other.exec("CREATE TABLE t (n int)")
	job := w.insert(newJob("sales"))
	attempt := w.begin(job)
	late := gate(t, other.url, 2, func() { other.exec("INSERT INTO t VALUES (1)") })
	var before, after time.Time
	w.must(w.query("SELECT clock_timestamp()").Scan(&before))
	sn, err := w.store.SnapshotOf(w.ctx, job.ExportID, attempt.Token, storage.ReadOptions{Source: w.source(late)})
	w.must(err)
	defer sn.Close()
	w.must(w.query("SELECT clock_timestamp()").Scan(&after))
	if n := firstValue(t, sn, "SELECT count(*) FROM t"); n != "1" {
		t.Errorf("%s rows", n)
	}
	if sn.AsOf().Before(before) || sn.AsOf().After(after) {
		t.Errorf("data as of %s, read between %s and %s", sn.AsOf(), before, after)
	}
	rows, err := sn.Query(w.ctx, "INSERT INTO t VALUES (2) RETURNING n", nil)
	if err == nil {
		for rows.Next() {
		}
		err = rows.Err()
	}
	if err == nil {
		t.Error("a source can be written to")
	}
}

func TestSnapshotsHaveAZoneAndATimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.insert(newJob("sales"))
	attempt := w.begin(job)
	sn, err := w.store.SnapshotOf(w.ctx, job.ExportID, attempt.Token, storage.ReadOptions{Zone: "Asia/Bangkok", Timeout: 50 * time.Millisecond})
	w.must(err)
	defer sn.Close()
	if v := firstValue(t, sn, "SELECT date_trunc('day', timestamptz '2026-03-01 20:00+00')"); v != "2026-03-02 00:00:00+07" {
		t.Errorf("the day begins at %s", v)
	}
	rows, err := sn.Query(w.ctx, "SELECT pg_sleep(60)", nil)
	if err == nil {
		for rows.Next() {
		}
		err = rows.Err()
	}
	var refused *storage.QueryError
	if !errors.As(err, &refused) || refused.Code != "57014" {
		t.Errorf("a statement may take longer than its timeout: %v", err)
	}
	_, err = w.store.SnapshotOf(w.ctx, job.ExportID, attempt.Token, storage.ReadOptions{Zone: "Mars/O'lympus"})
	if err == nil || !strings.Contains(err.Error(), "Mars/O'lympus") {
		t.Errorf("an unknown zone: %v", err)
	}
}

func TestColumnsOfAResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("CREATE TYPE mood AS ENUM ('sad', 'happy')")
	w.exec("CREATE DOMAIN price AS numeric(12,2)")
	w.exec("CREATE DOMAIN tag AS text")
	columns, err := w.source(w.url).Describe(w.ctx, `SELECT 1::int8 AS id, 1::price AS price, 1::numeric AS n, 1::numeric(5,-2) AS coarse, '{}'::int4[] AS ids,
		'{}'::tag[] AS tags, 'sad'::mood AS mood, '{}'::mood[] AS moods, '1 2'::int2vector AS v, '{}'::numeric(6,3)[] AS prices, $1::date AS day`, nil)
	w.must(err)
	var mood uint32
	w.must(w.query("SELECT 'mood'::regtype::oid").Scan(&mood))
	want := []storage.Column{
		{Name: "id", OID: 20, Type: "bigint"}, {Name: "price", OID: 1700, Type: "numeric(12,2)", Precision: 12, Scale: 2}, {Name: "n", OID: 1700, Type: "numeric"},
		{Name: "coarse", OID: 1700, Type: "numeric(5,-2)"}, {Name: "ids", Type: "integer[]", Elem: 23}, {Name: "tags", Type: "tag[]", Elem: 25},
		{Name: "mood", OID: mood, Type: "mood"}, {Name: "moods", Type: "mood[]", Elem: mood}, {Name: "v", OID: 22, Type: "int2vector"},
		{Name: "prices", Type: "numeric(6,3)[]", Elem: 1700}, {Name: "day", OID: 1082, Type: "date"},
	}
	if len(columns) != len(want) {
		t.Fatalf("%d columns", len(columns))
	}
	for i, c := range columns {
		if want[i].OID == 0 {
			c.OID = 0
		}
		if c != want[i] {
			t.Errorf("%+v, not %+v", c, want[i])
		}
	}
}

func TestDescribeSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("CREATE TABLE public.secret (n int)")
	w.exec("CREATE ROLE " + readerRole(w) + " LOGIN PASSWORD 'reader'")
	w.exec("GRANT USAGE ON SCHEMA public TO " + readerRole(w))
	u, err := url.Parse(w.url)
	w.must(err)
	u.User = url.UserPassword(readerRole(w), "reader")
	owner, reader := w.source(w.url), w.source(u.String())
	for _, c := range []struct {
		name, query, code string
		position          int
		src               *storage.Source
	}{
		{"a column that is not there", "SELECT n, m FROM secret", "42703", 11, owner},
		{"a syntax error", "SELECT n FROM secret WHERE", "42601", 27, owner},
		{"types that do not fit", "SELECT n + true FROM secret", "42883", 10, owner},
		{"no right to read", "SELECT n FROM public.secret", "42501", 0, reader},
		{"no columns", "SELECT FROM secret", "", 0, owner},
	} {
		_, err := c.src.Describe(w.ctx, c.query, nil)
		var refused *storage.QueryError
		if !errors.As(err, &refused) || refused.Code != c.code || refused.Position != c.position {
			t.Errorf("%s: %+v", c.name, err)
		}
	}
	if table, err := owner.Writable(w.ctx); err != nil || table == "" {
		t.Errorf("the owner may write nothing? %v", err)
	}
	if table, err := reader.Writable(w.ctx); err != nil || table != "" {
		t.Errorf("the reader may write %s, %v", table, err)
	}
	if _, err := w.source("postgres://nobody@127.0.0.1:1/none").Describe(w.ctx, "SELECT 1", nil); err == nil || errors.As(err, new(*storage.QueryError)) {
		t.Errorf("a server that is not there: %v", err)
	}
}

// readerRole is a role of this test's database: roles belong to the whole server.
func readerRole(w *world) (name string) {
	w.must(w.query("SELECT 'reader_' || oid FROM pg_database WHERE datname = current_database()").Scan(&name))
	return name
}

// Looking up the types of the columns is a statement of ours that counts against the limit of theirs: the error says
// that the limit was met, and points at no place in a statement that is not theirs.
func TestALimitThatIsMetWhileTypesAreLookedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sn, err := w.source(w.url).View(w.ctx, storage.ReadOptions{Timeout: 300 * time.Millisecond})
	w.must(err)
	defer sn.Close()
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	defer func() { _ = tx.Rollback(w.ctx) }()
	_, err = tx.Exec(w.ctx, "SET LOCAL lock_timeout = '10s'; LOCK TABLE pg_catalog.pg_type")
	w.must(err)
	// It is what the view itself has asked, so the session needs the catalog for our look only.
	_, err = sn.Query(w.ctx, "SELECT transaction_timestamp()", nil)
	var refused *storage.QueryError
	if !errors.As(err, &refused) || refused.Code != "57014" || refused.Position != 0 || !strings.Contains(err.Error(), "look up the types") {
		t.Errorf("it says %v (%+v), want a limit that was met while types were looked up", err, refused)
	}
}
