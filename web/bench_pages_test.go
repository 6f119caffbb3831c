package web

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// tables are those that grow with use.
const tables = "'jobs', 'attempts', 'exports', 'files', 'audit', 'job_errors'"

// rowsRead is how many rows of one of them a page may read: a count may stop at
// [storage.CountCap] for several things, but no page may read what exists.
const rowsRead = 2 * storage.CountCap

// usage is what PostgreSQL says was read of the tables: by their name, scans from end to end and rows, by an index or by such a scan.
type usage map[string][2]int64

func (w *world) usage() usage {
	w.t.Helper()
	u := usage{}
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		var rows []struct {
			Name        string
			Scans, Rows int64
		}
		err := tx.Raw(`SELECT relname AS name, seq_scan AS scans, seq_tup_read + coalesce(idx_tup_fetch, 0) + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes i WHERE i.relid = t.relid)::bigint AS rows
			FROM pg_stat_user_tables t WHERE schemaname = 'fenceline' AND relname IN (` + tables + `)`).Scan(&rows).Error
		for _, r := range rows {
			u[r.Name] = [2]int64{r.Scans, r.Rows}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// lookAt sends requests through a server with connections of its own, which are closed after it: then
// PostgreSQL has counted all that they read.
func (w *world) lookAt(conf Config, address, path string, who creds) (status int, statements []string) {
	w.t.Helper()
	var mu sync.Mutex
	store := must(storage.Open(w.ctx, address, storage.Options{MaxConns: 4, Watch: func(_ context.Context, sql string) func(error) {
		mu.Lock()
		defer mu.Unlock()
		statements = append(statements, sql)
		return nil
	}}))(w.t)
	conf.Store = store
	answer := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(w.ctx, "GET", path, nil)
	if who != nobody {
		r.Header.Set(who.name, who.value)
	}
	New(conf).Handler().ServeHTTP(answer, r)
	store.Close()
	eventually(w.t, "the connections of the request are gone", func() bool {
		var n int64
		err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
			return tx.Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'looks'").Row().Scan(&n)
		})
		return err == nil && n == 0
	})
	return answer.Code, statements
}

// No page and no list reads a table from end to end, or more rows than a page may.
func TestPagesReadLittle(t *testing.T) {
	t.Parallel()
	var conf Config
	w := newWorld(t, func(c *Config) { conf = *c })
	w.bigWorld(30_000)
	person, token := w.person("Nadia", ""), w.token("")
	// The tables are small enough here to be read whole in good faith; a scan is taken only where no index serves.
	address := w.addressWith("enable_seqscan", "off")
	found := w.sampled(t)
	for _, route := range slices.Sorted(maps.Keys(found)) {
		who := person
		if route == "/metrics" {
			who = token
		}
		for _, path := range found[route] {
			wrong := ""
			// Twice, because what other connections have read may be counted late: what a page reads, it reads each time.
			for look := range 2 {
				if wrong = w.excess(conf, address, path, who, 0, rowsRead); wrong == "" {
					break
				} else if look == 1 {
					t.Errorf("GET %s %s", path, wrong)
				}
			}
		}
	}
}

// addressWith is the database's address for requests that are looked at, with a setting of PostgreSQL.
func (w *world) addressWith(setting, value string) string {
	u := must(url.Parse(w.address))(w.t)
	q := u.Query()
	q.Set("application_name", "looks")
	q.Set(setting, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// excess says what one request reads that is too much, empty when nothing is. So many scans from end to end may be
// made of each table: of one that is small, PostgreSQL makes them in good faith.
func (w *world) excess(conf Config, address, path string, who creds, mayScan, mayRead int64) string {
	w.t.Helper()
	before := w.usage()
	status, statements := w.lookAt(conf, address, path, who)
	if status >= 400 {
		return fmt.Sprintf("answered %d", status)
	}
	for name, after := range w.usage() {
		scans, rows := after[0]-before[name][0], after[1]-before[name][1]
		if scans > mayScan || rows > mayRead {
			return fmt.Sprintf("reads %s from end to end %d times and %d rows of it, in:\n%s", name, scans, rows, strings.Join(statements, "\n"))
		}
	}
	return ""
}
