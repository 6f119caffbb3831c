package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The kinds of targets.
const (
	TargetWebhook = "webhook"
	TargetMail    = "mail"
)

// ErrTargetExists is the error for a target whose name is taken in its tenant.
var ErrTargetExists = errors.New("there is a target of this name")

// Target is who is told of what: a webhook or some mail addresses. Its secrets
// are not part of it and are in no list; see [Store.ClaimDeliveries].
type Target struct {
	ID        uuid.UUID `json:"id"`
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name"`
	Kind      string    `json:"kind"` // webhook or mail
	URL       string    `json:"url,omitempty"`
	Addresses []string  `json:"addresses,omitempty"`
	// Topics are those it is told of: a topic, or the beginning of some as in "custom.*", or "*".
	Topics []string `json:"topics"`
	// JobKinds are the kinds of jobs it is told about; empty for all. A notice without a job is told by its topic alone.
	JobKinds []string `json:"job_kinds"`
	// Failures are those in a row, over all its deliveries; 0 when the last one arrived.
	Failures       int        `json:"failures"`
	FailingSince   *time.Time `json:"failing_since,omitempty"`
	CreatedAt      time.Time  `json:"created_at"`
	OldSecretUntil *time.Time `json:"old_secret_until,omitempty"` // until when the secret before the last rotation signs too
	DisabledAt     *time.Time `json:"disabled_at,omitempty"`
	DisabledWhy    string     `json:"disabled_why,omitempty"`
}

// wants reports whether a notice is for the target. kind is that of its job, empty without one.
func (t Target) wants(topic, kind string) bool {
	if kind != "" && len(t.JobKinds) > 0 && !slices.Contains(t.JobKinds, kind) {
		return false
	}
	return slices.ContainsFunc(t.Topics, func(p string) bool {
		beginning, open := strings.CutSuffix(p, "*")
		return p == topic || open && strings.HasPrefix(topic, beginning)
	})
}

const targetColumns = `id, tenant, name, kind, coalesce(url, ''), addresses, topics, job_kinds, failures, failing_since, created_at,
	CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_until END, disabled_at, coalesce(disabled_why, '')`

func scanTarget(row pgx.CollectableRow) (t Target, err error) {
	err = row.Scan(&t.ID, &t.Tenant, &t.Name, &t.Kind, &t.URL, &t.Addresses, &t.Topics, &t.JobKinds, &t.Failures, &t.FailingSince, &t.CreatedAt,
		&t.OldSecretUntil, &t.DisabledAt, &t.DisabledWhy)
	return t, err
}

// AddTarget adds a target and answers it with its id. secret is kept as it is
// given and belongs to webhooks. [ErrTargetExists] when its tenant has one of the
// name. What was noticed before is not told to it. As for all that changes a target,
// log are entries for the audit log, whose object is filled in: they are there
// exactly when it is done.
func (s *Store) AddTarget(ctx context.Context, t Target, secret string, log ...AuditEntry) (Target, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Target{}, fmt.Errorf("make a target id: %w", err)
	}
	added, err := s.changeTarget(ctx, t.Name, log, `INSERT INTO fenceline.notify_targets (id, tenant, name, kind, url, addresses, secret, topics, job_kinds)
		VALUES ($1, $2, $3, $4, $5, $6::text[], $7, $8::text[], $9::text[]) RETURNING `+targetColumns,
		id, t.Tenant, t.Name, t.Kind, nullable(t.URL), t.Addresses, nullable(secret), t.Topics, append([]string{}, t.JobKinds...))
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.ConstraintName == "notify_targets_tenant_name_key" {
		return Target{}, fmt.Errorf("target %s of tenant %s: %w", t.Name, t.Tenant, ErrTargetExists)
	}
	if err != nil {
		return Target{}, fmt.Errorf("add target %s: %w", t.Name, err)
	}
	return added, nil
}

// Targets lists at most 1,000 targets that a scope sees, by tenant and name.
func (s *Store) Targets(ctx context.Context, scope Scope) ([]Target, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+targetColumns+" FROM fenceline.notify_targets WHERE $1 OR tenant = $2 ORDER BY tenant, name LIMIT 1000",
		scope.All, scope.Tenant)
	if err != nil {
		return nil, fmt.Errorf("list targets: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanTarget)
	if err != nil {
		return nil, fmt.Errorf("list targets: %w", err)
	}
	return list, nil
}

// Target reads one target; [ErrNotFound] also when the scope does not see it.
func (s *Store) Target(ctx context.Context, scope Scope, id uuid.UUID) (Target, error) {
	return s.oneTarget(ctx, id.String(), "SELECT "+targetColumns+" FROM fenceline.notify_targets WHERE id = $1 AND ($2 OR tenant = $3)", id, scope.All, scope.Tenant)
}

// TargetNamed reads the target of a name in a tenant, or [ErrNotFound].
func (s *Store) TargetNamed(ctx context.Context, tenant, name string) (Target, error) {
	return s.oneTarget(ctx, name, "SELECT "+targetColumns+" FROM fenceline.notify_targets WHERE tenant = $1 AND name = $2", tenant, name)
}

func (s *Store) oneTarget(ctx context.Context, called, sql string, args ...any) (Target, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return Target{}, fmt.Errorf("read target %s: %w", called, err)
	}
	return readTarget(rows, called)
}

