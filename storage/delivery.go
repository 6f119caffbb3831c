package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// DeliveryState is what has become of a delivery.
type DeliveryState string

// The states of deliveries.
const (
	DeliveryPending   DeliveryState = "pending"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryDead      DeliveryState = "dead" // given up; a replay makes it pending again
)

// Known reports whether it is a state, or empty for all of them.
func (d DeliveryState) Known() bool {
	return d == "" || d == DeliveryPending || d == DeliveryDelivered || d == DeliveryDead
}

// errNoLease is a mistake of the caller: without a lease two would send the same.
var errNoLease = errors.New("claim deliveries: the lease must be longer than 0")

// Delivery is one notice for one target. Its id never changes: receivers tell
// repetitions by it.
type Delivery struct {
	ID          uuid.UUID     `json:"id"`
	TargetID    uuid.UUID     `json:"target_id"`
	Target      string        `json:"target"` // its name
	Tenant      string        `json:"tenant"`
	Topic       string        `json:"topic"`
	State       DeliveryState `json:"state"`
	Attempts    int           `json:"attempts"`
	NextAt      *time.Time    `json:"next_at,omitempty"`     // of a pending one: when it is tried (again), or given to another deliverer
	LastStatus  int           `json:"last_status,omitempty"` // of HTTP or SMTP
	LastError   string        `json:"last_error,omitempty"`
	LastAnswer  string        `json:"last_answer,omitempty"` // the beginning of what the target answered
	CreatedAt   time.Time     `json:"created_at"`
	DeliveredAt *time.Time    `json:"delivered_at,omitempty"`
	// Body is what is sent, or a mail is written from; only [Store.Delivery] reads it.
	Body json.RawMessage `json:"body,omitempty"`
}

// DeliveryClaim says what a deliverer takes.
type DeliveryClaim struct {
	Kinds     []string       // kinds of targets that it can deliver to
	Failing   bool           // targets whose last delivery failed, one delivery each; else the others
	Limit     int            // deliveries
	PerTarget int            // deliveries at once for one target
	Busy      map[string]int // by target's id: how many the caller has already in its hands
	Lease     time.Duration  // after that without an outcome it goes to another
}

// Parcel is a delivery in the hands of a deliverer, with what it needs to send
// it. It holds secrets: it must not be logged.
type Parcel struct {
	ID, TargetID uuid.UUID
	Topic        string
	Body         string
	CreatedAt    time.Time
	// Attempt guards the outcome: a later one has been begun when it is not the newest.
	Attempt int
	// Tries are the attempts since the last replay, this one included.
	Tries     int
	Kind      string // of the target
	Name      string // of the target
	URL       string
	Addresses []string
	Secrets   []string // to sign with, as they are kept, the newest first
	Now       time.Time
}

// claimSQL hops from target to target in the index of what is pending: its cost
// grows with the targets that have something, not with what waits for them. now()
// is the statement's own time here; as it does not change, the index can be used.
const claimSQL = `WITH RECURSIVE waiting AS (
		(SELECT target_id FROM fenceline.deliveries WHERE state = 'pending' ORDER BY target_id LIMIT 1)
		UNION ALL
		SELECT (SELECT d.target_id FROM fenceline.deliveries d WHERE d.state = 'pending' AND d.target_id > w.target_id ORDER BY d.target_id LIMIT 1)
		FROM waiting w WHERE w.target_id IS NOT NULL),
	due AS (
		SELECT d.id FROM waiting w JOIN fenceline.notify_targets t ON t.id = w.target_id
		CROSS JOIN LATERAL (SELECT x.id, x.next_at FROM fenceline.deliveries x
			WHERE x.target_id = t.id AND x.state = 'pending' AND x.next_at <= now() ORDER BY x.next_at
			LIMIT greatest(0, $4::int - coalesce(($5::jsonb ->> t.id::text)::int, 0)) FOR NO KEY UPDATE SKIP LOCKED) d
		WHERE t.disabled_at IS NULL AND t.kind = ANY ($1::text[]) AND (t.failures > 0) = $2
		ORDER BY d.next_at LIMIT $3)
	UPDATE fenceline.deliveries d SET attempts = d.attempts + 1, next_at = clock_timestamp() + make_interval(secs => $6)
	FROM due JOIN fenceline.deliveries o ON o.id = due.id JOIN fenceline.notify_targets t ON t.id = o.target_id WHERE d.id = due.id
	RETURNING d.id, d.target_id, d.topic, d.body, d.created_at, d.attempts, d.attempts - d.attempts_before, t.kind, t.name, coalesce(t.url, ''),
		t.addresses, array_remove(ARRAY[t.secret, CASE WHEN t.old_secret_until > clock_timestamp() THEN t.old_secret END], NULL), clock_timestamp()`

