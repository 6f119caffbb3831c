package storage

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// AttemptState is where an attempt stands. The database allows these edges and
// no others:
//
//	running → sealed → published → superseded → deleted
//	running or sealed → fenced, failed, cancelled, condemned → deleted
type AttemptState string

// The states of an attempt.
const (
	AttemptRunning    AttemptState = "running"
	AttemptSealed     AttemptState = "sealed"
	AttemptPublished  AttemptState = "published"
	AttemptSuperseded AttemptState = "superseded"
	AttemptFenced     AttemptState = "fenced"
	AttemptFailed     AttemptState = "failed"
	AttemptCancelled  AttemptState = "cancelled"
	AttemptCondemned  AttemptState = "condemned"
	AttemptDeleted    AttemptState = "deleted"
)

// Attempt is one worker's try at a job.
type Attempt struct {
	ID       uuid.UUID    `json:"id"`
	ExportID uuid.UUID    `json:"export_id"`
	JobID    uuid.UUID    `json:"job_id"`
	Number   int          `json:"number"`
	Token    int64        `json:"token"`
	State    AttemptState `json:"state"`
	// Verdict is how the attempt came out: the state it had before its files were deleted.
	Verdict *AttemptState `json:"verdict,omitempty"`
	Worker  string        `json:"worker"`
	// LeaseOrder is the order that the lock service gave to the lease that the attempt began under, for
	// people: nothing is compared with it. The zero value when the service gives none.
	LeaseOrder   LeaseOrder      `json:"lease_order,omitzero" gorm:"embedded;embeddedPrefix:lease_order_"`
	Step         string          `json:"step"`
	Rows         int64           `json:"rows"`
	RowsExpected *int64          `json:"rows_expected,omitempty"`
	Bytes        int64           `json:"bytes"`
	DataAsOf     *time.Time      `json:"data_as_of,omitempty"`
	Warnings     json.RawMessage `json:"warnings,omitempty"`
	// Reason says in a word why the attempt ended: error, timeout, panic, lease_lost, worker_stopped,
	// cancelled, no_heartbeat, newer_token, newer_attempt, newer_job, handed_on, export_deleted,
	// recovery (condemned by one), recovery_needed, or, of a published one, adopted.
	Reason      *string    `json:"reason,omitempty"`
	Error       *string    `json:"error,omitempty"`
	FencedBy    *int64     `json:"fenced_by,omitempty"`
	StartedAt   time.Time  `json:"started_at"`
	HeartbeatAt time.Time  `json:"heartbeat_at"`
	SealedAt    *time.Time `json:"sealed_at,omitempty"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
	ReplacedAt  *time.Time `json:"replaced_at,omitempty"`
	DeletedAt   *time.Time `json:"deleted_at,omitempty"`
}

// TableName names the table for gorm.
func (Attempt) TableName() string { return "fenceline.attempts" }

// File is one file of an attempt, recorded when the attempt was sealed.
type File struct {
	AttemptID uuid.UUID `json:"-"`
	Ordinal   int       `json:"-"`
	Name      string    `json:"name"`
	Object    string    `json:"-"`
	Format    string    `json:"format"`
	MediaType string    `json:"media_type"`
	Size      int64     `json:"size"`
	SHA256    HexBytes  `json:"sha256" gorm:"column:sha256"`
	Rows      int64     `json:"rows"`
}

// TableName names the table for gorm.
func (File) TableName() string { return "fenceline.files" }

// HexBytes are bytes that JSON shows in hexadecimal.
type HexBytes []byte

// String is the bytes in lower-case hexadecimal.
func (h HexBytes) String() string { return hex.EncodeToString(h) }

// MarshalText is [HexBytes.String].
func (h HexBytes) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads hexadecimal.
func (h *HexBytes) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	*h = b
	return err
}

// Progress is what a heartbeat reports.
type Progress struct {
	Step     string // read, write, seal or publish
	Rows     int64
	Expected *int64 // rows, when known
	Bytes    int64
}

// Heartbeat tells that an attempt is alive and how far it is, and answers nil
// while it should go on: [ErrCancelled], [ErrCondemned] or [ErrFenced] say that
// it cannot publish any more. The time of the heartbeat is the database's.
func (s *Store) Heartbeat(ctx context.Context, attempt uuid.UUID, p Progress) error {
	var state, job string
	var mine bool
	err := s.pool.QueryRow(ctx, "SELECT coalesce(attempt_state, 'unknown'), coalesce(job_state, ''), coalesce(mine, false) FROM fenceline.heartbeat($1, $2, $3, $4, $5)",
		attempt, p.Step, p.Rows, p.Expected, p.Bytes).Scan(&state, &job, &mine)
	if err != nil {
		return fmt.Errorf("heartbeat of attempt %s: %w", attempt, err)
	}
	switch {
	case state == "published" || state == "superseded":
		return nil
	case state != "running" && state != "sealed":
		return found(attempt, state)
	case mine && (job == "cancelling" || job == "cancelled"):
		return ErrCancelled
	case !mine || job != "running": // failed: too many workers fell silent over it
		return &FencedError{Reason: "handed_on"}
	}
	return nil
}

// Sealed is what an attempt has written, complete and durable.
type Sealed struct {
	Rows int64
	// DataAsOf is a time that the data is not older than; the zero time stands for the attempt's start.
	DataAsOf time.Time
	Warnings any // kept as JSON, nil for none
	Files    []File
}

// Seal records the attempt's files. From then on only publish, end or condemn
// change it. It fails with [ErrCondemned] and the like when it came too late.
func (s *Store) Seal(ctx context.Context, attempt uuid.UUID, sealed Sealed) error {
	files, err := json.Marshal(recordsOf(sealed.Files))
	if err != nil {
		return fmt.Errorf("seal attempt %s: %w", attempt, err)
	}
	var warnings *string // JSON goes as text: behind a pooler pgx cannot ask what type a parameter has
	if sealed.Warnings != nil {
		raw, err := json.Marshal(sealed.Warnings)
		if err != nil {
			return fmt.Errorf("seal attempt %s: %w", attempt, err)
		}
		warnings = new(string(raw))
	}
	var asOf *time.Time
	if !sealed.DataAsOf.IsZero() {
		asOf = &sealed.DataAsOf
	}
	var state string
	err = decide(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT fenceline.seal_attempt($1, $2, $3, $4, $5)",
			attempt, sealed.Rows, asOf, warnings, string(files)).Scan(&state)
	})
	if err != nil {
		return fmt.Errorf("seal attempt %s: %w", attempt, err)
	}
	if state != "sealed" {
		return found(attempt, state)
	}
	return nil
}

// Ending is how an attempt that will not publish gives up.
type Ending struct {
	State  AttemptState // failed, fenced or cancelled
	Reason string       // see [Attempt.Reason]
	Error  string       // what went wrong, for a person; empty when nothing did
	// Counts says that it was the job's failure and uses up one of its attempts; a worker that
	// stops or a lease that was lost is not.
	Counts bool
	// Final says that trying again is of no use.
	Final bool
	Retry time.Duration // how long the job waits before it is due again
}

// EndAttempt gives an attempt up and answers what became of its job: "queued",
// "failed", "cancelled", or "stale" when the job was no longer this attempt's
// and therefore was not touched. An attempt that was decided before keeps its
// verdict, and its state is the answer.
func (s *Store) EndAttempt(ctx context.Context, attempt uuid.UUID, e Ending) (string, error) {
	var became string
	var text *string
	if e.Error != "" {
		text = &e.Error
	}
	err := decide(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT fenceline.end_attempt($1, $2, $3, $4, $5, $6, $7)",
			attempt, string(e.State), e.Reason, text, e.Counts, e.Final, e.Retry.Seconds()).Scan(&became)
	})
	if err != nil {
		return "", fmt.Errorf("end attempt %s: %w", attempt, err)
	}
	return became, nil
}
