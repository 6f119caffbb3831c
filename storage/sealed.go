package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Sealed values stand in payloads as {"$sealed": "VERSION.KEY.TEXT"}: see package
// jobs/secret, which makes and opens them. Storage knows only that form, and holds
// no key. In a text that PostgreSQL has written (one space after a colon) the
// pattern cannot match inside a string, where every quote has a backslash.
const sealedPattern = `\{"\$sealed": ?"[^"\\]*"\}`

var sealed = regexp.MustCompile(sealedPattern)

// maskSealed hides sealed values from whoever reads jobs without working on them.
func maskSealed(payload json.RawMessage) json.RawMessage {
	return sealed.ReplaceAll(payload, []byte(`{"$$sealed": true}`))
}

// JobIn reads a job in a transaction, or in none when tx is nil, sealed as it is, whoever's it is.
func (s *Store) JobIn(ctx context.Context, tx Tx, id uuid.UUID) (Job, error) {
	if tx == nil {
		tx = s.db
	}
	var j Job
	return j, one(tx.WithContext(ctx).Where("id = ?", id), &j, "job", id)
}

// SealedJob is a payload with sealed values, and what they are bound to.
type SealedJob struct {
	ID           uuid.UUID
	Tenant, Kind string
	Payload      json.RawMessage
}

// SealedUse says how many sealed values name a key.
type SealedUse struct {
	// Live are in jobs that have not finished.
	Live int64 `json:"live"`
	// Webhooks are secrets of webhooks.
	Webhooks int64 `json:"webhooks"`
	// Failed are in jobs that can be retried.
	Failed int64 `json:"failed"`
	// Finished are in jobs that will not run again, as far as they were looked at.
	Finished int64 `json:"finished"`
}

// sealedKeys are the keys that the sealed values of a payload name, one row each.
const sealedKeys = `regexp_matches(payload::text, '\{"\$sealed": "[a-z0-9]+\.([a-z0-9-]+)\.', 'g') AS m`

