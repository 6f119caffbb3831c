package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
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
	// Partial says that time was over before everything was looked at that may
	// become due: all numbers are at least so many.
	Partial bool `json:"partial"`
	// LookedAt is how many publications were looked at: those whose age the change decides about.
	LookedAt int64 `json:"looked_at"`
}

const (
	// previewPairs is how many tenants' kinds are looked at together.
	previewPairs = 500
	// previewPage is how many publications one statement looks at: some hundredths of a second.
	previewPage = 4000
)

// pairsOf walks from tenant and kind to the next one along the index, however many exports each
// has, and says what counts for it now (o) and after the change (n). $1 and $2 are tenant and kind of the
// change, $3 to $5 what it keeps, $6 says that it is set and not removed, $7 and $8 after which pair to begin.
const pairsOf = `WITH RECURSIVE rules AS MATERIALIZED (
		SELECT r.tenant, r.kind, r.current_days, r.superseded_days, r.superseded_keep FROM fenceline.retention r
		WHERE (r.tenant, r.kind) IS DISTINCT FROM ($1::text, $2::text)
		UNION ALL SELECT $1::text, $2::text, $3::int, $4::int, $5::int WHERE $6::boolean
	), p AS ((%s) UNION ALL SELECT n.tenant, n.kind FROM p, LATERAL (%s) n)
	SELECT now(), p.tenant, p.kind,
		($2::text IS NULL OR p.kind = $2) AND CASE WHEN $6 THEN (n.tenant, n.kind) IS NOT DISTINCT FROM ($1::text, $2::text) AND n.found
			ELSE (o.tenant, o.kind) IS NOT DISTINCT FROM ($1::text, $2::text) AND o.id IS NOT NULL END,
		o.id IS NOT NULL, o.current_days, o.superseded_days, coalesce(o.superseded_keep, 0),
		n.found IS NOT NULL, n.current_days, n.superseded_days, coalesce(n.superseded_keep, 0)
	FROM (SELECT * FROM p LIMIT $9) p
	LEFT JOIN LATERAL fenceline.retention_for(p.tenant, p.kind) o ON true
	LEFT JOIN LATERAL (SELECT true AS found, r.* FROM rules r
		WHERE (coalesce(r.tenant, ''), coalesce(r.kind, '')) IN ((p.tenant, p.kind), ('', p.kind), (p.tenant, ''), ('', ''))
		ORDER BY r.kind IS NULL, r.tenant IS NULL LIMIT 1) n ON true
	ORDER BY p.tenant, p.kind`

// previewExports counts exports, each pair's up to $3. Those without a publication count too.
const previewExports = `SELECT count(*) FROM (SELECT FROM unnest($1::text[], $2::text[]) u(tenant, kind),
	LATERAL (SELECT FROM fenceline.exports e WHERE e.tenant = u.tenant AND e.kind = u.kind AND e.deleted_at IS NULL LIMIT $3) e LIMIT $3) f`

// previewUnits are the parts that a statement goes on with: each a tenant's kind, from (at, id) on up to the time until.
const previewUnits = `unnest($1::text[], $2::text[], $3::timestamptz[], $4::uuid[], $5::timestamptz[], $6::timestamptz[], $7::int[], $8::int[])
	WITH ORDINALITY u(tenant, kind, at, id, until, was_due, was_kept, kept, n)`

// previewCurrent looks at current publications; expire_exports decides in the same way.
const previewCurrent = `SELECT u.n, e.published_at, e.id, a.bytes, e.pinned_at IS NULL AND a.pinned_at IS NULL
		AND (SELECT j.id FROM fenceline.jobs j WHERE j.export_id = e.id AND j.state IN ('queued', 'running', 'cancelling') LIMIT 1) IS NULL
		AND NOT fenceline.on_hold(u.tenant, u.kind, e.id)
	FROM ` + previewUnits + `,
	LATERAL (SELECT x.id, x.published_at, x.attempt_id, x.pinned_at FROM fenceline.exports x WHERE x.tenant = u.tenant AND x.kind = u.kind AND x.deleted_at IS NULL
		AND (x.published_at, x.id) > (u.at, u.id) AND x.published_at <= u.until ORDER BY x.published_at, x.id LIMIT $9) e,
	LATERAL (SELECT x.bytes, x.pinned_at FROM fenceline.attempts x WHERE x.id = e.attempt_id OFFSET 0) a
	ORDER BY u.n, e.published_at, e.id`

