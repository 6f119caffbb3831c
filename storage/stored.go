package storage

import (
	"context"
	"fmt"
)

// storedCap bounds how many attempts [Store.StoredBytes] looks at for each of its two numbers.
const storedCap = 300

// Stored is how much the files take, as far as attempts tell.
type Stored struct {
	// Used are all bytes; Reclaimable those of attempts that are not current, whose files a clean-up may remove by their age.
	Used, Reclaimable int64
	// AtLeast says that there are too many attempts to add up: it is more than that. For all tenants that is so of Reclaimable only.
	AtLeast bool
}

// StoredBytes says how much a scope stores: all of it by the running total, what is
// reclaimable and what one tenant has by a look at a bounded number of attempts.
func (s *Store) StoredBytes(ctx context.Context, scope Scope) (Stored, error) {
	var st Stored
	var used, loose int64
	err := s.pool.QueryRow(ctx, `SELECT coalesce(u.bytes, 0), u.n, coalesce(r.bytes, 0), r.n FROM
		(SELECT sum(a.bytes)::bigint AS bytes, count(*) AS n FROM (
			SELECT attempt_id FROM fenceline.exports WHERE deleted_at IS NULL AND attempt_id IS NOT NULL AND `+scope.cond("tenant", 1)+`
			ORDER BY changed_at DESC LIMIT $2) e
			JOIN fenceline.attempts a ON a.id = e.attempt_id) u,
		(SELECT sum(a.bytes) FILTER (WHERE `+scope.cond("e.tenant", 1)+`)::bigint AS bytes, count(*) AS n FROM (
			(SELECT export_id, bytes FROM fenceline.attempts WHERE state IN ('fenced', 'failed', 'cancelled', 'condemned') AND stay_until IS NULL
				ORDER BY finished_at, id LIMIT $2)
			UNION ALL
			(SELECT export_id, bytes FROM fenceline.attempts WHERE state = 'superseded' AND stay_until IS NULL ORDER BY replaced_at, id LIMIT $2)
			UNION ALL
			(SELECT export_id, bytes FROM fenceline.attempts WHERE state = 'superseded' AND stay_until < 'infinity' ORDER BY stay_until, id LIMIT $2)) a
			JOIN fenceline.exports e ON e.id = a.export_id) r`,
		scope.Tenant, storedCap).Scan(&st.Used, &used, &st.Reclaimable, &loose)
	if err != nil {
		return st, fmt.Errorf("add up what is stored: %w", err)
	}
	st.AtLeast = used >= storedCap || loose >= storedCap
	if !scope.All {
		st.Used += st.Reclaimable
		return st, nil
	}
	total, err := s.Stored(ctx)
	st.Used, st.AtLeast = total.Bytes, loose >= storedCap
	return st, err
}
