package storage_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// gale is many writers of few accounts. Each takes a balance that it read long ago
// for the truth, so that a write which should have been refused shows.
type gale struct {
	*world
	mu       sync.Mutex
	accepted int
	refused  int
	faults   []string
}

// galeEnough is when a gale has shown what it is for.
const galeEnough = 150

// sheet is what a writer holds in its hands: a token, and what it read after it.
type sheet struct {
	fence   storage.Fence
	account string
	balance int64
	op      int64 // of the next step; 0 for the one write
}

var errUndone = errors.New("undone")

// blow runs the gale and answers what was wrong.
func blow(t *testing.T, w *world) []string {
	t.Helper()
	g := &gale{world: w}
	w.exec("CREATE TABLE bank.history (n bigserial PRIMARY KEY, account text, token bigint, op bigint, read bigint, wrote bigint)")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			var held []sheet // of writers that are paused
			for g.goesOn() {
				held = g.turn(held)
			}
		})
	}
	wg.Wait()
	t.Logf("%d accepted, %d refused", g.accepted, g.refused)
	return append(g.faults, g.audit()...)
}

func (g *gale) goesOn() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.faults) == 0 && (g.accepted < galeEnough || g.refused < galeEnough/3)
}

func (g *gale) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		g.accepted++
	case errors.Is(err, storage.ErrFenced):
		g.refused++
	case !errors.Is(err, errUndone):
		g.faults = append(g.faults, err.Error())
	}
}

// turn takes up a new sheet, or one that was laid aside, and lays it aside or writes.
func (g *gale) turn(held []sheet) []sheet {
	if len(held) < 3 && rand.IntN(2) == 0 {
		s, err := g.takeUp()
		if err != nil {
			g.note(err)
			return held
		}
		return append(held, s)
	}
	if len(held) == 0 {
		return held
	}
	i := rand.IntN(len(held))
	err := g.write(held[i])
	g.note(err)
	switch {
	case errors.Is(err, errUndone): // it left no trace, and may come again
	case err == nil && held[i].op > 0 && held[i].op < 4:
		held[i].op++
		held[i].balance++
	default:
		held = append(held[:i], held[i+1:]...)
	}
	return held
}

func (g *gale) takeUp() (s sheet, err error) {
	s = sheet{account: fmt.Sprint(1 + rand.IntN(2)), op: rand.Int64N(2)}
	if s.fence, err = g.store.Fence(g.ctx, "acme", "account:"+s.account, "gale"); err != nil {
		return s, err
	}
	return s, g.query("SELECT balance FROM bank.accounts WHERE id = $1", s.account).Scan(&s.balance)
}

// write adds 1 to what the sheet says.
func (g *gale) write(s sheet) error {
	do := func(tx storage.Tx) error {
		err := errors.Join(
			tx.Exec("UPDATE bank.accounts SET balance = ? WHERE id = ?", s.balance+1, s.account).Error,
			tx.Exec("INSERT INTO bank.history (account, token, op, read, wrote) VALUES (?, ?, ?, ?, ?)", s.account, s.fence.Token(), s.op, s.balance, s.balance+1).Error)
		if err == nil && rand.IntN(8) == 0 {
			err = errUndone
		}
		return err
	}
	if s.op > 0 {
		return s.fence.Step(g.ctx, s.op, do)
	}
	return s.fence.Write(g.ctx, do)
}

// audit reads the history in the order of its commits: an account's fence is held while a line is numbered.
func (g *gale) audit() (faults []string) {
	rows, err := g.conn().Query(g.ctx, "SELECT account, token, op, read, wrote FROM bank.history ORDER BY n")
	g.must(err)
	defer rows.Close()
	balance, last := map[string]int64{"1": 500, "2": 500}, map[string][2]int64{}
	lines := 0
	for ; rows.Next(); lines++ {
		var account string
		var token, op, read, wrote int64
		g.must(rows.Scan(&account, &token, &op, &read, &wrote))
		if before := last[account]; token < before[0] || token == before[0] && op <= before[1] {
			faults = append(faults, fmt.Sprintf("(%d, %d) has written after %v", token, op, before))
		}
		if read != balance[account] {
			faults = append(faults, fmt.Sprintf("token %d has read %d and replaced %d: an update is lost", token, read, balance[account]))
		}
		balance[account], last[account] = wrote, [2]int64{token, op}
	}
	g.must(rows.Err())
	if lines != g.accepted {
		faults = append(faults, fmt.Sprintf("%d writes were accepted, %d are there", g.accepted, lines))
	}
	for account, want := range balance {
		var got int64
		g.must(g.query("SELECT balance FROM bank.accounts WHERE id = $1", account).Scan(&got))
		if got != want {
			faults = append(faults, fmt.Sprintf("account %s holds %d, want %d", account, got, want))
		}
	}
	return faults
}

// Every write that was accepted was made of what the one before it wrote.
func TestFenceStorm(t *testing.T) {
	t.Parallel()
	for _, fault := range blow(t, bank(t)) {
		t.Error(fault)
	}
}

// The same gale shows what is missing when a check is taken out of fence_write.
func TestFenceStormCatchesMutants(t *testing.T) {
	t.Parallel()
	const noGuard = "CREATE OR REPLACE TRIGGER guard BEFORE INSERT ON fenceline.fences FOR EACH ROW EXECUTE FUNCTION fenceline.guard_fence()"
	for _, m := range []struct{ name, old, new, sql, says string }{
		{"an older token writes on", "f.last_token > p_token", "false", "", "would fall from|comes too early"},
		{"an older token writes on, and no guard", "f.last_token > p_token", "false", noGuard, "has written after|comes too early"},
		{"what was read may be old", "f.last_write > p_token", "false", "", "an update is lost"},
		{"the row is not locked", "FOR NO KEY UPDATE", "", "", "would fall from|an update is lost"},
		{"the row is not locked, and no guard", "FOR NO KEY UPDATE", "", noGuard, "an update is lost"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			w := bank(t)
			var source string
			w.must(w.query("SELECT pg_get_functiondef('fenceline.fence_write'::regproc)").Scan(&source))
			if strings.Count(source, m.old) != 1 {
				t.Fatalf("fence_write holds %q %d times", m.old, strings.Count(source, m.old))
			}
			w.exec(strings.Replace(source, m.old, m.new, 1))
			if m.sql != "" {
				w.exec(m.sql)
			}
			faults := strings.Join(blow(t, w), "\n")
			if !regexp.MustCompile(m.says).MatchString(faults) {
				t.Errorf("want a fault that says %q, got %q", m.says, faults)
			}
		})
	}
}