// ClaimDeliveries takes deliveries that are due, for the lease. Whoever has
// claimed one sends it and says by [Store.RecordDelivery] what came of it; when
// nothing is said within the lease, it is due again.
func (s *Store) ClaimDeliveries(ctx context.Context, c DeliveryClaim) ([]Parcel, error) {
	if c.Lease <= 0 {
		return nil, errNoLease
	}
	busy, err := json.Marshal(c.Busy)
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	per := c.PerTarget
	if c.Failing {
		per = 1
	}
	rows, err := s.pool.Query(ctx, claimSQL, c.Kinds, c.Failing, c.Limit, per, string(busy), c.Lease.Seconds())
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Parcel, err error) {
		return d, row.Scan(&d.ID, &d.TargetID, &d.Topic, &d.Body, &d.CreatedAt, &d.Attempt, &d.Tries, &d.Kind, &d.Name, &d.URL, &d.Addresses, &d.Secrets, &d.Now)
	})
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return list, nil
}

// DeliveryOutcome is what came of sending a delivery.
type DeliveryOutcome struct {
	State  DeliveryState // delivered, dead, or pending: tried again after Retry
	Retry  time.Duration
	Status int
	Error  string // empty when it was delivered
	Answer string
	// Blameless says that it was not the target's failure, such as a deliverer that stops: it counts for nothing.
	Blameless bool
	// Disable says, when it is not empty, why the target is to be told nothing more.
	Disable string
}

// RecordDelivery says what came of an attempt and reports whether that was still
// of interest: false when the delivery was taken by another after the lease, or removed.
func (s *Store) RecordDelivery(ctx context.Context, d Parcel, o DeliveryOutcome) (bool, error) {
	var n int
	err := s.pool.QueryRow(ctx, `WITH d AS (UPDATE fenceline.deliveries SET state = $3, next_at = clock_timestamp() + make_interval(secs => $4),
			attempts_before = attempts_before + $8::boolean::int, last_status = $5, last_error = $6, last_answer = $7, delivered_at = CASE WHEN $3 = 'delivered' THEN clock_timestamp() END
			WHERE id = $1 AND attempts = $2 AND state = 'pending' RETURNING target_id),
		t AS (UPDATE fenceline.notify_targets t SET failures = CASE WHEN $3 = 'delivered' THEN 0 WHEN $8::boolean THEN t.failures ELSE t.failures + 1 END,
			failing_since = CASE WHEN $3 = 'delivered' THEN NULL WHEN $8 THEN t.failing_since ELSE coalesce(t.failing_since, clock_timestamp()) END,
			disabled_at = CASE WHEN $9::text IS NULL THEN t.disabled_at ELSE coalesce(t.disabled_at, clock_timestamp()) END,
			disabled_why = CASE WHEN t.disabled_at IS NULL THEN $9::text ELSE t.disabled_why END
			FROM d WHERE t.id = d.target_id AND ($3 <> 'delivered' OR t.failures > 0) AND NOT ($8 AND $9::text IS NULL))
		SELECT count(*) FROM d`,
		d.ID, d.Attempt, string(o.State), o.Retry.Seconds(), nullableNumber(o.Status), nullable(o.Error), nullable(o.Answer), o.Blameless, nullable(o.Disable)).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("record delivery %s: %w", d.ID, err)
	}
	return n == 1, nil
}

func nullableNumber(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// AddTest makes a delivery of topic test for one target, whether it wants the topic or not.
func (s *Store) AddTest(ctx context.Context, t Target, body string, log ...AuditEntry) (Delivery, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Delivery{}, fmt.Errorf("make a delivery id: %w", err)
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO fenceline.deliveries (id, target_id, tenant, topic, body) VALUES ($1, $2, $3, $4, $5)", id, t.ID, t.Tenant, TopicTest, body); err != nil {
			return err
		}
		return auditWith(ctx, tx, ofTarget(t, log)...)
	})
	if err != nil {
		return Delivery{}, fmt.Errorf("add a test for target %s: %w", t.Name, err)
	}
	s.wakeDeliverers(ctx)
	return s.Delivery(ctx, Scope{All: true}, id)
}

const deliveryColumns = `d.id, d.target_id, t.name, d.tenant, d.topic, d.state, d.attempts, CASE WHEN d.state = 'pending' THEN d.next_at END, coalesce(d.last_status, 0),
	coalesce(d.last_error, ''), coalesce(d.last_answer, ''), d.created_at, d.delivered_at`

const deliveriesFrom = ` FROM fenceline.deliveries d JOIN fenceline.notify_targets t ON t.id = d.target_id `

func (d *Delivery) fields() []any {
	return []any{&d.ID, &d.TargetID, &d.Target, &d.Tenant, &d.Topic, &d.State, &d.Attempts, &d.NextAt, &d.LastStatus, &d.LastError, &d.LastAnswer, &d.CreatedAt, &d.DeliveredAt}
}

