package storage_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceline/fenceline/storage"
)

// bank is a world with an application's own table beside ours.
func bank(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.exec("CREATE SCHEMA bank")
	w.exec("CREATE TABLE bank.accounts (id text PRIMARY KEY, balance bigint NOT NULL)")
	w.exec("INSERT INTO bank.accounts VALUES ('1', 500), ('2', 500)")
	return w
}

func (w *world) fence() storage.Fence {
	w.t.Helper()
	f, err := w.store.Fence(w.ctx, "acme", "account:1", w.t.Name())
	w.must(err)
	return f
}

func (w *world) balance() (n int64) {
	w.t.Helper()
	w.must(w.query("SELECT balance FROM bank.accounts WHERE id = '1'").Scan(&n))
	return n
}

func (w *world) balanceIs(want int64) {
	w.t.Helper()
	if got := w.balance(); got != want {
		w.t.Errorf("the balance is %d, want %d", got, want)
	}
}

// set is a write of the balance of account 1.
func set(balance int64) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		return tx.Exec("UPDATE bank.accounts SET balance = ? WHERE id = '1'", balance).Error
	}
}

func add(n int64) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		return tx.Exec("UPDATE bank.accounts SET balance = balance + ? WHERE id = '1'", n).Error
	}
}

// refusedBy fails unless a fence has refused, for this reason and token.
func refusedBy(t *testing.T, err error, reason string, by int64) {
	t.Helper()
	var fenced *storage.FencedError
	if !errors.As(err, &fenced) || !errors.Is(err, storage.ErrFenced) {
		t.Fatalf("got %v, want to be fenced", err)
	}
	if fenced.Reason != reason || fenced.By != by || fenced.Resource != "account:1" {
		t.Errorf("fenced for %+v, want %s by %d", *fenced, reason, by)
	}
}

