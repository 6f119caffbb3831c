package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// pooledSite is an empty database behind PgBouncer in transaction mode; direct
// is its address past that.
func pooledSite(t *testing.T) (p *patient, direct string) {
	t.Helper()
	p = &patient{newSite(t, redistest.Shared(t)), nil}
	direct = storagetest.Database(t, nil)
	p.env["DATABASE_URL"] = direct
	p.pool("transaction", "default_pool_size = 40", "max_client_conn = 500")
	return p, direct
}

// Everything runs through a pooler in transaction mode: migrations by several at
// once, web, workers, relays, clean-ups; nothing is prepared in sessions of others
// and no lock stays behind.
func TestEverythingBehindAPooler(t *testing.T) {
	t.Parallel()
	p, direct := pooledSite(t)
	var wg sync.WaitGroup
	answers := make([]result, 4)
	for i := range answers {
		wg.Go(func() { answers[i] = p.run("migrate", "--json") })
	}
	wg.Wait()
	ran := 0
	for _, r := range answers {
		var n struct{ Migrations int }
		if err := json.Unmarshal([]byte(r.out), &n); err != nil || r.code != 0 {
			t.Fatalf("exit %d, %v: %s%s", r.code, err, r.out, r.err)
		}
		ran += n.Migrations
	}
	if ran < 4 {
		t.Errorf("%d migrations were run", ran)
	}

	p.env["FENCELINE_ADDR"], p.env["SWEEP_EVERY"] = "127.0.0.1:0", "1s"
	p.report("numbers", "-- format: csv, xlsx, parquet\n-- param: rows integer default 100\n-- column: day date\n"+
		"SELECT i AS id, i::numeric(12,2) AS amount, 'text ' || i AS name, ARRAY[i, 2] AS list, current_date AS day FROM generate_series(1, :rows) AS i ORDER BY i\n")
	var processes []*process
	start := func(says string, args ...string) *process {
		pr := p.start(args...)
		processes = append(processes, pr)
		pr.says(says)
		return pr
	}
	web := start("serving", "serve")
	start("worker started", "work")
	start("worker started", "work")
	start("keeps no sessions", "schedule", "work")
	url := regexp.MustCompile(`http://[0-9.:]+`).FindString(web.says("serving"))

	var list []string
	for range 30 {
		list = append(list, asJSON[jobAnswer](p.site, "dispatch", "report", "numbers").Job.ID.String())
	}
	token := asJSON[struct{ Secret string }](p.site, "token", "create", "far")
	far := &site{t: t, dir: t.TempDir(), env: map[string]string{"FENCELINE_URL": url, "FENCELINE_TOKEN": token.Secret, "FENCELINE_DATA": t.TempDir()}}
	far.ok("dispatch", "report", "numbers", "--param", "rows=2000", "--wait", "-o", far.dir)
	p.must(os.WriteFile(filepath.Join(p.dir, "invoice.json"), []byte(p.ok("dispatch", "example-invoice")), 0o600))
	p.ok("dispatch", "invoice", filepath.Join(p.dir, "invoice.json"), "--files", "pdf,ubl", "--wait")
	p.ok("schedule", "put", "every", "numbers", "--cron", "* * * * *")
	p.ok("schedule", "list")
	for _, id := range list {
		until(t, "the job is done", func() bool { return asJSON[jobAnswer](p.site, "job", "show", id).Job.State == storage.JobDone })
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/exports", nil)
	p.must(err)
	req.Header.Set("Authorization", "Bearer "+token.Secret)
	resp, err := http.DefaultClient.Do(req)
	p.must(err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the API answers %s", resp.Status)
	}
	until(t, "a clean-up was made", func() bool { return len(p.sweepRuns()) > 0 })
	if r := p.run("sweep", "--sweep-quarantine", "0s", "--sweep-superseded", "0s"); r.code != 0 && r.code != exitBusy {
		t.Errorf("sweep: exit %d %s", r.code, r.err)
	}
	for _, args := range [][]string{{"verify"}, {"job", "list"}, {"export", "list"}, {"report", "check", "numbers"}, {"report", "preview", "numbers"}} {
		p.ok(args...)
	}
	for _, pr := range processes {
		p.must(pr.stop())
		for _, bad := range []string{"prepared statement", "42P05", "26000", "level=ERROR", "listening to PostgreSQL was cut off"} {
			if strings.Contains(pr.output.String(), bad) {
				t.Errorf("%s: %q in\n%s", pr.Args, bad, pr.output)
			}
		}
	}
	p.env["DATABASE_URL"] = direct // what is left in the server
	if left := p.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); left != 0 {
		t.Errorf("%d advisory locks were left behind", left)
	}
}

func (p *patient) sweepRuns() []storage.SweepRun {
	p.t.Helper()
	store, err := storage.Open(p.t.Context(), p.env["DATABASE_URL"], storage.Options{MaxConns: 1})
	p.must(err)
	defer store.Close()
	runs, err := store.SweepRuns(p.t.Context(), 1)
	p.must(err)
	return runs
}

// count answers a query, on a connection that is closed again.
func (p *patient) count(sql string) (n int64) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.env["DATABASE_URL"])
	p.must(err)
	defer conn.Close(p.t.Context())
	p.must(conn.QueryRow(p.t.Context(), sql).Scan(&n))
	return n
}

// Two clean-ups at once exclude each other behind a pooler as they do elsewhere,
// and a migration waits for another one.
func TestLocksHoldBehindAPooler(t *testing.T) {
	t.Parallel()
	p, direct := pooledSite(t)
	p.ok("migrate")
	p.env["FILES_DIR"] = p.markedFolder(p.dir)
	pooled := p.env["DATABASE_URL"]
	p.env["DATABASE_URL"] = direct
	tx, err := p.connect().Begin(t.Context())
	p.must(err)
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(x'46454e4300000002'::bigint)")
	p.must(err)
	p.env["DATABASE_URL"] = pooled
	for range 3 { // whatever session it gets
		if r := p.run("sweep"); r.code != exitBusy {
			t.Errorf("a second clean-up: exit %d, %s%s", r.code, r.out, r.err)
		}
	}
	p.must(tx.Rollback(t.Context()))
	for range 3 {
		p.ok("sweep")
	}
}

// With a way past the pooler messages arrive, and one that leads elsewhere is noticed.
func TestListeningPastAPooler(t *testing.T) {
	t.Parallel()
	p, direct := pooledSite(t)
	p.ok("migrate")
	listening := func() int64 {
		other := *p.site
		other.env = map[string]string{"DATABASE_URL": direct}
		q := &patient{&other, nil}
		return q.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	}
	pooled := p.start("work")
	pooled.says("keeps no sessions")
	pooled.says("worker started")
	p.env["DATABASE_DIRECT_URL"] = direct
	p.start("work").says("worker started")
	until(t, "one of the two listens", func() bool { return listening() == 1 })
	found := p.examine(nil, "postgres.pooler", "postgres.messages")
	for name, f := range found {
		if f.Grade != gradeOK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	p.env["DATABASE_DIRECT_URL"] = storagetest.Database(t, nil)
	p.start("work").says("DATABASE_DIRECT_URL does not lead to the database of DATABASE_URL")
	if f := p.examine(nil, "postgres.messages")["postgres.messages"]; f.Grade != gradeWarning {
		t.Errorf("%+v", f)
	}
}