// Delivery reads one delivery with its body; [ErrNotFound] also when the scope does not see it.
func (s *Store) Delivery(ctx context.Context, scope Scope, id uuid.UUID) (Delivery, error) {
	var d Delivery
	var body string
	err := s.pool.QueryRow(ctx, "SELECT "+deliveryColumns+", d.body"+deliveriesFrom+"WHERE d.id = $1 AND ($2 OR d.tenant = $3)", id, scope.All, scope.Tenant).
		Scan(append(d.fields(), &body)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return Delivery{}, fmt.Errorf("delivery %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("read delivery %s: %w", id, err)
	}
	d.Body = json.RawMessage(body)
	return d, nil
}

// DeliveryFilter selects deliveries. The zero value selects all that a scope sees.
type DeliveryFilter struct {
	State  DeliveryState
	Target uuid.UUID
	After  string // a [Page]'s Next
	Limit  int    // 0 is 50; at most 200
}

// Deliveries lists deliveries, the newest first, without their bodies.
func (s *Store) Deliveries(ctx context.Context, scope Scope, f DeliveryFilter) (Page[Delivery], error) {
	sql, args := "SELECT "+deliveryColumns+deliveriesFrom+"WHERE true", []any{}
	where := func(condition string, value any) {
		args = append(args, value)
		sql += fmt.Sprintf(" AND "+condition, len(args))
	}
	if !scope.All {
		where("d.tenant = $%d", scope.Tenant)
	}
	if !f.State.Known() {
		return Page[Delivery]{}, fmt.Errorf("list deliveries: %.20q is no state", f.State)
	}
	if f.State != "" { // one of ours, and written out: only so the partial indexes are used
		sql += " AND d.state = '" + string(f.State) + "'"
	}
	if f.Target != uuid.Nil {
		where("d.target_id = $%d", f.Target)
	}
	if f.After != "" {
		id, err := uuid.Parse(f.After)
		if err != nil {
			return Page[Delivery]{}, ErrCursor
		}
		where("d.id < $%d", id)
	}
	limit := pageSize(f.Limit)
	rows, err := s.pool.Query(ctx, sql+fmt.Sprintf(" ORDER BY d.id DESC LIMIT %d", limit+1), args...)
	if err != nil {
		return Page[Delivery]{}, fmt.Errorf("list deliveries: %w", err)
	}
	var page Page[Delivery]
	page.Items, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Delivery, err error) { return d, row.Scan(d.fields()...) })
	if err != nil {
		return page, fmt.Errorf("list deliveries: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].ID.String()
	}
	return page, nil
}

// replaySet makes a delivery due now, with all its attempts before it; what it says and its id stay.
const replaySet = "state = 'pending', attempts_before = attempts, next_at = clock_timestamp(), delivered_at = NULL"

// ReplayDelivery sends a delivery again, be it dead, delivered or waiting for its next attempt. log are entries
// for the audit log, whose object it fills in.
func (s *Store) ReplayDelivery(ctx context.Context, scope Scope, id uuid.UUID, log ...AuditEntry) (Delivery, error) {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var tenant string
		err := tx.QueryRow(ctx, "UPDATE fenceline.deliveries SET "+replaySet+" WHERE id = $1 AND ($2 OR tenant = $3) RETURNING tenant", id, scope.All, scope.Tenant).Scan(&tenant)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("replay it: %w", err)
		}
		for i := range log {
			log[i].ObjectKind, log[i].ObjectID, log[i].Tenant = "delivery", id.String(), &tenant
		}
		return auditWith(ctx, tx, log...)
	})
	if err != nil {
		return Delivery{}, fmt.Errorf("delivery %s: %w", id, err)
	}
	s.wakeDeliverers(ctx)
	return s.Delivery(ctx, scope, id)
}

const deadSQL = "SELECT id FROM fenceline.deliveries WHERE state = 'dead' AND ($1 OR tenant = $2) AND ($3::uuid IS NULL OR target_id = $3::uuid)"

// CountDead counts the dead deliveries of a scope, and of one target unless it is the zero id.
func (s *Store) CountDead(ctx context.Context, scope Scope, target uuid.UUID) (n int64, err error) {
	if err := s.pool.QueryRow(ctx, "SELECT count(*) FROM ("+deadSQL+") x", scope.All, scope.Tenant, nullableID(target)).Scan(&n); err != nil {
		return 0, fmt.Errorf("count dead deliveries: %w", err)
	}
	return n, nil
}

// ReplayDead sends the dead deliveries of a scope again, and of one target
// unless it is the zero id; it answers how many. When it fails half-way, those
// that it answers are pending.
func (s *Store) ReplayDead(ctx context.Context, scope Scope, target uuid.UUID) (n int64, err error) {
	defer func() { s.wakeDeliverers(ctx) }()
	for {
		tag, err := s.pool.Exec(ctx, "UPDATE fenceline.deliveries SET "+replaySet+" WHERE id IN ("+deadSQL+" LIMIT $4) AND state = 'dead'",
			scope.All, scope.Tenant, nullableID(target), retryPart)
		if err != nil {
			return n, fmt.Errorf("replay dead deliveries: %w", err)
		}
		if n += tag.RowsAffected(); tag.RowsAffected() < retryPart {
			return n, nil
		}
	}
}

func nullableID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