func is(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Writer A reads 500 and is paused. B takes 60. A goes on with what it knows.
func TestABalanceSurvivesAPausedWriter(t *testing.T) {
	t.Parallel()
	w := bank(t)
	take := func(n int64) func(int64) int64 { return func(balance int64) int64 { return balance - n } }
	err := changeBalance(w.ctx, w.store, "1", func(balance int64) int64 {
		w.must(changeBalance(w.ctx, w.store, "1", take(60))) // while A is paused
		w.balanceIs(440)
		return balance - 50
	})
	is(t, "the paused writer", err, storage.ErrFenced)
	w.balanceIs(440)
	w.must(changeBalance(w.ctx, w.store, "1", take(50)))
	w.balanceIs(390)

	// The same without a fence: PostgreSQL reports success, and 60 are back.
	w.must(w.store.Transaction(w.ctx, set(500)))
	old := w.balance()
	w.must(w.store.Transaction(w.ctx, set(w.balance()-60)))
	w.must(w.store.Transaction(w.ctx, set(old-50)))
	w.balanceIs(450)
}

func TestFenceRefusesTheStale(t *testing.T) {
	t.Parallel()
	w := bank(t)
	old, newer, newest := w.fence(), w.fence(), w.fence()
	if old.Token() >= newer.Token() || newer.Token() >= newest.Token() {
		t.Fatalf("tokens %d, %d, %d", old.Token(), newer.Token(), newest.Token())
	}
	w.must(newer.Write(w.ctx, set(2)))
	refusedBy(t, old.Write(w.ctx, set(1)), "newer_token", newer.Token())
	refusedBy(t, old.NewestWins().Write(w.ctx, set(1)), "newer_token", newer.Token())
	// newest has read before newer wrote, for all we know.
	refusedBy(t, newest.Write(w.ctx, set(3)), "written_since", newer.Token())
	refusedBy(t, newest.Step(w.ctx, 1, set(3)), "written_since", newer.Token())
	w.balanceIs(2)
	w.must(newest.NewestWins().Write(w.ctx, set(3)))
	w.balanceIs(3)
	refusedBy(t, newer.Write(w.ctx, set(2)), "newer_token", newest.Token())
	w.must(w.fence().Write(w.ctx, set(4)))
	w.balanceIs(4)
}

func TestFenceOneWritePerToken(t *testing.T) {
	t.Parallel()
	w := bank(t)
	f := w.fence()
	if last, err := f.Written(w.ctx); err != nil || last != (storage.Written{}) {
		t.Errorf("before any write: %+v, %v", last, err)
	}
	errNo := errors.New("no")
	is(t, "a write that fails", f.Write(w.ctx, func(tx storage.Tx) error { return errors.Join(add(-60)(tx), errNo) }), errNo)
	w.balanceIs(500)
	w.must(f.Write(w.ctx, add(-60)))
	is(t, "a second write", f.Write(w.ctx, add(-60)), storage.ErrWrittenBefore)
	is(t, "an operation after the one write", f.Step(w.ctx, 1, add(-60)), storage.ErrOutOfOrder)
	w.balanceIs(440)
	last, err := f.Written(w.ctx)
	if err != nil || last.Token != f.Token() || last.Op != 0 || time.Since(last.At).Abs() > time.Hour {
		t.Errorf("%+v, %v", last, err)
	}
}

func TestFenceOperationsInOrder(t *testing.T) {
	t.Parallel()
	w := bank(t)
	f := w.fence()
	is(t, "the second first", f.Step(w.ctx, 2, add(1)), storage.ErrOutOfOrder)
	is(t, "the operation 0", f.Step(w.ctx, 0, add(1)), storage.ErrOutOfOrder)
	is(t, "a negative operation", w.store.Transaction(w.ctx, func(tx storage.Tx) error { return f.StepIn(w.ctx, tx, -1, add(1)) }), storage.ErrOutOfOrder)
	w.must(f.Step(w.ctx, 1, add(1)))
	newer := w.fence() // drawn in the middle: the sequence goes on until it writes
	w.must(f.Step(w.ctx, 2, add(10)))
	is(t, "a gap", f.Step(w.ctx, 4, add(1000)), storage.ErrOutOfOrder)
	for op := range int64(2) { // sent again from the beginning
		is(t, "again", f.Step(w.ctx, op+1, add(1000)), storage.ErrWrittenBefore)
	}
	w.must(f.Step(w.ctx, 3, add(100)))
	is(t, "the one write after operations", f.Write(w.ctx, add(1000)), storage.ErrOutOfOrder)
	refusedBy(t, newer.Step(w.ctx, 1, add(1000)), "written_since", f.Token())
	w.balanceIs(611)
	next := w.fence()
	w.must(next.Step(w.ctx, 1, add(-600)))
	refusedBy(t, f.Step(w.ctx, 4, add(1000)), "newer_token", next.Token())
	refusedBy(t, f.Step(w.ctx, 3, add(1000)), "newer_token", next.Token())
	if last, err := f.Written(w.ctx); err != nil || last.Token != next.Token() || last.Op != 1 {
		t.Errorf("%+v, %v", last, err)
	}
	w.balanceIs(11)
}

// Work that has a name is done once, by whom ever and however often.
func TestFenceOnce(t *testing.T) {
	t.Parallel()
	w := bank(t)
	var wg sync.WaitGroup
	var done atomic.Int32
	for range 8 {
		wg.Go(func() {
			f, err := w.store.Fence(w.ctx, "acme", "booking:1", "")
			if err == nil {
				err = f.NewestWins().Once(w.ctx, add(-60))
			}
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, storage.ErrWrittenBefore) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.balanceIs(440)
	f, err := w.store.Fence(w.ctx, "acme", "booking:1", "")
	w.must(err)
	is(t, "later", f.Once(w.ctx, add(-60)), storage.ErrWrittenBefore)
	if w.balanceIs(440); done.Load() != 1 {
		t.Errorf("%d have done it", done.Load())
	}
}

// A newer writer waits for one that has passed the check, and reads what it wrote.
func TestFenceHoldsUntilTheCommit(t *testing.T) {
	t.Parallel()
	w := bank(t)
	first, second := w.fence(), w.fence()
	inside, goOn := make(chan struct{}), make(chan struct{})
	wrote, refusal := make(chan error, 1), make(chan error, 1)
	go func() {
		wrote <- first.Write(w.ctx, func(tx storage.Tx) error {
			close(inside)
			<-goOn
			return add(-60)(tx)
		})
	}()
	<-inside
	go func() { refusal <- second.Write(w.ctx, set(0)) }()
	drawn := make(chan storage.Fence, 1)
	go func() {
		f, err := w.store.Fence(w.ctx, "acme", "account:1", "")
		if err != nil {
			t.Error(err)
		}
		drawn <- f
	}()
	w.until("both wait", "SELECT count(*) = 2 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%fenceline.fence_%'")
	close(goOn)
	w.must(<-wrote)
	refusedBy(t, <-refusal, "written_since", first.Token())
	f := <-drawn
	w.balanceIs(440)
	w.must(f.Write(w.ctx, add(-40)))
	w.balanceIs(400)
}

// A transaction that was open all along is no way around.
func TestFenceInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	w := bank(t)
	old := w.fence()
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		var balance int64
		w.must(tx.Raw("SELECT balance FROM bank.accounts WHERE id = '1'").Scan(&balance).Error)
		w.must(w.fence().Write(w.ctx, set(440)))
		err := old.WriteIn(w.ctx, tx, set(balance-50))
		refusedBy(t, err, "newer_token", old.Token()+1)
		if tx.Exec("UPDATE bank.accounts SET balance = 0").Error == nil {
			t.Error("a refused transaction writes on")
		}
		return nil // swallowed
	})
	if err == nil {
		t.Error("a refused transaction was committed")
	}
	w.balanceIs(440)

	f, errNo := w.fence(), errors.New("no")
	rolledBack := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		w.must(f.StepIn(w.ctx, tx, 1, add(1)))
		w.must(f.StepIn(w.ctx, tx, 2, add(1))) // one transaction may hold several
		return errNo
	})
	is(t, "rolled back", rolledBack, errNo)
	w.balanceIs(440)
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error { return f.WriteIn(w.ctx, tx, add(1)) })) // no trace was left
	w.balanceIs(441)
}

