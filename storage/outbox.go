package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ChannelOutbox wakes deliverers: something was noticed, or is to be delivered again.
const ChannelOutbox = "fenceline_outbox"

// The topics that the protocol's own functions write.
const (
	TopicPublished = "export.published"
	TopicFailed    = "job.failed"
	TopicTest      = "test" // asked for by a person, for one target
)

// maxNotice bounds the payload of a custom notice, in bytes of JSON.
const maxNotice = 64 << 10

var customTopic = regexp.MustCompile(`^custom(\.[a-z0-9_-]+)+$`)

// Notify notices something of the application's own in the caller's
// transaction: who is told of the topic is told once it has committed, and never
// when it is rolled back. The topic is "custom." and names of lower-case letters,
// digits, - and _ with dots between them, at most 100 bytes; the payload becomes
// JSON of at most 64 KiB and is sent as it is: it must hold no secrets.
func (s *Store) Notify(ctx context.Context, tx Tx, tenant, topic string, payload any) error {
	if !customTopic.MatchString(topic) || len(topic) > 100 {
		return fmt.Errorf("notice: the topic %.100q must be custom. and names of a-z, 0-9, - and _ with dots between them, at most 100 bytes", topic)
	}
	if tenant == "" {
		return fmt.Errorf("notice %s: a tenant is needed", topic)
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("notice %s: %w", topic, err)
	}
	if len(raw) > maxNotice {
		return fmt.Errorf("notice %s: its payload has %d bytes of JSON, more than %d; send a reference instead", topic, len(raw), maxNotice)
	}
	if err := tx.WithContext(ctx).Exec("INSERT INTO fenceline.outbox (topic, tenant, payload) VALUES (?, ?, ?)", topic, tenant, string(raw)).Error; err != nil {
		return fmt.Errorf("notice %s: %w", topic, err)
	}
	return nil
}

// Notice is a row of the outbox with what can be said about it.
type Notice struct {
	ID      int64
	Topic   string
	Tenant  string
	At      time.Time
	Payload json.RawMessage // of a custom notice

	// The job; the zero id when there is none.
	JobID, JobKind, JobTitle string
	JobError                 string // of job.failed: the first line is for others
	Attempts                 int

	// The export; the empty id when there is none.
	ExportID, ExportKind, ExportKey, ExportTitle string
	// What was published, of export.published:
	Token       int64
	PublishedAt *time.Time
	Rows, Bytes int64
	Files       []File
}

// FanOut hands at most limit pending notices to the targets that want them: a
// delivery each, whose body is what freeze makes of the notice, once and for
// all. It answers how many notices it took; 0 when none are pending. Any number
// may run at once. freeze must be quick: it is called in the transaction.
func (s *Store) FanOut(ctx context.Context, limit int, freeze func(Notice) (string, error)) (int, error) {
	taken := 0
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		notices, err := takeNotices(ctx, tx, limit)
		if err != nil || len(notices) == 0 {
			return err
		}
		taken = len(notices)
		wanted, err := whoWants(ctx, tx, notices)
		if err != nil {
			return err
		}
		if err := addDeliveries(ctx, tx, wanted, freeze); err != nil {
			return err
		}
		ids := make([]int64, len(notices))
		for i, n := range notices {
			ids[i] = n.id
		}
		_, err = tx.Exec(ctx, "UPDATE fenceline.outbox SET pending = false WHERE id = ANY ($1::bigint[])", ids)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("hand out notices: %w", err)
	}
	return taken, nil
}

// pendingNotice is as much of a notice as decides who is told.
type pendingNotice struct {
	id                  int64
	topic, tenant, kind string
}

func takeNotices(ctx context.Context, tx pgx.Tx, limit int) ([]pendingNotice, error) {
	rows, err := tx.Query(ctx, `SELECT o.id, o.topic, coalesce(o.tenant, j.tenant), coalesce(j.kind, '')
		FROM fenceline.outbox o LEFT JOIN fenceline.jobs j ON j.id = o.job_id
		WHERE o.pending ORDER BY o.id LIMIT $1 FOR NO KEY UPDATE OF o SKIP LOCKED`, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (n pendingNotice, err error) {
		return n, row.Scan(&n.id, &n.topic, &n.tenant, &n.kind)
	})
}

// whoWants are the targets of each notice that has any, by the notice's id. They
// are kept from going away until the transaction ends.
func whoWants(ctx context.Context, tx pgx.Tx, notices []pendingNotice) (map[int64][]uuid.UUID, error) {
	tenants := map[string]bool{}
	for _, n := range notices {
		tenants[n.tenant] = true
	}
	rows, err := tx.Query(ctx, "SELECT "+targetColumns+` FROM fenceline.notify_targets
		WHERE tenant = ANY ($1::text[]) AND disabled_at IS NULL FOR KEY SHARE`, slices.Collect(maps.Keys(tenants)))
	if err != nil {
		return nil, err
	}
	targets, err := pgx.CollectRows(rows, scanTarget)
	wanted := map[int64][]uuid.UUID{}
	for _, n := range notices {
		for _, t := range targets {
			if t.Tenant == n.tenant && t.wants(n.topic, n.kind) {
				wanted[n.id] = append(wanted[n.id], t.ID)
			}
		}
	}
	return wanted, err
}

