package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// SweepItem is one thing that a clean-up does, with its reason.
type SweepItem struct {
	Action  string       `json:"action"` // condemn, delete, probe (look again at what was deleted), or expire (delete the export, softly)
	Reason  string       `json:"reason"` // silent, lost, replaced, outlived, probe, export-deleted or expired
	Attempt uuid.UUID    `json:"attempt"`
	Export  uuid.UUID    `json:"export"`
	Tenant  string       `json:"tenant"`
	Token   int64        `json:"token"`
	State   AttemptState `json:"state"`
	Bytes   int64        `json:"bytes"`
	Since   time.Time    `json:"since"` // of the last heartbeat, the verdict, or the replacement
	Why     string       `json:"why"`

	key   uuid.UUID // with Since, where the plan goes on
	stays bool      // something keeps it after all
	rule  *RetentionRule
}

// SweepTotals are the sums over a plan.
type SweepTotals struct {
	Items  int64 `json:"items"`
	Delete int64 `json:"delete"` // attempts that lose their files
	Bytes  int64 `json:"bytes"`  // of these
	// Limited says that the limit was reached and more waits for the next run.
	Limited bool `json:"limited"`
	// Behind says that the database takes no writes, so that what a run brings up to date before it begins is not told:
	// changes of rules, pins and holds since the last run, and what newer publications push out.
	Behind  bool          `json:"behind,omitempty"`
	Reasons []ReasonTotal `json:"reasons"` // only those of which there is something
}

// ReasonTotal is the part of the totals that has one reason.
type ReasonTotal struct {
	Action string    `json:"action"`
	Reason string    `json:"reason"`
	Items  int64     `json:"items"`
	Bytes  int64     `json:"bytes"`
	Oldest time.Time `json:"oldest"` // since when the oldest is garbage
	Why    string    `json:"why"`
}

func (t *SweepTotals) add(it SweepItem) {
	t.Items++
	if it.Action == "delete" {
		t.Delete++
		t.Bytes += it.Bytes
	}
	n := len(t.Reasons) - 1
	if n < 0 || t.Reasons[n].Action != it.Action || t.Reasons[n].Reason != it.Reason {
		t.Reasons = append(t.Reasons, ReasonTotal{Action: it.Action, Reason: it.Reason, Oldest: it.Since, Why: it.Why})
		n++
	}
	t.Reasons[n].Items++
	t.Reasons[n].Bytes += it.Bytes
}

// planner walks through the garbage that is due, a page at a time by keyset. It is
// what the plan and the run have in common.
type planner struct {
	sw    *Sweep
	rest  []reason
	left  int       // of the limit
	until time.Time // what became garbage before it is due, of the reason at hand; zero before its first page
	since time.Time // where the reason at hand goes on
	key   uuid.UUID
	more  bool // the limit was reached with something left
	// keep is told what stays after all, so that nobody looks at it again too soon; nil when it cannot be written down.
	keep func(context.Context, reason, []SweepItem) error
}

// newPlanner begins at the beginning. ahead says that nobody acts on it, so that
// what acting would make due has to be told beforehand.
func (sw *Sweep) newPlanner(ahead bool) *planner {
	p := &planner{sw: sw, left: sw.opt.Limit, rest: reasons()}
	if come, ok := toCome(sw.opt); ok && ahead {
		p.rest = append(p.rest[:2:2], append([]reason{come}, p.rest[2:]...)...)
	}
	return p
}

// next is the next page, all of one reason; nil at the end. full says that the
// page had all that was asked for, so that more may follow at once.
func (p *planner) next(ctx context.Context, most int) (items []SweepItem, full bool, err error) {
	for len(p.rest) > 0 {
		r := p.rest[0]
		if p.until.IsZero() {
			if p.until, err = p.sw.dueBefore(ctx, r); err != nil {
				return nil, false, err
			}
		}
		want := min(most, p.left)
		seen, err := p.sw.page(ctx, r, p.until, p.since, p.key, max(want, 1))
		if err != nil {
			return nil, false, err
		}
		items, err := p.going(ctx, r, seen)
		if err != nil {
			return nil, false, err
		}
		if len(items) > 0 && want <= 0 {
			p.more, p.rest = true, nil
			return nil, false, nil
		}
		if len(seen) < want || len(seen) == 0 {
			p.rest, p.until, p.since, p.key = p.rest[1:], time.Time{}, time.Time{}, uuid.Nil
		} else {
			p.since, p.key = seen[len(seen)-1].Since, seen[len(seen)-1].key
		}
		if len(items) > 0 {
			p.left -= len(items)
			return items, len(seen) == most, nil
		}
	}
	return nil, false, nil
}

// going are those of the items that nothing keeps.
func (p *planner) going(ctx context.Context, r reason, seen []SweepItem) ([]SweepItem, error) {
	var items, stay []SweepItem
	for _, it := range seen {
		if it.stays {
			stay = append(stay, it)
		} else {
			items = append(items, it)
		}
	}
	if len(stay) == 0 || p.keep == nil {
		return items, nil
	}
	return items, p.keep(ctx, r, stay)
}

// dueBefore is the time before which something must have become garbage to be due
// now, by the database's clock. What becomes garbage while a run goes through one
// reason waits for the next run, or that run would never end.
func (sw *Sweep) dueBefore(ctx context.Context, r reason) (time.Time, error) {
	var now time.Time
	if err := sw.store.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("plan the clean-up: %w", err)
	}
	return now.Add(-max(r.age(sw.opt), 0)), nil
}