// What holds the row lock no longer than a statement is no transaction.
func TestFenceNeedsATransaction(t *testing.T) {
	t.Parallel()
	w := bank(t)
	f := w.fence()
	var kept storage.Tx
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error { kept = tx; return nil }))
	if err := f.WriteIn(w.ctx, kept, set(0)); err == nil {
		t.Error("a transaction that has ended was accepted")
	}
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		for _, call := range []string{"fence_token('acme', 'account:1')", "fence_write('acme', 'account:1', 1)"} {
			err := pgx.BeginTxFunc(w.ctx, w.conn(), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)}, func(tx pgx.Tx) error {
				_, err := tx.Exec(w.ctx, "SELECT fenceline."+call)
				return err
			})
			w.code(level+" "+call, err, "FL003")
		}
	}
	is(t, "a fence that was not drawn", storage.Fence{}.Write(w.ctx, set(0)), storage.ErrOutOfOrder)
	_, err := storage.Fence{}.Written(w.ctx)
	is(t, "a fence that was not drawn", err, storage.ErrOutOfOrder)
	w.balanceIs(500)
}

func (w *world) code(what string, err error, want string) {
	w.t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != want {
		w.t.Errorf("%s: got %v, want it refused with %s", what, err, want)
	}
}

// The functions as another language calls them.
func TestFenceInPlainSQL(t *testing.T) {
	t.Parallel()
	w := bank(t)
	var one, two int64
	w.must(w.query("SELECT fenceline.fence_token('acme', 'account:1')").Scan(&one))
	w.must(w.query("SELECT fenceline.fence_token('acme', 'account:1', 'a cron job')").Scan(&two))
	w.exec("SELECT fenceline.fence_write('acme', 'account:1', $1)", two)
	err := w.tryExec("SELECT fenceline.fence_write('acme', 'account:1', $1)", one)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "FL010" || pg.Detail != fmt.Sprintf(`{"reason" : "newer_token", "by" : %d}`, two) {
		t.Errorf("got %v, %+v", err, pg)
	}
	w.code("again", w.tryExec("SELECT fenceline.fence_write('acme', 'account:1', $1)", two), "FL011")
	for _, call := range []string{
		"'acme', 'account:1', 1000000", "'acme', 'account:1', NULL", "'acme', NULL, 1", "NULL, 'account:1', 1",
		"'acme', 'account:1', 1, -1", "'acme', 'account:1', 1, NULL", "'acme', 'account:1', 1, 0, NULL",
	} {
		w.code(call, w.tryExec("SELECT fenceline.fence_write("+call+")"), "FL012")
	}
	w.code("another resource", w.tryExec("SELECT fenceline.fence_write('acme', 'account:2', 1)"), "FL010")
	// A token that was rolled back was never given out. Nor is one whose commit waits for nothing, so it waits.
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	var lost int64
	var commit string
	_, err = tx.Exec(w.ctx, "SET LOCAL synchronous_commit = off")
	w.must(err)
	w.must(tx.QueryRow(w.ctx, "SELECT fenceline.fence_token('acme', 'account:1')").Scan(&lost))
	w.must(tx.QueryRow(w.ctx, "SHOW synchronous_commit").Scan(&commit))
	if commit != "on" {
		t.Errorf("the commit of a token is %s", commit)
	}
	w.must(tx.Rollback(w.ctx))
	w.code("a token that was rolled back", w.tryExec("SELECT fenceline.fence_write('acme', 'account:1', $1)", lost), "FL012")
}

