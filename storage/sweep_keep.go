package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

// applyBatch is how many rows are looked at anew in one statement when a rule, a pin or a hold has changed.
const applyBatch = 2000

// ApplyRetention looks anew at what changes of rules, pins and holds concern, in
// short statements. A clean-up does so before it begins; after a change it spares
// the plan the wait. When it is interrupted the next one goes on.
func (s *Store) ApplyRetention(ctx context.Context) error {
	for more := true; more; {
		if err := s.pool.QueryRow(ctx, "SELECT fenceline.apply_retention($1)", applyBatch).Scan(&more); err != nil {
			return fmt.Errorf("apply the rules of retention: %w", err)
		}
	}
	return nil
}

// doom decides that the files of these items go, and answers those for which that
// was decided: whatever is pinned, put on hold or restored after that comes too late
// for them, and whatever came before it keeps its files.
func (r *sweepRun) doom(ctx context.Context, items []SweepItem) ([]SweepItem, error) {
	ids := make([]uuid.UUID, len(items))
	for i, it := range items {
		ids[i] = it.Attempt
	}
	taken, err := r.taken(ctx, "SELECT fenceline.doom_attempts($1::uuid[], $2)", texts(ids), r.opt.Superseded.Seconds())
	if err != nil {
		return nil, fmt.Errorf("decide that files go: %w", recoveryNeeded(err))
	}
	var going []SweepItem
	for _, it := range items {
		if taken[it.Attempt] {
			going = append(going, it)
		}
	}
	r.res.Planned += len(items) - len(going)
	r.res.Skipped += len(items) - len(going)
	return going, nil
}

// expire deletes exports whose time is over, softly.
func (r *sweepRun) expire(ctx context.Context, items []SweepItem) error {
	ids := make([]uuid.UUID, len(items))
	for i, it := range items {
		ids[i] = it.Export
	}
	expired := 0
	err := r.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { // with its entries: all of it, or nothing
		var taken []uuid.UUID
		if err := tx.Raw("SELECT fenceline.expire_exports(?::uuid[])", textArray(texts(ids))).Scan(&taken).Error; err != nil {
			return recoveryNeeded(err)
		}
		expired = len(taken)
		return r.logExpired(tx, items, taken)
	})
	if err != nil {
		return fmt.Errorf("let exports expire: %w", err)
	}
	r.res.Planned += len(items)
	r.res.Expired += expired
	r.res.Skipped += len(items) - expired
	return nil
}

// logExpired writes down those of the items that were taken.
func (r *sweepRun) logExpired(tx *gorm.DB, items []SweepItem, taken []uuid.UUID) error {
	for _, it := range items {
		if !slices.Contains(taken, it.Export) {
			continue
		}
		details, err := json.Marshal(map[string]any{"because": it.Why, "run": r.res.ID})
		if err != nil {
			return err
		}
		e := AuditEntry{Actor: "clean-up", ActorKind: ActorSystem, Tenant: &it.Tenant, Action: "export.expired", ObjectKind: "export", ObjectID: it.Export.String(), Details: details}
		if err := auditIn(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// pushOut is lookAgain for a plan, which puts nothing off that it need not: only the first look at what stays of those
// that were replaced finds the older ones in whose place they stay, and a run comes to these after it.
func (sw *Sweep) pushOut(ctx context.Context, why reason, items []SweepItem) error {
	if why.name != reasonReplaced {
		return nil
	}
	return sw.lookAgain(ctx, why, items)
}

// takesNoWrites reports whether the database refused a write because it is a standby, or is to be read only.
func takesNoWrites(err error) bool {
	const readOnly = "25006" // PostgreSQL, "Error Codes"
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == readOnly
}

// lookAgain says when to look next at what stays after all.
func (sw *Sweep) lookAgain(ctx context.Context, why reason, items []SweepItem) error {
	attempts, exports := []uuid.UUID{}, []uuid.UUID{}
	for _, it := range items {
		if why.action == "expire" {
			exports = append(exports, it.Export)
		} else {
			attempts = append(attempts, it.Attempt)
		}
	}
	_, err := sw.store.pool.Exec(ctx, "SELECT fenceline.look_again($1::uuid[], $2::uuid[], $3)", texts(attempts), texts(exports), sw.opt.Superseded.Seconds())
	if err != nil {
		return fmt.Errorf("put off what is kept: %w", err)
	}
	return nil
}

// taken are the ids that a function of the database answers.
func (r *sweepRun) taken(ctx context.Context, sql string, args ...any) (map[uuid.UUID]bool, error) {
	rows, err := r.store.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	taken := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		taken[id] = true
	}
	return taken, err
}

// byRule is what the rule that counts for an item keeps, to be said after its reason.
func (it SweepItem) byRule() string {
	switch {
	case it.rule == nil:
		return ""
	case it.Action == "expire":
		return fmt.Sprintf("; %s keeps it %s", it.rule.Name(), it.rule.Current())
	}
	return fmt.Sprintf("; %s keeps %s", it.rule.Name(), it.rule.Superseded())
}