const noticesByID = `SELECT o.id, o.topic, coalesce(o.tenant, j.tenant), o.created_at, coalesce(o.payload::text, 'null'),
	coalesce(j.id::text, ''), coalesce(j.kind, ''), coalesce(j.title, ''), coalesce(CASE WHEN o.topic = 'job.failed' THEN coalesce(a.error, j.error) END, ''), coalesce(a.number, j.attempts, 0),
	coalesce(e.id::text, ''), coalesce(e.kind, ''), coalesce(e.key, ''), coalesce(e.title, ''),
	coalesce(a.token, 0), a.finished_at, coalesce(a.rows, 0), coalesce(a.bytes, 0),
	coalesce((SELECT jsonb_agg(jsonb_build_object('name', f.name, 'format', f.format, 'media_type', f.media_type, 'size', f.size,
		'sha256', encode(f.sha256, 'hex'), 'rows', f.rows) ORDER BY f.ordinal)::text FROM fenceline.files f WHERE f.attempt_id = o.attempt_id), '[]')
	FROM fenceline.outbox o LEFT JOIN fenceline.jobs j ON j.id = o.job_id LEFT JOIN fenceline.exports e ON e.id = o.export_id
	LEFT JOIN fenceline.attempts a ON a.id = o.attempt_id
	WHERE o.id = ANY ($1::bigint[]) ORDER BY o.id`

func scanNotice(row pgx.CollectableRow) (n Notice, err error) {
	var files, payload string
	err = row.Scan(&n.ID, &n.Topic, &n.Tenant, &n.At, &payload, &n.JobID, &n.JobKind, &n.JobTitle, &n.JobError, &n.Attempts,
		&n.ExportID, &n.ExportKind, &n.ExportKey, &n.ExportTitle, &n.Token, &n.PublishedAt, &n.Rows, &n.Bytes, &files)
	if err == nil {
		err = json.Unmarshal([]byte(files), &n.Files)
	}
	n.Payload = json.RawMessage(payload)
	return n, err
}

func addDeliveries(ctx context.Context, tx pgx.Tx, wanted map[int64][]uuid.UUID, freeze func(Notice) (string, error)) error {
	if len(wanted) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, noticesByID, slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return err
	}
	notices, err := pgx.CollectRows(rows, scanNotice)
	if err != nil {
		return err
	}
	batch := new(pgx.Batch)
	for _, n := range notices {
		body, err := freeze(n)
		if err != nil {
			return fmt.Errorf("notice %d: %w", n.ID, err)
		}
		for _, target := range wanted[n.ID] {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			batch.Queue(`INSERT INTO fenceline.deliveries (id, outbox_id, target_id, tenant, topic, body) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (outbox_id, target_id) DO NOTHING`, id, n.ID, target, n.Tenant, n.Topic, body)
		}
	}
	return tx.SendBatch(ctx, batch).Close()
}

// prunePart is how many rows one statement removes: no long transaction.
const prunePart = 1000

// PruneOutbox removes deliveries that arrived longer ago than olderThan, and
// notices of that age that no delivery is left of; it answers how many
// deliveries. Notices of publications stay: they are the record of the order in
// which exports were published. Dead deliveries stay until they are replayed or
// their target is removed.
func (s *Store) PruneOutbox(ctx context.Context, olderThan time.Duration) (int64, error) {
	deliveries, err := s.prune(ctx, `DELETE FROM fenceline.deliveries WHERE id IN (SELECT id FROM fenceline.deliveries
		WHERE state = 'delivered' AND delivered_at < now() - make_interval(secs => $1) ORDER BY delivered_at LIMIT $2)`, olderThan)
	if err != nil {
		return deliveries, fmt.Errorf("prune deliveries: %w", err)
	}
	_, err = s.prune(ctx, `DELETE FROM fenceline.outbox WHERE id IN (SELECT id FROM fenceline.outbox o
		WHERE NOT pending AND topic <> 'export.published' AND created_at < now() - make_interval(secs => $1)
		AND NOT EXISTS (SELECT FROM fenceline.deliveries d WHERE d.outbox_id = o.id) ORDER BY created_at LIMIT $2)`, olderThan)
	if err != nil {
		return deliveries, fmt.Errorf("prune notices: %w", err)
	}
	return deliveries, nil
}

func (s *Store) prune(ctx context.Context, sql string, olderThan time.Duration) (n int64, err error) {
	for {
		tag, err := s.pool.Exec(ctx, sql, olderThan.Seconds(), prunePart)
		if err != nil {
			return n, err
		}
		if n += tag.RowsAffected(); tag.RowsAffected() < prunePart {
			return n, nil
		}
	}
}

// wakeDeliverers is a hint; without it they look by themselves.
func (s *Store) wakeDeliverers(ctx context.Context) {
	_, _ = s.pool.Exec(ctx, "SELECT pg_notify($1, '')", ChannelOutbox)
}

// OutboxCounts are the numbers of what is not delivered, each counted to [CountCap] at most.
type OutboxCounts struct {
	Pending       int64      `json:"pending"` // deliveries to targets that are not disabled
	Dead          int64      `json:"dead"`
	OldestPending *time.Time `json:"oldest_pending,omitempty"` // when what waits longest was noticed
	Now           time.Time  `json:"now"`
}

// CountOutbox counts what is not delivered.
func (s *Store) CountOutbox(ctx context.Context) (c OutboxCounts, err error) {
	const waiting = `FROM fenceline.deliveries d JOIN fenceline.notify_targets t ON t.id = d.target_id AND t.disabled_at IS NULL WHERE d.state = 'pending'`
	err = s.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM (SELECT `+waiting+` LIMIT $1) x),
		(SELECT count(*) FROM (SELECT FROM fenceline.deliveries WHERE state = 'dead' LIMIT $1) x),
		(SELECT d.created_at `+waiting+` ORDER BY d.created_at LIMIT 1), clock_timestamp()`, CountCap+1).Scan(&c.Pending, &c.Dead, &c.OldestPending, &c.Now)
	if err != nil {
		return c, fmt.Errorf("count deliveries: %w", err)
	}
	return c, nil
}