func TestFencesOfTenantsAreApart(t *testing.T) {
	t.Parallel()
	w := bank(t)
	ours := w.fence()
	theirs, err := w.store.Fence(w.ctx, "globex", "account:1", "x")
	w.must(err)
	w.must(theirs.Write(w.ctx, func(storage.Tx) error { return nil }))
	w.must(ours.Write(w.ctx, set(1)))
	if _, err := w.store.FenceState(w.ctx, storage.Scope{Tenant: "acme"}, "globex", "account:1"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant sees it: %v", err)
	}
	s, err := w.store.FenceState(w.ctx, everything, "globex", "account:1")
	if err != nil || s.IssuedToken != theirs.Token() || s.LastToken != theirs.Token() || s.Holder != "x" || s.WrittenAt == nil {
		t.Errorf("%+v, %v", s, err)
	}
	if page, err := w.store.Fences(w.ctx, storage.Scope{}, storage.FenceFilter{}); err != nil || len(page.Items) != 0 {
		t.Errorf("nobody sees %v, %v", page, err)
	}
}

func TestFenceRefusesNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ field, tenant, resource, holder string }{
		{"tenant", "", "r", ""}, {"tenant", strings.Repeat("x", 64), "r", ""}, {"tenant", "a\x00", "r", ""},
		{"resource", "a", "", ""}, {"resource", "a", strings.Repeat("x", 501), ""}, {"resource", "a", "r\x00", ""}, {"resource", "a", "r\xff", ""},
		{"resource", "a", "r\n", ""}, {"resource", "a", "r\u009b", ""},
		{"holder", "a", "r", strings.Repeat("x", 201)}, {"holder", "a", "r", "\x1b[2J"},
	} {
		_, err := w.store.Fence(w.ctx, c.tenant, c.resource, c.holder)
		var bad *storage.NameError
		if !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	longest, err := w.store.Fence(w.ctx, strings.Repeat("x", 63), strings.Repeat("é", 250), strings.Repeat("h", 200))
	w.must(err)
	w.must(longest.Write(w.ctx, func(storage.Tx) error { return nil }))
	for _, sql := range []string{"('', 'r')", "('a', '')", "('a', repeat('x', 501))", "('a', 'r', repeat('x', 201))"} {
		w.code(sql, w.tryExec("SELECT fenceline.fence_token"+sql), "23514")
	}
}

// The database is the last guard, whatever the functions do.
func TestTheDatabaseGuardsFences(t *testing.T) {
	t.Parallel()
	w := bank(t)
	f := w.fence() // 1, 2, 3
	w.must(f.Step(w.ctx, 1, add(1)))
	w.must(f.Step(w.ctx, 2, add(1)))
	w.fence()
	const guard, behind, check = "FL001", "FL002", "23514"
	for _, c := range []struct{ set, code string }{
		{"last_token = 0, last_op = 0", guard},
		{"last_op = 1", guard}, {"last_op = 3", guard}, {"last_op = 4, last_write = 100", guard}, {"last_op = 0, last_write = 100", guard},
		{"last_token = issued_token, last_op = 2, last_write = 100", guard},
		{"last_token = issued_token, last_op = 0", guard}, {"last_write = 100", guard}, {"last_write = 1", behind},
		{"last_token = issued_token, last_op = 1, last_write = 4", behind},
		{"last_token = 50, last_op = 0, last_write = 100", check}, {"last_token = issued_token, last_op = -1, last_write = 100", check},
		{"issued_token = 2", behind}, {"issued_token = 3", behind}, {"written_at = NULL", check},
		{"tenant = 'x'", guard}, {"resource = 'x'", guard}, {"first_token = 2", guard},
	} {
		w.code(c.set, w.tryExec("UPDATE fenceline.fences SET "+c.set), c.code)
	}
	for _, sql := range []string{
		"(tenant, resource, issued_token) VALUES ('a', 'b', 7)", "(tenant, resource, first_token) VALUES ('a', 'b', 7)", "(tenant, resource, last_token) VALUES ('a', 'b', 7)",
	} {
		w.code(sql, w.tryExec("INSERT INTO fenceline.fences "+sql), guard)
	}
}