// changeTarget sends a statement that answers a target, with its entries in the log.
func (s *Store) changeTarget(ctx context.Context, called string, log []AuditEntry, sql string, args ...any) (t Target, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return fmt.Errorf("change target %s: %w", called, err)
		}
		if t, err = readTarget(rows, called); err != nil {
			return err
		}
		return auditWith(ctx, tx, ofTarget(t, log)...)
	})
	return t, err
}

// ofTarget fills in what entries are about.
func ofTarget(t Target, log []AuditEntry) []AuditEntry {
	for i := range log {
		log[i].ObjectKind, log[i].ObjectID, log[i].Tenant = "target", t.ID.String(), &t.Tenant
	}
	return log
}

func readTarget(rows pgx.Rows, called string) (Target, error) {
	t, err := pgx.CollectExactlyOneRow(rows, scanTarget)
	if errors.Is(err, pgx.ErrNoRows) {
		return Target{}, fmt.Errorf("target %s: %w", called, ErrNotFound)
	}
	if err != nil {
		return Target{}, fmt.Errorf("read target %s: %w", called, err)
	}
	return t, nil
}

// EnableTarget lets a target be told again, also of what waits since it was disabled.
func (s *Store) EnableTarget(ctx context.Context, scope Scope, id uuid.UUID, log ...AuditEntry) (Target, error) {
	t, err := s.changeTarget(ctx, id.String(), log, `UPDATE fenceline.notify_targets SET disabled_at = NULL, disabled_why = NULL, failures = 0, failing_since = NULL
		WHERE id = $1 AND ($2 OR tenant = $3) RETURNING `+targetColumns, id, scope.All, scope.Tenant)
	if err == nil {
		s.wakeDeliverers(ctx)
	}
	return t, err
}

// DisableTarget stops telling a target: what is noticed from now on is not for
// it, what waits for it waits on. One that is disabled already stays so.
func (s *Store) DisableTarget(ctx context.Context, scope Scope, id uuid.UUID, why string, log ...AuditEntry) (Target, error) {
	return s.changeTarget(ctx, id.String(), log, `UPDATE fenceline.notify_targets SET disabled_at = coalesce(disabled_at, clock_timestamp()),
		disabled_why = coalesce(disabled_why, $4) WHERE id = $1 AND ($2 OR tenant = $3) RETURNING `+targetColumns, id, scope.All, scope.Tenant, why)
}

// RotateTarget gives a webhook another secret. For the time both it and the one
// before sign; one still older signs no more. [ErrNotFound] for what is no webhook.
func (s *Store) RotateTarget(ctx context.Context, scope Scope, id uuid.UUID, secret string, both time.Duration, log ...AuditEntry) (Target, error) {
	return s.changeTarget(ctx, id.String(), log, `UPDATE fenceline.notify_targets SET old_secret = secret,
		old_secret_until = clock_timestamp() + make_interval(secs => $5), secret = $4
		WHERE id = $1 AND kind = 'webhook' AND ($2 OR tenant = $3) RETURNING `+targetColumns, id, scope.All, scope.Tenant, secret, both.Seconds())
}

// RemoveTarget removes a target and its deliveries for good.
func (s *Store) RemoveTarget(ctx context.Context, scope Scope, id uuid.UUID, log ...AuditEntry) error {
	if _, err := s.DisableTarget(ctx, scope, id, "is being removed"); err != nil { // and so nothing is added any more
		return err
	}
	for {
		tag, err := s.pool.Exec(ctx, `DELETE FROM fenceline.deliveries WHERE id IN (
			SELECT id FROM fenceline.deliveries WHERE target_id = $1 LIMIT $2)`, id, prunePart)
		if err != nil {
			return fmt.Errorf("remove the deliveries of target %s: %w", id, err)
		}
		if tag.RowsAffected() < prunePart {
			break
		}
	}
	_, err := s.changeTarget(ctx, id.String(), log, "DELETE FROM fenceline.notify_targets WHERE id = $1 RETURNING "+targetColumns, id)
	return err
}

// TargetSecret is a secret of a webhook as it is kept. It must not be logged.
type TargetSecret struct {
	ID                uuid.UUID
	Tenant, Name, URL string
	Kept              string
}

// TargetSecrets lists the secrets of all webhooks, those before a rotation too.
func (s *Store) TargetSecrets(ctx context.Context) ([]TargetSecret, error) {
	rows, err := s.pool.Query(ctx, `SELECT t.id, t.tenant, t.name, t.url, v.kept FROM fenceline.notify_targets t,
		LATERAL (VALUES (t.secret), (t.old_secret)) AS v(kept) WHERE t.kind = 'webhook' AND v.kept IS NOT NULL ORDER BY t.id`)
	if err != nil {
		return nil, fmt.Errorf("list the secrets of targets: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TargetSecret])
	if err != nil {
		return nil, fmt.Errorf("list the secrets of targets: %w", err)
	}
	return list, nil
}

// ResealTarget keeps a secret in another form, if it is still what was read.
func (s *Store) ResealTarget(ctx context.Context, was TargetSecret, now string) (bool, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE fenceline.notify_targets SET secret = CASE WHEN secret = $2 THEN $3 ELSE secret END,
		old_secret = CASE WHEN old_secret = $2 THEN $3 ELSE old_secret END WHERE id = $1 AND (secret = $2 OR old_secret = $2)`, was.ID, was.Kept, now)
	if err != nil {
		return false, fmt.Errorf("keep the secret of target %s: %w", was.Name, err)
	}
	return tag.RowsAffected() == 1, nil
}
