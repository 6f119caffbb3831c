package main

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

type fenceAnswer struct{ Fence storage.FenceState }

func TestFenceCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.sql("SELECT fenceline.fence_token('acme', 'account:1', 'worker 7')", "SELECT fenceline.fence_write('acme', 'account:1', 1, 1)",
		"SELECT fenceline.fence_token('acme', 'account:2', E'\\x1b[2J')", "SELECT fenceline.fence_token('globex', 'account:1')")
	if out := s.ok("fence", "list"); strings.Count(out, "\n") != 4 || !strings.Contains(out, "token 1, operation 1") || !strings.Contains(out, "worker 7") || strings.Contains(out, "\x1b") {
		t.Error(out)
	}
	first := asJSON[storage.Page[storage.FenceState]](s, "fence", "list", "--tenant", "acme", "--prefix", "account:", "--limit", "1")
	second := asJSON[storage.Page[storage.FenceState]](s, "fence", "list", "--tenant", "acme", "--after", first.Next)
	if len(first.Items) != 1 || len(second.Items) != 1 || first.Items[0].Resource != "account:1" || second.Items[0].Resource != "account:2" || second.Next != "" {
		t.Errorf("%+v, %+v", first, second)
	}
	got := asJSON[fenceAnswer](s, "fence", "show", "account:1", "--tenant", "acme").Fence
	if got.IssuedToken != 1 || got.Holder != "worker 7" || got.LastToken != 1 || got.LastOp != 1 || got.WrittenAt == nil {
		t.Errorf("%+v", got)
	}
	if out := s.ok("fence", "show", "account:2", "--tenant", "acme"); strings.Contains(out, "\x1b") || !strings.Contains(out, "newest token") {
		t.Error(out)
	}
	s.sql("UPDATE fenceline.fences SET issued_at = issued_at - interval '2 hours' WHERE tenant = 'globex'")
	if out := s.ok("fence", "forget", "--unused", "1h", "--tenant", "acme", "--yes"); !strings.Contains(out, "forgot 0 fences") {
		t.Error(out)
	}
	if out := s.ok("fence", "forget", "--unused", "1h", "--yes"); !strings.Contains(out, "forgot 1 fence\n") {
		t.Error(out)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitNotFound, "account:3", []string{"fence", "show", "account:3", "--tenant", "acme"}},
		{exitNotFound, "tenant default", []string{"fence", "show", "account:1"}},
		{exitUsage, "resource", []string{"fence", "show", ""}},
		{exitUsage, "resource", []string{"fence", "show", "a\xff"}},
		{exitUsage, "tenant", []string{"fence", "list", "--tenant", strings.Repeat("x", 64)}},
		{exitUsage, "resource", []string{"fence", "list", "--tenant", "acme", "--prefix", "\xff"}},
		{exitUsage, "--tenant", []string{"fence", "list", "--prefix", "a"}},
		{exitUsage, "cursor", []string{"fence", "list", "--after", "x"}},
		{exitUsage, "--unused", []string{"fence", "forget", "--yes"}},
		{exitUsage, "--unused", []string{"fence", "forget", "--unused", "59m", "--yes"}},
		{exitUsage, "--yes", []string{"fence", "forget", "--unused", "720h"}},
		{exitUsage, "RESOURCE", []string{"fence", "show"}},
	} {
		if got := s.run(c.args...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%q: exit %d, %s", c.args, got.code, got.err)
		}
	}
}

// Behind a real PgBouncer that hands out a connection for each transaction.
func TestFencesBehindPgBouncer(t *testing.T) {
	t.Parallel()
	p := newPatient(t, redistest.Shared(t))
	p.exec("CREATE TABLE public.accounts (balance bigint)")
	p.exec("INSERT INTO public.accounts VALUES (0)")
	p.pool("transaction")
	store, err := storage.Open(t.Context(), p.env["DATABASE_URL"]+"&default_query_exec_mode=exec", storage.Options{})
	p.must(err)
	defer store.Close()
	var wg sync.WaitGroup
	const writers, writes = 4, 10
	for range writers {
		wg.Go(func() {
			for done := 0; done < writes; {
				f, err := store.Fence(t.Context(), "acme", "account:1", "")
				var balance int64
				if err == nil {
					err = store.Transaction(t.Context(), func(tx storage.Tx) error { return tx.Raw("SELECT balance FROM public.accounts").Scan(&balance).Error })
				}
				if err == nil {
					err = f.Write(t.Context(), func(tx storage.Tx) error {
						return tx.Exec("UPDATE public.accounts SET balance = ?", balance+1).Error
					})
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, storage.ErrFenced):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var balance int64
	p.must(p.connect().QueryRow(t.Context(), "SELECT balance FROM public.accounts", pgx.QueryExecModeExec).Scan(&balance))
	if balance != writers*writes {
		t.Errorf("%d of %d writes are there", balance, writers*writes)
	}
}

// What the README shows of fences is code that was compiled and SQL that runs.
func TestREADMEFences(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "## Fence your own tables")
	section, _, _ = strings.Cut(section, "\n## ")
	code := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(section)
	example, err := os.ReadFile("../../storage/example_fence_test.go")
	if err != nil || code == nil || !strings.Contains(string(example), code[1]) {
		t.Errorf("the Go of the README is not in storage/example_fence_test.go: %v", err)
	}
	script := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(section)
	if script == nil {
		t.Fatal("no SQL")
	}
	s := newSite(t, redistest.Shared(t))
	s.sql("CREATE SCHEMA bank", "CREATE TABLE bank.accounts (id text, balance bigint)", "INSERT INTO bank.accounts VALUES ('4711', 500)",
		"CREATE ROLE biller", "GRANT USAGE ON SCHEMA fenceline, bank TO PUBLIC", "GRANT USAGE ON SEQUENCE fenceline.fence_tokens TO PUBLIC",
		"GRANT SELECT, INSERT, UPDATE ON fenceline.fences TO PUBLIC", "GRANT SELECT, UPDATE ON bank.accounts TO PUBLIC")
	conn, err := pgx.Connect(t.Context(), s.env["DATABASE_URL"])
	s.must(err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "SET ROLE biller") // with the rights that the README names
	s.must(err)
	lines := strings.SplitN(script[1], "\n", 2)
	var token string
	s.must(conn.QueryRow(t.Context(), lines[0]).Scan(new(int64)))
	s.must(conn.QueryRow(t.Context(), "SELECT issued_token::text FROM fenceline.fences").Scan(&token))
	_, err = conn.PgConn().Exec(t.Context(), strings.ReplaceAll(lines[1], "17", token)).ReadAll()
	s.must(err)
	var balance, last int64
	s.must(conn.QueryRow(t.Context(), "SELECT balance, last_token FROM bank.accounts, fenceline.fences").Scan(&balance, &last))
	if balance != 440 || last == 0 {
		t.Errorf("balance %d, last token %d", balance, last)
	}
}