// A sequence that a restore set back gives no old tokens out, nor lets a write pass for older than it is.
func TestFencesAfterASequenceWasSetBack(t *testing.T) {
	t.Parallel()
	w := bank(t)
	w.published("sales")
	for range 3 {
		w.must(w.fence().Write(w.ctx, add(1)))
	}
	held := w.fence()
	w.exec("SELECT setval('fenceline.fence_tokens', 1)")
	is(t, "a write", held.Write(w.ctx, add(1)), storage.ErrSequenceBehind)
	_, err := w.store.Fence(w.ctx, "acme", "account:1", "")
	is(t, "a token", err, storage.ErrSequenceBehind)
	_, repair, found := strings.Cut(err.Error(), "run: ")
	if !found {
		t.Fatalf("the error does not say what to run: %v", err)
	}
	w.exec(repair)
	w.must(held.Write(w.ctx, add(1)))
	w.must(w.fence().Write(w.ctx, add(1)))
	w.balanceIs(505)
}

// Rows that are deleted open no way for what was drawn before.
func TestForgottenFencesRefuse(t *testing.T) {
	t.Parallel()
	w := bank(t)
	held, writer := w.fence(), w.fence()
	w.must(writer.Write(w.ctx, set(440)))
	if n, err := w.store.ForgetFences(w.ctx, everything, time.Hour); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := w.store.ForgetFences(w.ctx, storage.Scope{Tenant: "globex"}, -time.Hour); n != 0 || err != nil {
		t.Errorf("of another tenant: %d, %v", n, err)
	}
	w.exec("INSERT INTO fenceline.fences (tenant, resource) SELECT 'acme', 'order:' || n FROM generate_series(1, 2100) n")
	if n, err := w.store.ForgetFences(w.ctx, everything, -time.Hour); n != 2101 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	refusedBy(t, held.Write(w.ctx, set(1)), "forgotten", 0)
	_, err := held.Written(w.ctx)
	is(t, "what was written", err, storage.ErrNotFound)
	f := w.fence()
	for _, stale := range []storage.Fence{held, writer} {
		refusedBy(t, stale.Write(w.ctx, set(1)), "forgotten", f.Token())
		refusedBy(t, stale.NewestWins().Step(w.ctx, 1, set(1)), "forgotten", f.Token())
	}
	w.must(f.Write(w.ctx, add(-40)))
	w.balanceIs(400)
}

func TestFencesAreListedByPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tenant := range []string{"globex", "acme"} {
		for _, resource := range []string{"order_2", "order_10", "orderX", "ärger"} {
			_, err := w.store.Fence(w.ctx, tenant, resource, "h")
			w.must(err)
		}
	}
	list := func(scope storage.Scope, f storage.FenceFilter) (got []string) {
		t.Helper()
		for {
			page, err := w.store.Fences(w.ctx, scope, f)
			w.must(err)
			for _, x := range page.Items {
				got = append(got, x.Tenant+" "+x.Resource)
			}
			if f.After = page.Next; page.Next == "" {
				return got
			}
		}
	}
	acme := []string{"acme orderX", "acme order_10", "acme order_2", "acme ärger"}
	want := append(acme[:4:4], "globex orderX", "globex order_10", "globex order_2", "globex ärger")
	if got := list(everything, storage.FenceFilter{Limit: 3}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("all: %q", got)
	}
	if got := list(storage.Scope{Tenant: "acme"}, storage.FenceFilter{Limit: 1, Prefix: "order_"}); fmt.Sprint(got) != fmt.Sprint(acme[1:3]) {
		t.Errorf("with a prefix: %q", got)
	}
	for _, after := range []string{"x", "W10", "WyJhIl0", "WyJhIiwiIl0"} {
		_, err := w.store.Fences(w.ctx, everything, storage.FenceFilter{After: after})
		is(t, after, err, storage.ErrCursor)
	}
}

