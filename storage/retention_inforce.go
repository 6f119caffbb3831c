package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CountExports is how many exports there are of a tenant, or of one kind of it, deleted ones left out, counted up to [CountCap]+1.
func (s *Store) CountExports(ctx context.Context, tenant string, kind *string) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM fenceline.exports e
		WHERE e.tenant = $1 AND ($2::text IS NULL OR e.kind = $2) AND e.deleted_at IS NULL LIMIT $3) e`, tenant, kind, CountCap+1).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the exports of %s: %w", tenant, err)
	}
	return n, nil
}

// RuleInForce is the rule that counts for a tenant's kind.
type RuleInForce struct {
	Tenant string         `json:"tenant"`
	Kind   string         `json:"kind"`
	Rule   *RetentionRule `json:"rule"` // nil when there is none
}

// RulesInForce lists, for each kind of each tenant that has exports, the rule that
// counts. after is a [Page]'s Next.
func (s *Store) RulesInForce(ctx context.Context, scope Scope, after string, limit int) (Page[RuleInForce], error) {
	page, limit, from := Page[RuleInForce]{Items: []RuleInForce{}}, pageSize(limit), [2]string{}
	if after != "" {
		raw, err := base64.RawURLEncoding.DecodeString(after)
		if err != nil || json.Unmarshal(raw, &from) != nil {
			return page, ErrCursor
		}
	}
	tenant := "true"
	args := []any{from[0], from[1], limit + 1}
	if !scope.All {
		tenant, args = "e.tenant = $4", append(args, scope.Tenant)
	}
	next := "SELECT e.tenant, e.kind FROM fenceline.exports e WHERE NOT e.expired AND " + tenant + " AND (e.tenant, e.kind) > (%s) ORDER BY e.tenant, e.kind LIMIT 1"
	// A jump from pair to pair along the index of keys, however many exports each has.
	rows, err := s.pool.Query(ctx, `WITH RECURSIVE p AS ((`+fmt.Sprintf(next, "$1, $2")+`) UNION ALL
		SELECT n.tenant, n.kind FROM p, LATERAL (`+fmt.Sprintf(next, "p.tenant, p.kind")+`) n)
		SELECT p.tenant, p.kind, r.id, r.tenant, r.kind, r.current_days, r.superseded_days, coalesce(r.superseded_keep, 0), coalesce(r.set_by, ''), coalesce(r.set_at, now())
		FROM (SELECT * FROM p LIMIT $3) p LEFT JOIN LATERAL fenceline.retention_for(p.tenant, p.kind) r ON true ORDER BY p.tenant, p.kind`, args...)
	if err == nil {
		page.Items, err = pgx.CollectRows(rows, scanInForce)
	}
	if err != nil {
		return page, fmt.Errorf("list the rules in force: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		raw, err := json.Marshal([2]string{page.Items[limit-1].Tenant, page.Items[limit-1].Kind})
		if err != nil {
			return page, err
		}
		page.Next = base64.RawURLEncoding.EncodeToString(raw)
	}
	return page, nil
}

func scanInForce(row pgx.CollectableRow) (f RuleInForce, err error) {
	var id *int64
	var r RetentionRule
	err = row.Scan(&f.Tenant, &f.Kind, &id, &r.Tenant, &r.Kind, &r.CurrentDays, &r.SupersededDays, &r.SupersededKeep, &r.SetBy, &r.SetAt)
	if id != nil {
		r.ID, f.Rule = *id, &r
	}
	return f, err
}