// page reads what is garbage for a reason, since before until and after the place
// that since and key name.
func (sw *Sweep) page(ctx context.Context, r reason, until, since time.Time, key uuid.UUID, limit int) ([]SweepItem, error) {
	sql, args := "SELECT a.id, a.export_id, coalesce(a.tenant, '') AS tenant, a.token, a.state, "+r.bytes+" AS bytes, "+r.since+" AS since, "+r.key+" AS key FROM "+r.filter("<", sw.opt.Tenant), []any{until}
	if sw.opt.Tenant != "" {
		args = append(args, sw.opt.Tenant)
	}
	n := len(args)
	sql += fmt.Sprintf(" AND (%s, %s) > ($%d::timestamptz, $%d::uuid) ORDER BY %s, %s LIMIT $%d", r.since, r.key, n+1, n+2, r.since, r.key, n+3)
	sql = fmt.Sprintf("SELECT p.*, %s, r.tenant, r.kind, r.current_days, r.superseded_days, r.superseded_keep FROM (%s) p "+
		"LEFT JOIN LATERAL fenceline.kept(p.id, $%d) k ON %t LEFT JOIN fenceline.retention r ON r.id = k.rule ORDER BY p.since, p.key", r.staysSQL(), sql, n+4, r.keepable())
	rows, err := sw.store.pool.Query(ctx, sql, append(args, since, key, limit, sw.opt.Superseded.Seconds())...)
	if err != nil {
		return nil, fmt.Errorf("plan the clean-up: %w", err)
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (SweepItem, error) {
		it := SweepItem{Action: r.action, Reason: r.name}
		var rule RetentionRule
		var keep *int
		err := row.Scan(&it.Attempt, &it.Export, &it.Tenant, &it.Token, &it.State, &it.Bytes, &it.Since, &it.key, &it.stays,
			&rule.Tenant, &rule.Kind, &rule.CurrentDays, &rule.SupersededDays, &keep)
		if keep != nil {
			rule.SupersededKeep, it.rule = *keep, &rule
		}
		it.Why = r.why(sw.opt, it)
		return it, err
	})
	if err != nil {
		return nil, fmt.Errorf("plan the clean-up: %w", err)
	}
	return items, nil
}

// planPage is how much of a plan is read at once.
const planPage = 500

// Plan tells what [Sweep.Run] would do now, in its order and by the same code: each
// item goes to fn, whose error ends it. It decides nothing, but as a run it first
// brings up to date when to look at what; where the database takes no writes it says
// so ([SweepTotals].Behind). A limit of time cannot be told beforehand.
func (sw *Sweep) Plan(ctx context.Context, fn func(SweepItem) error) (SweepTotals, error) {
	t := SweepTotals{Reasons: []ReasonTotal{}}
	p := sw.newPlanner(true)
	p.keep = sw.pushOut
	err := sw.store.ApplyRetention(ctx)
	if takesNoWrites(err) {
		t.Behind, p.keep, err = true, nil, nil
	}
	if err != nil {
		return t, err
	}
	for {
		items, _, err := p.next(ctx, planPage)
		if err != nil || len(items) == 0 {
			t.Limited = p.more
			return t, err
		}
		for _, it := range items {
			t.add(it)
			if err := fn(it); err != nil {
				return t, err
			}
		}
	}
}

// Waiting is what of one reason is garbage: due, and not yet due.
type Waiting struct {
	Reason string `json:"reason"`
	Action string `json:"action"`
	// Due and its bytes are counted up to [CountCap]+1 items, as is Later.
	Due   int64 `json:"due"`
	Bytes int64 `json:"bytes"`
	// Oldest is since when the oldest that is due is garbage; zero when there is none.
	Oldest time.Time `json:"oldest,omitzero"`
	// Later is garbage too, but not yet due; of attempts at work, which may never be, nothing is told.
	Later      int64 `json:"later"`
	LaterBytes int64 `json:"later_bytes"`
	// Next is when the first of these becomes due; zero when there is none.
	Next time.Time `json:"next,omitzero"`
}

// Waiting looks what waits, for every reason. Its cost is bounded, whatever waits.
func (sw *Sweep) Waiting(ctx context.Context) ([]Waiting, error) {
	var list []Waiting
	for _, r := range reasons() {
		until, err := sw.dueBefore(ctx, r)
		if err != nil {
			return nil, err
		}
		w := Waiting{Reason: r.name, Action: r.action}
		if w.Due, w.Bytes, w.Oldest, err = sw.count(ctx, r, "<", until); err != nil {
			return nil, err
		}
		if r.name != reasonSilent {
			if w.Later, w.LaterBytes, w.Next, err = sw.count(ctx, r, ">=", until); err != nil {
				return nil, err
			}
			if w.Later > 0 {
				w.Next = w.Next.Add(max(r.age(sw.opt), 0))
			}
		}
		list = append(list, w)
	}
	return list, nil
}

// count counts what is garbage since before a time, or later, up to the cap, and says since when the first is.
func (sw *Sweep) count(ctx context.Context, r reason, is string, until time.Time) (n, bytes int64, first time.Time, err error) {
	args := []any{until}
	if sw.opt.Tenant != "" {
		args = append(args, sw.opt.Tenant)
	}
	var since *time.Time
	sql := fmt.Sprintf("SELECT count(*), coalesce(sum(b), 0)::bigint, min(s) FROM (SELECT %s AS b, %s AS s FROM %s ORDER BY %s LIMIT %d) f",
		r.bytes, r.since, r.filter(is, sw.opt.Tenant), r.since, CountCap+1)
	if err := sw.store.pool.QueryRow(ctx, sql, args...).Scan(&n, &bytes, &since); err != nil {
		return 0, 0, first, fmt.Errorf("count what waits for the clean-up: %w", err)
	}
	if since != nil {
		first = *since
	}
	return n, bytes, first, nil
}
