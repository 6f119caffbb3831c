package web

import (
	"fmt"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// story is what the page tells about an attempt that was fenced out.
type story struct {
	Token   int64
	Worker  string
	At      time.Time
	Reason  string
	Silent  *silence
	Bytes   int64
	SweptAt *time.Time
	// Next is the attempt of the same job that took over, if one did.
	Next *storage.Attempt
	// By is the attempt whose token was ahead, when it is among those shown; Ahead is its token, 0 when unknown.
	By    *storage.Attempt
	Ahead int64
}

// NextPublished is when the attempt that took over was published; nil when it was not.
func (s story) NextPublished() *time.Time { return publishedAt(s.Next) }

// ByPublished is when the attempt that was ahead was published; nil when it was not.
func (s story) ByPublished() *time.Time { return publishedAt(s.By) }

// ByOther says that the attempt that was ahead is not the one that took over.
func (s story) ByOther() bool { return s.Next == nil || s.Next.Token != s.Ahead }

func publishedAt(a *storage.Attempt) *time.Time {
	if a == nil || !wasPublished(*a) {
		return nil
	}
	return a.FinishedAt
}

// fencedStories tells about every fenced attempt, the newest first.
func fencedStories(attempts []storage.Attempt, lease time.Duration, now time.Time) []story {
	var list []story
	for _, a := range attempts {
		if outcome(a) != storage.AttemptFenced || a.FinishedAt == nil {
			continue
		}
		next := takeover(a, attempts, now)
		s := story{
			Token: a.Token, Worker: a.Worker, At: *a.FinishedAt, Bytes: a.Bytes, SweptAt: a.DeletedAt,
			Next: next, Silent: silenceOf(a, next, lease, now),
		}
		if s.Silent != nil && next != nil && s.Silent.From.Before(next.StartedAt) {
			s.Silent.To = next.StartedAt // what the takeover waited for
		} else if next != nil {
			s.Silent = nil
		}
		if a.Reason != nil {
			s.Reason = *a.Reason
		}
		if a.FencedBy != nil && *a.FencedBy > a.Token {
			s.Ahead, s.By = *a.FencedBy, byToken(attempts, *a.FencedBy)
		}
		list = append(list, s)
	}
	return list
}

// attemptRow is a line of a table of attempts.
type attemptRow struct {
	storage.Attempt
	Chip chip
	Why  string
	// Detail is what Why leaves out, such as the rest of an error; empty when there is none.
	Detail   string
	Stack    string // of a panic, for those who may see it
	Progress *progress
}

// Took is how long an attempt took until its verdict, or has been at it.
func (r attemptRow) Took(now time.Time) string {
	return showDuration(verdictTime(r.Attempt, now).Sub(r.StartedAt))
}

func attemptRows(attempts []storage.Attempt, current bool, now time.Time) []attemptRow {
	rows := make([]attemptRow, len(attempts))
	for i, a := range attempts {
		rows[i] = attemptRow{Attempt: a, Chip: attemptChip(a), Why: why(a, attempts, now)}
		if current && a.State == storage.AttemptPublished {
			rows[i].Why = "newest published token: the current files are its"
		}
		if a.FinishedAt == nil {
			p := stepProgress(a.Step, a.Rows, a.RowsExpected)
			rows[i].Progress = &p
		}
		if a.Error == nil {
			continue
		}
		message, stack := splitStack(*a.Error)
		if rows[i].Stack = stack; message != rows[i].Why {
			rows[i].Detail = message
		}
	}
	return rows
}

// why says in a few words why an attempt came out as it did.
func why(a storage.Attempt, all []storage.Attempt, now time.Time) string {
	switch outcome(a) {
	case storage.AttemptPublished:
		return "newest published token"
	case storage.AttemptSuperseded:
		return whySuperseded(a, all)
	case storage.AttemptFenced:
		return whyFenced(a)
	case storage.AttemptFailed:
		return whyFailed(a)
	case storage.AttemptCancelled:
		return "the job was cancelled"
	case storage.AttemptCondemned:
		return fmt.Sprintf("no heartbeat for %s, so it can never be published", showDuration(verdictTime(a, now).Sub(a.HeartbeatAt)))
	}
	return ""
}

func whySuperseded(a storage.Attempt, all []storage.Attempt) string {
	if a.ReplacedAt == nil || a.FinishedAt == nil {
		return "replaced by a newer publication"
	}
	by := "a newer publication"
	for _, b := range all { // the newest first: the last match is the next publication
		if b.Token > a.Token && wasPublished(b) {
			by = fmt.Sprint(b.Token)
		}
	}
	return fmt.Sprintf("replaced by %s after %s", by, showDuration(a.ReplacedAt.Sub(*a.FinishedAt)))
}

func whyFenced(a storage.Attempt) string {
	ahead := int64(0)
	if a.FencedBy != nil {
		ahead = *a.FencedBy
	}
	reason := ""
	if a.Reason != nil {
		reason = *a.Reason
	}
	switch {
	case reason == "newer_token":
		return fmt.Sprintf("token %d was drawn before it began to read", ahead)
	case reason == "handed_on" && ahead > a.Token:
		return fmt.Sprintf("its job had been handed on to %d", ahead)
	case reason == "handed_on":
		return "its job had been handed on"
	case reason == "newer_job":
		return fmt.Sprintf("%d < %d of a newer job, refused by the database", a.Token, ahead)
	case ahead > a.Token:
		return fmt.Sprintf("%d < %d, refused by the database", a.Token, ahead)
	}
	return "refused by the database"
}

func whyFailed(a storage.Attempt) string {
	reason := ""
	if a.Reason != nil {
		reason = *a.Reason
	}
	switch reason {
	case "timeout":
		return "took longer than the job allows"
	case "lease_lost":
		return "lost its lease; the job was given back"
	case "worker_stopped":
		return "its worker was stopped; the job was given back"
	case "export_deleted":
		return "the export was deleted"
	}
	if a.Error != nil {
		return cut(firstLine(*a.Error), 160)
	}
	return reason
}