// far is a store of the same database behind something that loses answers.
func (w *world) far(word string) (*storage.Store, *cutter) {
	w.t.Helper()
	u, err := url.Parse(w.url)
	w.must(err)
	proxy := newCutter(w.t, u.Host, word)
	u.Host = proxy.listener.Addr().String()
	return openStore(w.t, pooled(u.String())), proxy
}

func (w *world) farFence(store *storage.Store) storage.Fence {
	w.t.Helper()
	f, err := store.Fence(w.ctx, "acme", "account:1", "far")
	w.must(err)
	return f
}

// The answer to a COMMIT is lost: what became of it is asked, not guessed.
func TestFenceAfterALostReply(t *testing.T) {
	t.Parallel()
	w := bank(t)
	far, proxy := w.far("commit\x00")
	f := w.farFence(far)
	proxy.armed.Store(1)
	w.must(f.Write(w.ctx, add(-60)))
	if proxy.armed.Load() > 0 {
		t.Fatal("no reply was lost: the test shows nothing")
	}
	w.balanceIs(440)
	is(t, "sent again", f.Write(w.ctx, add(-60)), storage.ErrWrittenBefore)

	// The connection is gone before the COMMIT arrives: rolled back, and it may be sent again.
	f = w.farFence(far)
	op := func(tx storage.Tx) error {
		var pid int
		if err := tx.Raw("SELECT pg_backend_pid()").Scan(&pid).Error; err != nil {
			return err
		}
		w.exec("SELECT pg_terminate_backend($1)", pid)
		w.until("the session has ended", fmt.Sprintf("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %d)", pid))
		return nil
	}
	err := f.Step(w.ctx, 1, op)
	if err == nil || errors.Is(err, storage.ErrUnknownOutcome) || !strings.Contains(err.Error(), "rolled back") {
		t.Errorf("got %v", err)
	}
	w.must(f.Step(w.ctx, 1, add(-40)))
	w.balanceIs(400)

	// The context ends before the COMMIT: it is known that nothing was written.
	ctx, cancel := context.WithCancel(w.ctx)
	err = f.Step(ctx, 2, func(tx storage.Tx) error {
		defer cancel()
		return add(-100)(tx)
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrUnknownOutcome) {
		t.Errorf("got %v", err)
	}
	w.must(f.Step(w.ctx, 2, add(-100)))
	w.balanceIs(300)
}

// Nobody can tell any more: a newer token has written over it.
func TestFenceUnknownOutcome(t *testing.T) {
	t.Parallel()
	w := bank(t)
	far, proxy := w.far("commit\x00")
	for err := error(nil); err == nil; { // who asks before the newer one has its turn is told: that is right, too
		f, newer := w.farFence(far), w.fence()
		wrote := make(chan error, 1)
		err = f.Write(w.ctx, func(tx storage.Tx) error {
			go func() { wrote <- newer.NewestWins().Write(w.ctx, set(7)) }()
			w.until("the newer one waits", "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%fence_write%')")
			proxy.armed.Store(1)
			return set(1)(tx)
		})
		w.must(<-wrote)
		if err != nil {
			is(t, "a newer token has written", err, storage.ErrUnknownOutcome)
		}
		w.balanceIs(7)
	}

	// Nobody answers any more.
	f := w.farFence(far)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	err := f.Write(ctx, func(tx storage.Tx) error {
		proxy.armed.Store(1)
		w.must(proxy.listener.Close())
		time.AfterFunc(300*time.Millisecond, cancel)
		return set(8)(tx)
	})
	is(t, "nobody answers", err, storage.ErrUnknownOutcome)
	w.balanceIs(8)
}

// Without prepared statements, as behind a pooler that hands out connections by transaction.
func TestFencesWorkBehindAPooler(t *testing.T) {
	t.Parallel()
	w := bank(t)
	w.store = openStore(t, pooled(w.url))
	f := w.fence()
	w.must(f.Step(w.ctx, 1, add(-60)))
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error { return f.StepIn(w.ctx, tx, 2, add(-40)) }))
	last, err := f.Written(w.ctx)
	if err != nil || last.Op != 2 {
		t.Errorf("%+v, %v", last, err)
	}
	page, err := w.store.Fences(w.ctx, storage.Scope{Tenant: "acme"}, storage.FenceFilter{Prefix: "account:"})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	_, err = w.store.FenceState(w.ctx, everything, "acme", "account:1")
	w.must(err)
	n, err := w.store.ForgetFences(w.ctx, everything, -time.Hour)
	if err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	w.balanceIs(400)
}