// SealedUses counts sealed values by the names of their keys; secrets of webhooks that
// are not sealed are under the empty name. Of jobs that will
// not run again it looks at the newest finished, at most limit of them; looked says
// how many there were. A limit below zero looks at all, which takes as long as it takes.
func (s *Store) SealedUses(ctx context.Context, limit int) (uses map[string]SealedUse, looked int64, err error) {
	uses = map[string]SealedUse{}
	newest := any(limit)
	if limit < 0 {
		newest = nil // LIMIT NULL is no limit
	}
	const over = `state IN ('done', 'superseded', 'cancelled') AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT $1::bigint`
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM fenceline.jobs WHERE "+over+") x", newest).Scan(&looked)
	if err != nil {
		return nil, 0, fmt.Errorf("count finished jobs: %w", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT 'live', m[1], count(*) FROM (SELECT payload FROM fenceline.jobs WHERE state IN ('queued', 'running', 'cancelling')
			UNION ALL SELECT payload FROM `+openCalls+`) j, `+sealedKeys+` GROUP BY 2
		UNION ALL SELECT 'webhooks', CASE WHEN v.kept ~ '^v[0-9]+\.[a-z0-9-]+\.' THEN split_part(v.kept, '.', 2) ELSE '' END, count(*)
			FROM fenceline.notify_targets, LATERAL (VALUES (secret), (old_secret)) AS v(kept) WHERE v.kept IS NOT NULL GROUP BY 2
		UNION ALL SELECT 'failed', m[1], count(*) FROM fenceline.jobs, `+sealedKeys+` WHERE state = 'failed' GROUP BY 2
		UNION ALL SELECT 'finished', m[1], count(*) FROM (SELECT payload FROM fenceline.jobs WHERE `+over+`) j, `+sealedKeys+` GROUP BY 2`, newest)
	if err != nil {
		return nil, 0, fmt.Errorf("count sealed values: %w", err)
	}
	var what, key string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&what, &key, &n}, func() error {
		u := uses[key]
		switch what {
		case "live":
			u.Live = n
		case "webhooks":
			u.Webhooks = n
		case "failed":
			u.Failed = n
		default:
			u.Finished = n
		}
		uses[key] = u
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("count sealed values: %w", err)
	}
	return uses, looked, nil
}

// openCalls are the calls of batches that may still be made.
const openCalls = `(SELECT b.id, b.tenant, v.event, v.request ->> 'Kind' AS kind, v.request -> 'Payload' AS payload FROM fenceline.batches b,
	LATERAL (VALUES ('success', b.on_success), ('failure', b.on_failure), ('end', b.on_end)) AS v(event, request)
	WHERE b.settled_at IS NULL AND v.request IS NOT NULL) calls`

// SealedCall is the payload of a job that a batch will ask for.
type SealedCall struct {
	SealedJob        // its ID is the batch's
	Event     string // success, failure or end
}

// SealedCalls lists the calls of open batches that have a value sealed with another key than key.
func (s *Store) SealedCalls(ctx context.Context, key string) ([]SealedCall, error) {
	rows, err := s.pool.Query(ctx, "SELECT id, tenant, event, kind, payload::text FROM "+openCalls+` WHERE payload::text ~ ('\{"\$sealed": "(?![a-z0-9]+\.' || $1::text || '\.)')`, key)
	if err != nil {
		return nil, fmt.Errorf("look for sealed calls of batches: %w", err)
	}
	var list []SealedCall
	var c SealedCall
	var text string
	_, err = pgx.ForEachRow(rows, []any{&c.ID, &c.Tenant, &c.Event, &c.Kind, &text}, func() error {
		c.Payload = json.RawMessage(text)
		list = append(list, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for sealed calls of batches: %w", err)
	}
	return list, nil
}

// ResealCall replaces the payload of a call, if it is still what was read.
func (s *Store) ResealCall(ctx context.Context, c SealedCall, now json.RawMessage) error {
	column := map[string]string{"success": "on_success", "failure": "on_failure", "end": "on_end"}[c.Event]
	if column == "" {
		return fmt.Errorf("batch %s has no call for %q", c.ID, c.Event)
	}
	_, err := s.pool.Exec(ctx, "UPDATE fenceline.batches SET "+column+" = jsonb_set("+column+", '{Payload}', $2::jsonb) WHERE id = $1 AND "+column+" -> 'Payload' = $3::jsonb",
		c.ID, string(now), string(c.Payload))
	if err != nil {
		return fmt.Errorf("seal a call of batch %s: %w", c.ID, err)
	}
	return nil
}

// SealedOtherwise lists jobs that have a value sealed with another key than key:
// of those that can still run, or with all of all. Which ones is all that is read;
// their payloads come with [Store.SealedJobs].
func (s *Store) SealedOtherwise(ctx context.Context, key string, all bool) ([]uuid.UUID, error) {
	const other = ` AND payload::text ~ ('\{"\$sealed": "(?![a-z0-9]+\.' || $1::text || '\.)')`
	sql := `SELECT id FROM fenceline.jobs WHERE state = 'queued'` + other +
		` UNION ALL SELECT id FROM fenceline.jobs WHERE state IN ('running', 'cancelling')` + other +
		` UNION ALL SELECT id FROM fenceline.jobs WHERE state = 'failed'` + other
	if all {
		sql = `SELECT id FROM fenceline.jobs WHERE true` + other
	}
	return s.jobIDs(ctx, sql, key)
}

func texts(ids []uuid.UUID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return list
}

// SealedJobs reads the payloads of jobs, sealed as they are.
func (s *Store) SealedJobs(ctx context.Context, ids []uuid.UUID) ([]SealedJob, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, tenant, kind, payload::text FROM fenceline.jobs WHERE id = ANY($1::text[]::uuid[])`, texts(ids))
	if err != nil {
		return nil, fmt.Errorf("read sealed payloads: %w", err)
	}
	var list []SealedJob
	var j SealedJob
	var text string
	_, err = pgx.ForEachRow(rows, []any{&j.ID, &j.Tenant, &j.Kind, &text}, func() error {
		j.Payload = json.RawMessage(text)
		list = append(list, j)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read sealed payloads: %w", err)
	}
	return list, nil
}

// Reseal replaces the payloads of jobs, each only where it is still what was read:
// was and now belong together by their place. It answers those that it replaced.
// Rows that somebody holds are passed over, so that it waits for nobody while it holds some.
func (s *Store) Reseal(ctx context.Context, was []SealedJob, now []json.RawMessage) ([]uuid.UUID, error) {
	ids, before, after := make([]uuid.UUID, len(was)), make([]string, len(was)), make([]string, len(was))
	for i, j := range was {
		ids[i], before[i], after[i] = j.ID, string(j.Payload), string(now[i])
	}
	return s.jobIDs(ctx, `WITH fresh AS (
			SELECT j.id, v.after FROM unnest($1::text[], $2::text[], $3::text[]) AS v(id, before, after)
			JOIN fenceline.jobs j ON j.id = v.id::uuid AND j.payload = v.before::jsonb FOR NO KEY UPDATE OF j SKIP LOCKED)
		UPDATE fenceline.jobs j SET payload = fresh.after::jsonb FROM fresh WHERE j.id = fresh.id RETURNING j.id`, texts(ids), before, after)
}

func (s *Store) jobIDs(ctx context.Context, sql string, args ...any) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("sealed values: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("sealed values: %w", err)
	}
	return ids, nil
}
