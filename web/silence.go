package web

import (
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// silentAfter is how long an attempt may give no heartbeat before the picture
// shows it: they come every second.
const silentAfter = 4 * time.Second

// silence is a time in which an attempt gave no heartbeat.
type silence struct {
	From, To time.Time
	// AtLeast says that it began earlier: the attempt beat again later, and its row keeps the last beat only.
	AtLeast bool
}

// Length is how long it lasted, as far as is known.
func (s silence) Length() time.Duration { return s.To.Sub(s.From) }

// takeover finds the attempt of the same job that began while a had no verdict
// yet: the job was handed on, because a was silent for the lease.
func takeover(a storage.Attempt, all []storage.Attempt, now time.Time) *storage.Attempt {
	for i, b := range all {
		if b.JobID == a.JobID && b.Number == a.Number+1 && b.StartedAt.Before(verdictTime(a, now)) {
			return &all[i]
		}
	}
	return nil
}

// verdictTime is when an attempt was decided; now while it is not.
func verdictTime(a storage.Attempt, now time.Time) time.Time {
	if a.FinishedAt == nil {
		return now
	}
	return *a.FinishedAt
}

// silenceOf is the time for which an attempt is known to have been silent, nil when there is none.
func silenceOf(a storage.Attempt, next *storage.Attempt, lease time.Duration, now time.Time) *silence {
	end := verdictTime(a, now)
	if next != nil && a.HeartbeatAt.After(next.StartedAt) { // it was heard again after it was given up
		from := next.StartedAt.Add(-lease)
		if from.Before(a.StartedAt) {
			from = a.StartedAt
		}
		return &silence{From: from, To: a.HeartbeatAt, AtLeast: true}
	}
	if next == nil && end.Sub(a.HeartbeatAt) < silentAfter {
		return nil
	}
	return &silence{From: a.HeartbeatAt, To: end}
}

// wasPublished says whether an attempt has ever been the current one.
func wasPublished(a storage.Attempt) bool {
	o := outcome(a)
	return o == storage.AttemptPublished || o == storage.AttemptSuperseded
}

// byToken finds the attempt with a token, nil when it is not in the list.
func byToken(all []storage.Attempt, token int64) *storage.Attempt {
	for i := range all {
		if all[i].Token == token {
			return &all[i]
		}
	}
	return nil
}

// byID finds an attempt, nil when it is not in the list.
func byID(all []storage.Attempt, id uuid.UUID) *storage.Attempt {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}
