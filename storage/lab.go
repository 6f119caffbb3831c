package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// LabRun is what `fenceline lab` saw of one backend of leases.
type LabRun struct {
	Backend string     `json:"backend"`
	Server  string     `json:"server"` // what it ran against, in words; never an address
	At      time.Time  `json:"at"`
	LeaseMS int64      `json:"lease_ms"`
	Faults  []LabFault `json:"faults"`
}

// LabFault is one story with one fault in it. Two processes, A and B, want the
// same lease. A takes 60 from a balance of 500, B takes 50; A has read 500 before
// B writes, so that the balance is 440 at its end when A's older write wins, and 450 when it is refused.
type LabFault struct {
	Fault string `json:"fault"` // its name, as in --fault
	Title string `json:"title"`
	// Skipped says why it was not played; then there is nothing else.
	Skipped string      `json:"skipped,omitempty"`
	Events  []LabEvent  `json:"events,omitempty"` // in the order of their times
	Beliefs []LabBelief `json:"beliefs,omitempty"`
	// TakeoverMS is how long after the fault B had the lease, OverlapMS for how long A and B both believed to hold it.
	TakeoverMS int64 `json:"takeover_ms"`
	OverlapMS  int64 `json:"overlap_ms"`
	// Order is the service's own number of A's lease and of B's, where it gives one.
	Order []string `json:"order,omitempty"`
	// Fenced is the balance at the end where the fence was asked, Unfenced where nobody was.
	Fenced   int64 `json:"fenced"`
	Unfenced int64 `json:"unfenced"`
	// Right is that the fenced balance is the one that B had published, Lost that the other one is not.
	Right bool `json:"right"`
	Lost  bool `json:"lost_update"`
	// Freed is that A's release has freed the lease of B.
	Freed   bool   `json:"freed,omitempty"`
	Verdict string `json:"verdict"`
}

// What an event of the lab is, for its picture.
const (
	LabTook     = "took"     // has the lease
	LabBusy     = "busy"     // was told that somebody else has it
	LabLooked   = "looked"   // at its lease, the last time before its write
	LabFroze    = "froze"    // was frozen
	LabWoke     = "woke"     // goes on
	LabKilled   = "killed"   // is gone
	LabCut      = "cut"      // cannot reach the service any more
	LabFailed   = "failed"   // the primary server is gone
	LabPromoted = "promoted" // its replica has its place
	LabLost     = "lost"     // learned that it has lost the lease
	LabReleased = "released" // gave the lease back
	LabWrote    = "wrote"    // where no fence is
	LabAccepted = "accepted" // by the fence
	LabRefused  = "refused"  // by the fence
	LabNote     = "note"     // anything else
)

// LabEvent is something that happened, in milliseconds since the story began, by the clock of the machine.
type LabEvent struct {
	AtMS int64  `json:"at_ms"`
	Who  string `json:"who"` // A, B or the lab
	Kind string `json:"kind"`
	What string `json:"what"`
	// Value is the balance that was written or refused, if it was one of these.
	Value int64 `json:"value,omitempty"`
}

// LabBelief is a time in which somebody believed to hold the lease, however rightly.
type LabBelief struct {
	Who    string `json:"who"`
	FromMS int64  `json:"from_ms"`
	ToMS   int64  `json:"to_ms"`
	// End is how it ended: lost, released, killed, or open when the story was over before.
	End string `json:"end"`
}

// SaveLab keeps what the lab saw of a backend in the place of what it saw before.
func (s *Store) SaveLab(ctx context.Context, run LabRun) error {
	text, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("keep the result of the lab: %w", err)
	}
	_, err = s.pool.Exec(ctx, `INSERT INTO fenceline.lab_results (backend, ran_at, result) VALUES ($1, $2, $3)
		ON CONFLICT (backend) DO UPDATE SET ran_at = excluded.ran_at, result = excluded.result`, run.Backend, run.At, string(text))
	if err != nil {
		return fmt.Errorf("keep the result of the lab: %w", err)
	}
	return nil
}

// LabRuns are the last results of the lab, one of each backend, by their names.
func (s *Store) LabRuns(ctx context.Context) ([]LabRun, error) {
	rows, err := s.pool.Query(ctx, "SELECT result::text FROM fenceline.lab_results ORDER BY backend")
	if err != nil {
		return nil, fmt.Errorf("read the results of the lab: %w", err)
	}
	defer rows.Close()
	var list []LabRun
	for rows.Next() {
		var text string
		var run LabRun
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("read the results of the lab: %w", err)
		}
		if err := json.Unmarshal([]byte(text), &run); err != nil {
			return nil, fmt.Errorf("read the result of the lab: %w", err)
		}
		list = append(list, run)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the results of the lab: %w", err)
	}
	return list, nil
}
