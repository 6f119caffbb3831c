package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// RetentionChange is a rule that somebody thinks of setting, or of removing.
type RetentionChange struct {
	Rule   RetentionRule
	Remove bool // the rule for its tenant and kind; the rest of Rule does not count
}

// RetentionPreview is what a change of a rule would make due for the clean-up at
// once that is not due now. Publications are counted up to [CountCap]+1 each, and
// bytes are those of the ones that were counted.
type RetentionPreview struct {
	Current       int64 `json:"current"` // publications that would expire, each with its export
	CurrentBytes  int64 `json:"current_bytes"`
	Replaced      int64 `json:"replaced"` // replaced publications that would lose their files
	ReplacedBytes int64 `json:"replaced_bytes"`
	// Exports are those for which the change decides, also counted up to the cap:
	// of its tenant and kind, and without a more specific rule.
	Exports int64 `json:"exports"`
}

// previewPatience is how long a preview may read: it looks at all that the rule is for.
const previewPatience = 20 * time.Second

// previewSQL begins with ruled: for each tenant and kind that the change is for, the
// rule that counts now (o) and the one that would (n). $1 and $2 are tenant and kind
// of the change, $3 to $5 what it keeps, $6 says that it is set and not removed.
const previewSQL = `WITH rules AS MATERIALIZED (
		SELECT r.tenant, r.kind, r.current_days, r.superseded_days, r.superseded_keep FROM fenceline.retention r
		WHERE (r.tenant, r.kind) IS DISTINCT FROM ($1::text, $2::text)
		UNION ALL SELECT $1::text, $2::text, $3::int, $4::int, $5::int WHERE $6::boolean
	), ruled AS MATERIALIZED (
		SELECT p.tenant, p.kind, o.id IS NOT NULL AS o_rule, o.current_days AS o_current, o.superseded_days AS o_days, o.superseded_keep AS o_keep,
			n.tenant_kind IS NOT NULL AS n_rule, n.current_days AS n_current, n.superseded_days AS n_days, n.superseded_keep AS n_keep
		FROM (SELECT DISTINCT e.tenant, e.kind FROM fenceline.exports e WHERE e.deleted_at IS NULL AND ($1::text IS NULL OR e.tenant = $1) AND ($2::text IS NULL OR e.kind = $2)) p
		LEFT JOIN LATERAL fenceline.retention_for(p.tenant, p.kind) o ON true
		LEFT JOIN LATERAL (SELECT true AS tenant_kind, r.* FROM rules r
			WHERE (coalesce(r.tenant, ''), coalesce(r.kind, '')) IN ((p.tenant, p.kind), ('', p.kind), (p.tenant, ''), ('', ''))
			ORDER BY r.kind IS NULL, r.tenant IS NULL LIMIT 1) n ON true
		WHERE ($6 AND (n.tenant, n.kind) IS NOT DISTINCT FROM ($1::text, $2::text)) OR (NOT $6 AND (o.tenant, o.kind) IS NOT DISTINCT FROM ($1::text, $2::text))
	), of AS NOT MATERIALIZED (
		SELECT e.*, r.o_rule, r.o_current, r.o_days, r.o_keep, r.n_rule, r.n_current, r.n_days, r.n_keep
		FROM ruled r JOIN fenceline.exports e ON e.tenant = r.tenant AND e.kind = r.kind AND e.deleted_at IS NULL
	) `

// previewCurrent are the current publications; expire_exports decides in the same way.
const previewCurrent = `SELECT count(*), coalesce(sum(b), 0)::bigint FROM (SELECT a.bytes AS b FROM of e JOIN fenceline.attempts a ON a.id = e.attempt_id
	WHERE e.pinned_at IS NULL AND a.pinned_at IS NULL
		AND e.published_at + make_interval(hours => 24 * e.n_current) <= now()
		AND (e.published_at + make_interval(hours => 24 * e.o_current) <= now()) IS NOT TRUE
		AND NOT fenceline.on_hold(e.tenant, e.kind, e.id)
		AND NOT EXISTS (SELECT FROM fenceline.jobs j WHERE j.export_id = e.id AND j.state IN ('queued', 'running', 'cancelling')) LIMIT $7) f`

// previewReplaced are replaced ones; kept decides in the same way. $8 is for how many seconds readers have time.
const previewReplaced = `SELECT count(*), coalesce(sum(b), 0)::bigint FROM (SELECT a.bytes AS b FROM of e
	JOIN fenceline.attempts a ON a.export_id = e.id AND a.state = 'superseded' AND a.doomed_at IS NULL AND a.pinned_at IS NULL
	CROSS JOIN LATERAL (SELECT count(*) AS newer FROM (SELECT FROM fenceline.attempts x
		WHERE x.export_id = e.id AND x.state = 'superseded' AND x.token > a.token LIMIT greatest(e.o_keep, e.n_keep)) y) rank
	WHERE e.pinned_at IS NULL AND a.replaced_at + make_interval(secs => $8) <= now()
		AND (NOT e.n_rule OR a.replaced_at + make_interval(hours => 24 * e.n_days) <= now() AND rank.newer >= e.n_keep)
		AND (NOT e.o_rule OR a.replaced_at + make_interval(hours => 24 * e.o_days) <= now() AND rank.newer >= e.o_keep) IS NOT TRUE
		AND NOT fenceline.on_hold(e.tenant, e.kind, e.id) LIMIT $7) f`

const previewExports = `SELECT count(*), 0::bigint FROM (SELECT FROM of LIMIT $7) f`

// PreviewRetention counts what a change would make due at once, and changes nothing.
// readers is the grace of replaced publications, as the clean-up has it. It reads all
// that the change is for, and gives up after some time with [context.DeadlineExceeded].
func (s *Store) PreviewRetention(ctx context.Context, c RetentionChange, readers time.Duration) (p RetentionPreview, err error) {
	ctx, cancel := context.WithTimeout(ctx, previewPatience)
	defer cancel()
	r, none := c.Rule, int64(0)
	args := []any{r.Tenant, r.Kind, r.CurrentDays, r.SupersededDays, r.SupersededKeep, !c.Remove, CountCap + 1}
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, previewSQL+previewExports, args...).Scan(&p.Exports, &none); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, previewSQL+previewCurrent, args...).Scan(&p.Current, &p.CurrentBytes); err != nil {
			return err
		}
		return tx.QueryRow(ctx, previewSQL+previewReplaced, append(args, readers.Seconds())...).Scan(&p.Replaced, &p.ReplacedBytes)
	})
	if err != nil {
		return p, fmt.Errorf("count what %s would make due: %w", r.Name(), err)
	}
	return p, nil
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
