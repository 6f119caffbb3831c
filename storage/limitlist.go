package storage

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Limit is a limit of any type as it stands.
type Limit struct {
	Type   string `json:"type"`   // rate, hold or circuit
	Tenant string `json:"tenant"` // empty: of all tenants
	Key    string `json:"key"`
	// State is "free" or "busy" of a rate, "held" or "left" (its run is gone, the next takes
	// it) of a hold, "closed", "open", "half-open" or "probing" of a circuit.
	State    string     `json:"state"`
	Since    *time.Time `json:"since,omitempty"`    // a hold was taken, a circuit opened
	Until    *time.Time `json:"until,omitempty"`    // a rate's next free slot, the end of a circuit's cool-down
	Job      *uuid.UUID `json:"job,omitempty"`      // that has the hold, or probes
	Failures int        `json:"failures,omitempty"` // that a closed circuit remembers
	Waiting  int        `json:"waiting"`            // jobs, counted to LimitCountCap
}

// LimitCountCap is where counting of what waits stops: this many means this many or more.
const LimitCountCap = 1000

// LimitFilter selects limits. The zero value selects all that a scope sees.
type LimitFilter struct {
	Type  string // rate, hold or circuit
	After string // a [Page]'s Next
	Limit int    // 0 is 50; at most 200
}

// limitTypes are the types in the order of the list, each with the query of its page:
// after a tenant and key ($1, $2), of all tenants or one ($3, $4), so many ($5).
func limitTypes() [3]struct{ name, page string } {
	waiting := func(table, row, why string) string {
		return `, LATERAL (SELECT count(*)::int AS n FROM (SELECT FROM fenceline.` + table + ` w JOIN fenceline.jobs j ON j.id = w.job_id
			WHERE w.tenant = ` + row + `.tenant AND w.key = ` + row + `.key AND j.state = 'queued' AND j.waiting_for = '` + why + `' LIMIT ` + strconv.Itoa(LimitCountCap) + `) x) w
			WHERE (` + row + `.tenant, ` + row + `.key) > ($1, $2) AND ($3 OR ` + row + `.tenant = $4) ORDER BY ` + row + `.tenant, ` + row + `.key LIMIT $5`
	}
	return [3]struct{ name, page string }{
		{"circuit", `SELECT c.tenant, c.key, CASE WHEN c.open_until IS NULL THEN 'closed' WHEN c.open_until > clock_timestamp() THEN 'open'
				WHEN c.probe_job IS NOT NULL AND fenceline.run_is_live(c.probe_job, c.probe_generation, c.probe_run, c.probe_at) THEN 'probing'
				ELSE 'half-open' END, c.opened_at, c.open_until, c.probe_job, cardinality(c.failures), w.n
			FROM fenceline.limit_circuits c` + waiting("limit_waiters", "c", "circuit")},
		{"hold", `SELECT h.tenant, h.key, CASE WHEN fenceline.run_is_live(h.job_id, h.generation, h.run_id, h.taken_at) THEN 'held' ELSE 'left' END,
				h.taken_at, NULL::timestamptz, h.job_id, 0, w.n
			FROM fenceline.limit_holds h` + waiting("limit_waiters", "h", "overlap")},
		{"rate", `SELECT r.tenant, r.key, CASE WHEN s.at > clock_timestamp() THEN 'busy' ELSE 'free' END, NULL::timestamptz, s.at, NULL::uuid, 0, w.n
			FROM fenceline.limit_rates r, LATERAL (SELECT r.next_at - (r.burst - 1) * (r.every_us * interval '1 microsecond') AS at) s` +
			waiting("limit_slots", "r", "rate")},
	}
}

// Limits lists circuits, holds and rates, each by tenant and key. What is at rest
// is forgotten after a while, so a limit that is not listed is closed, or free.
func (s *Store) Limits(ctx context.Context, scope Scope, f LimitFilter) (Page[Limit], error) {
	page := Page[Limit]{Items: []Limit{}}
	after, err := parseLimitCursor(f.After)
	if err != nil {
		return page, err
	}
	limit := pageSize(f.Limit)
	for _, t := range limitTypes() {
		if f.Type != "" && f.Type != t.name || t.name < after.Type {
			continue
		}
		var from LimitKey
		if t.name == after.Type {
			from = LimitKey{after.Tenant, after.Key}
		}
		list, err := s.limitsOf(ctx, t.page, t.name, from, scope, limit+1-len(page.Items))
		if err != nil {
			return page, fmt.Errorf("list limits: %w", err)
		}
		if page.Items = append(page.Items, list...); len(page.Items) > limit {
			page.Items = page.Items[:limit]
			page.Next = limitCursor(page.Items[limit-1])
			break
		}
	}
	return page, nil
}

func (s *Store) limitsOf(ctx context.Context, sql, name string, after LimitKey, scope Scope, limit int) (list []Limit, err error) {
	rows, err := s.pool.Query(ctx, sql, after.Tenant, after.Key, scope.All, scope.Tenant, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		l := Limit{Type: name}
		if err := rows.Scan(&l.Tenant, &l.Key, &l.State, &l.Since, &l.Until, &l.Job, &l.Failures, &l.Waiting); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, rows.Err()
}

// Circuits lists the circuits that have failures to remember: see [Store.Limits].
func (s *Store) Circuits(ctx context.Context, scope Scope, f LimitFilter) (Page[Limit], error) {
	f.Type = "circuit"
	return s.Limits(ctx, scope, f)
}

func limitCursor(l Limit) string {
	return base64.RawURLEncoding.EncodeToString([]byte(l.Type + "\x00" + l.Tenant + "\x00" + l.Key))
}

// parseLimitCursor is type, tenant and key; nothing for an empty cursor.
func parseLimitCursor(text string) (Limit, error) {
	if text == "" {
		return Limit{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.Split(string(raw), "\x00")
	if err != nil || len(parts) != 3 {
		return Limit{}, ErrCursor
	}
	return Limit{Type: parts[0], Tenant: parts[1], Key: parts[2]}, nil
}

// limitPart is how many rows one statement removes or wakes: no long transaction.
const limitPart = 1000

// ResetLimit forgets what is known under a key: its rate starts afresh, its hold is
// free although a run may still have it, its circuit is closed. Jobs that wait for
// it become due, and their number is answered. [ErrNotFound] when nothing is known
// under the key, or nothing that the scope sees.
func (s *Store) ResetLimit(ctx context.Context, scope Scope, key LimitKey) (woken int64, err error) {
	missing := fmt.Errorf("limit %q of tenant %q: %w", key.Key, cmp.Or(key.Tenant, "*"), ErrNotFound)
	if !scope.All && !scope.Sees(key.Tenant) {
		return 0, missing
	}
	for known := false; ; known = true {
		var rows, n int64
		if err := s.pool.QueryRow(ctx, "SELECT rows, woken FROM fenceline.reset_limit($1, $2, $3)", key.Tenant, key.Key, limitPart).Scan(&rows, &n); err != nil {
			return woken, limitError("reset", key, err)
		}
		if !known && rows+n == 0 {
			return 0, missing
		}
		if woken += n; n < limitPart {
			return woken, nil
		}
	}
}

// PruneLimits removes rows of limits that say no more than their absence would,
// and answers how many. Any number may prune at once.
func (s *Store) PruneLimits(ctx context.Context) (total int64, err error) {
	for {
		var n int64
		if err := s.pool.QueryRow(ctx, "SELECT fenceline.prune_limits($1)", limitPart).Scan(&n); err != nil {
			return total, fmt.Errorf("prune limits: %w", err)
		}
		if total += n; n < limitPart {
			return total, nil
		}
	}
}