// previewReplaced looks at replaced ones; kept decides in the same way.
const previewReplaced = `SELECT u.n, a.replaced_at, a.id, a.bytes, e.kind = u.kind AND e.deleted_at IS NULL AND e.pinned_at IS NULL AND a.pinned_at IS NULL AND a.doomed_at IS NULL
		AND (SELECT newer >= u.kept AND NOT (a.replaced_at <= u.was_due AND newer >= u.was_kept) FROM (SELECT count(*) AS newer FROM (SELECT FROM fenceline.attempts x
			WHERE x.export_id = a.export_id AND x.state = 'superseded' AND x.token > a.token LIMIT greatest(u.kept, u.was_kept)) x) r)
		AND NOT fenceline.on_hold(u.tenant, u.kind, e.id)
	FROM ` + previewUnits + `,
	LATERAL (SELECT * FROM fenceline.attempts x WHERE x.tenant = u.tenant AND x.state = 'superseded'
		AND (x.replaced_at, x.id) > (u.at, u.id) AND x.replaced_at <= u.until ORDER BY x.replaced_at, x.id LIMIT $9) a,
	LATERAL (SELECT x.id, x.kind, x.deleted_at, x.pinned_at FROM fenceline.exports x WHERE x.id = a.export_id OFFSET 0) e
	ORDER BY u.n, a.replaced_at, a.id`

// PreviewRetention counts what a change would make due at once, and changes nothing.
// readers is the grace of replaced publications, as the clean-up has it. It reads what
// is of an age at which the change decides, in pages, and answers what it has
// counted when patience is over, as a part.
func (s *Store) PreviewRetention(ctx context.Context, c RetentionChange, readers, patience time.Duration) (RetentionPreview, error) {
	timed, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v := previewing{store: s, change: c, readers: readers}
	err := v.count(timed)
	if err != nil && ctx.Err() == nil && errors.Is(timed.Err(), context.DeadlineExceeded) {
		v.Partial, err = true, nil
	}
	if err != nil {
		return v.RetentionPreview, fmt.Errorf("count what %s would make due: %w", c.Rule.Name(), err)
	}
	return v.RetentionPreview, nil
}

// previewing is a preview at work.
type previewing struct {
	RetentionPreview
	store   *Store
	change  RetentionChange
	readers time.Duration
}

// pair is a kind of a tenant, with what counts for it now and after the change.
type pair struct {
	now          time.Time
	tenant, kind string
	decides      bool // the change does
	old, new     kept
}

// kept is what a rule keeps, if there is one.
type kept struct {
	rule             bool
	current, replace *int // days; nil for ever
	newest           int
}

func (v *previewing) count(ctx context.Context) error {
	for last := (pair{}); ; {
		pairs, err := v.pairs(ctx, last)
		if err != nil {
			return err
		}
		if err := v.countOf(ctx, pairs); err != nil {
			return err
		}
		if len(pairs) < previewPairs || v.Current > CountCap && v.Replaced > CountCap {
			return nil
		}
		last = pairs[len(pairs)-1]
	}
}

// countOf goes through some pairs: first how many exports there are, which says who is concerned, then what is due.
func (v *previewing) countOf(ctx context.Context, pairs []pair) error {
	var tenants, kinds []string
	var current, replaced []previewUnit
	for _, p := range pairs {
		if !p.decides {
			continue
		}
		tenants, kinds = append(tenants, p.tenant), append(kinds, p.kind)
		if u := p.currentUnit(); u.at.Before(u.until) {
			current = append(current, u)
		}
		if u := p.replacedUnit(v.readers); u.at.Before(u.until) {
			replaced = append(replaced, u)
		}
	}
	if room := CountCap + 1 - v.Exports; room > 0 && len(tenants) > 0 {
		var n int64
		if err := v.store.pool.QueryRow(ctx, previewExports, tenants, kinds, room).Scan(&n); err != nil {
			return err
		}
		v.Exports += n
	}
	if err := v.look(ctx, previewCurrent, current, &v.Current, &v.CurrentBytes); err != nil {
		return err
	}
	return v.look(ctx, previewReplaced, replaced, &v.Replaced, &v.ReplacedBytes)
}

func (v *previewing) pairs(ctx context.Context, last pair) ([]pair, error) {
	next := "SELECT e.tenant, e.kind FROM fenceline.exports e WHERE e.deleted_at IS NULL AND %s (e.tenant, e.kind) > (%s) ORDER BY e.tenant, e.kind LIMIT 1"
	only, r := "", v.change.Rule
	if r.Tenant != nil {
		only = "e.tenant = $1 AND"
	}
	rows, err := v.store.pool.Query(ctx, fmt.Sprintf(pairsOf, fmt.Sprintf(next, only, "$7, $8"), fmt.Sprintf(next, only, "p.tenant, p.kind")),
		r.Tenant, r.Kind, r.CurrentDays, r.SupersededDays, r.SupersededKeep, !v.change.Remove, last.tenant, last.kind, previewPairs)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p pair, err error) {
		var decides *bool
		err = row.Scan(&p.now, &p.tenant, &p.kind, &decides, &p.old.rule, &p.old.current, &p.old.replace, &p.old.newest, &p.new.rule, &p.new.current, &p.new.replace, &p.new.newest)
		p.decides = decides != nil && *decides
		return p, err
	})
}

// previewUnit is a range of publications of a pair: those after (at, id), up to until.
type previewUnit struct {
	pair  pair
	at    time.Time
	id    uuid.UUID
	until time.Time
	// wasDue is the time up to which replaced ones are due already, unless they are among the newest.
	wasDue time.Time
}

// ago is the time so many days before now, at most back to when time begins here.
func (p pair) ago(days int, least time.Duration) time.Time {
	return p.now.Add(-max(24*time.Hour*time.Duration(days), least))
}

// currentUnit are the current publications that are due after the change and not due now.
func (p pair) currentUnit() previewUnit {
	u := previewUnit{pair: p, id: uuid.Max}
	if p.old.current != nil {
		u.at = p.ago(*p.old.current, 0)
	}
	if p.new.current != nil {
		u.until = p.ago(*p.new.current, 0)
	}
	return u
}

// replacedUnit are the replaced ones that may be due after the change and not due now. When as many or more of the newest
// are kept than before, what was due by its age stays out: it was due before, or it is among the newest.
func (p pair) replacedUnit(readers time.Duration) previewUnit {
	u := previewUnit{pair: p, id: uuid.Max}
	switch {
	case !p.new.rule:
		u.until = p.ago(0, readers)
	case p.new.replace != nil:
		u.until = p.ago(*p.new.replace, readers)
	}
	switch {
	case !p.old.rule:
		u.wasDue = p.ago(0, readers)
	case p.old.replace != nil:
		u.wasDue = p.ago(*p.old.replace, readers)
	}
	if p.new.newest >= p.old.newest {
		u.at = u.wasDue
	}
	return u
}

// look goes through ranges, some of each with each statement, until they end or the cap is reached.
func (v *previewing) look(ctx context.Context, sql string, units []previewUnit, count, bytes *int64) error {
	for len(units) > 0 && *count <= CountCap {
		most := max(1, previewPage/len(units))
		read, err := v.lookOnce(ctx, sql, units, most, count, bytes)
		if err != nil {
			return err
		}
		var more []previewUnit
		for i, u := range units {
			if read[i] == most {
				more = append(more, u)
			}
		}
		units = more
	}
	return nil
}

// lookOnce looks at the next publications of each range and moves its beginning behind them. It answers how many they were.
func (v *previewing) lookOnce(ctx context.Context, sql string, units []previewUnit, most int, count, bytes *int64) ([]int, error) {
	var tenants, kinds []string
	var at, until, wasDue []time.Time
	var ids []uuid.UUID
	var wasKept, kept []int32
	for _, u := range units {
		tenants, kinds, at, ids, until = append(tenants, u.pair.tenant), append(kinds, u.pair.kind), append(at, u.at), append(ids, u.id), append(until, u.until)
		wasDue, wasKept, kept = append(wasDue, u.wasDue), append(wasKept, int32(u.pair.old.newest)), append(kept, int32(u.pair.new.newest))
	}
	rows, err := v.store.pool.Query(ctx, sql, tenants, kinds, at, ids, until, wasDue, wasKept, kept, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	read := make([]int, len(units))
	for rows.Next() {
		var n, size int64
		var due bool
		var u previewUnit
		if err := rows.Scan(&n, &u.at, &u.id, &size, &due); err != nil {
			return nil, err
		}
		units[n-1].at, units[n-1].id = u.at, u.id
		read[n-1]++
		v.LookedAt++
		if due && *count <= CountCap {
			*count, *bytes = *count+1, *bytes+size
		}
	}
	return read, rows.Err()
}
