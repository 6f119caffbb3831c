package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// Explanation says in a sentence why something stays or goes.
type Explanation struct {
	Subject string `json:"subject"` // as it was asked for, or the attempt of an export
	Class   Class  `json:"class"`   // "" for what was deleted, and for what is nothing
	// Outcome is stays, goes, gone, unknown, or missing: it should be there and is not.
	Outcome  string    `json:"outcome"`
	Sentence string    `json:"sentence"`
	Export   uuid.UUID `json:"export,omitzero"`
	Attempt  uuid.UUID `json:"attempt,omitzero"`
	Token    int64     `json:"token,omitempty"`
}

// mostExplained bounds the attempts of an export that are explained.
const mostExplained = 50

// story is an attempt with what is told about it.
type story struct {
	Attempt
	class                Class
	now                  time.Time
	tenant, kind, key    string
	deletedExport, probe *time.Time
	run                  *int64
	why                  *string
	kept                 *string    // what keeps its files
	keptUntil            *time.Time // nil with kept: until that changes
	rule                 RetentionRule
}

// Explain says why a file (by its path), an attempt or an export (by their ids)
// stays or goes, with the times and what would have to happen. An export has an
// answer for each of its newest attempts that still have files, or one when none has.
// [ErrNotFound] means that neither the database nor the store knows anything of it.
func (sw *Sweep) Explain(ctx context.Context, subject string) ([]Explanation, error) {
	id, err := uuid.Parse(subject)
	if err != nil {
		return sw.explainPath(ctx, subject)
	}
	if list, err := sw.stories(ctx, "WHERE a.id = $4", id); err != nil || len(list) > 0 {
		return sw.explainAll(ctx, subject, list, err)
	}
	list, err := sw.stories(ctx, fmt.Sprintf("WHERE a.export_id = $4 AND a.state <> 'deleted' ORDER BY a.token DESC LIMIT %d", mostExplained), id)
	if err != nil || len(list) > 0 {
		return sw.explainAll(ctx, "", list, err)
	}
	e, err := sw.store.Export(ctx, Scope{All: true}, id)
	if errors.Is(err, ErrNotFound) {
		return sw.explainFolder(ctx, id)
	}
	if errors.Is(err, ErrGone) {
		return []Explanation{{Subject: subject, Outcome: "gone", Export: id, Sentence: "the export was deleted and has no files"}}, nil
	}
	if err != nil {
		return nil, err
	}
	return []Explanation{{Subject: subject, Outcome: "gone", Export: e.ID, Sentence: "the export has no files: nothing of it was published, or all was deleted"}}, nil
}

func (sw *Sweep) explainAll(ctx context.Context, subject string, list []story, err error) ([]Explanation, error) {
	all := make([]Explanation, len(list))
	for i, s := range list {
		if all[i] = sw.explain(s); err == nil {
			err = sw.missing(ctx, &all[i], files.Place{Export: s.ExportID, Token: s.Token, Attempt: s.ID}, "")
		}
		all[i].Subject = subject
		if subject == "" {
			all[i].Subject = "attempt " + s.ID.String()
		}
	}
	return all, err
}

// explainPath is for a file of the store.
func (sw *Sweep) explainPath(ctx context.Context, name string) ([]Explanation, error) {
	o := files.At(name)
	if o.Place.Attempt == uuid.Nil {
		return sw.explainOther(ctx, name)
	}
	list, err := sw.stories(ctx, "WHERE a.id = $4 AND a.export_id = $5 AND a.token = $6", o.Place.Attempt, o.Place.Export, o.Place.Token)
	if err != nil {
		return nil, err
	}
	there, err := sw.files.Present(ctx, o.Place)
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0 && !there:
		return nil, nobodyKnows(name)
	case len(list) == 0:
		return unaccounted(name), nil
	}
	x := sw.explain(list[0])
	x.Subject = name
	if err := sw.missing(ctx, &x, o.Place, o.Name); err != nil {
		return nil, err
	}
	if x.Outcome != "missing" && x.Outcome != "gone" && !there {
		x.Sentence += fmt.Sprintf("; nothing lies at %s now", path.Clean(o.Place.String()))
	}
	return []Explanation{x}, nil
}

func (sw *Sweep) stories(ctx context.Context, where string, args ...any) ([]story, error) {
	o := sw.opt
	rows, err := sw.store.pool.Query(ctx, `SELECT a.id, a.export_id, a.token, a.state, a.verdict, a.worker, a.heartbeat_at, a.finished_at, a.replaced_at, a.deleted_at,
			a.probe_at, e.tenant, e.kind, e.key, e.deleted_at, clock_timestamp(), `+classSQL+`, d.run_id, d.why,
			CASE WHEN k.until IS NOT NULL THEN k.what END, CASE WHEN k.until < 'infinity' THEN k.until END, r.tenant, r.kind, r.current_days, r.superseded_days, coalesce(r.superseded_keep, 0), coalesce(r.id, 0)
		FROM fenceline.attempts a JOIN fenceline.exports e ON e.id = a.export_id
		LEFT JOIN LATERAL fenceline.kept(a.id, $3) k ON true LEFT JOIN fenceline.retention r ON r.id = k.rule
		LEFT JOIN LATERAL (SELECT run_id, why FROM fenceline.sweep_deletions WHERE attempt_id = a.id ORDER BY id LIMIT 1) d ON true `+where,
		append([]any{o.Grace.Seconds(), o.Quarantine.Seconds(), o.Superseded.Seconds()}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("look up attempts: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s story, err error) {
		err = row.Scan(&s.ID, &s.ExportID, &s.Token, &s.State, &s.Verdict, &s.Worker, &s.HeartbeatAt, &s.FinishedAt, &s.ReplacedAt, &s.DeletedAt,
			&s.probe, &s.tenant, &s.kind, &s.key, &s.deletedExport, &s.now, &s.class, &s.run, &s.why,
			&s.kept, &s.keptUntil, &s.rule.Tenant, &s.rule.Kind, &s.rule.CurrentDays, &s.rule.SupersededDays, &s.rule.SupersededKeep, &s.rule.ID)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("look up attempts: %w", err)
	}
	return list, nil
}

// explain is the sentence about one attempt.
func (sw *Sweep) explain(s story) Explanation {
	x := Explanation{Class: s.class, Export: s.ExportID, Attempt: s.ID, Token: s.Token, Outcome: "stays"}
	if s.class == ClassOrphan || s.class == ClassQuarantined || s.class == ClassRetained {
		x.Outcome = "goes"
	}
	of := fmt.Sprintf("%s / %s / %s", s.tenant, s.kind, s.key)
	var text string
	switch s.State {
	case AttemptDeleted:
		x.Class, x.Outcome = "", "gone"
		text = s.gone()
	case AttemptRunning, AttemptSealed:
		text = fmt.Sprintf("attempt of worker %s, last heartbeat %s", s.Worker, ago(s.now, s.HeartbeatAt))
		if s.class == ClassLive {
			text = "live " + text + fmt.Sprintf("; it would have to be silent for %s to be condemned", sw.opt.Grace)
		} else {
			text += fmt.Sprintf(": silent for more than %s, so the next run condemns it, and its files go %s after that", sw.opt.Grace, sw.opt.Quarantine)
		}
	case AttemptPublished:
		text = "it is the current file of " + of + "; it would have to be replaced by a newer publication, or its export deleted" + s.current()
		if s.deletedExport != nil {
			text = fmt.Sprintf("its export %s was deleted at %s, %s", of, utc(s.deletedExport), s.until("its readers have time", *s.deletedExport, sw.opt.Superseded))
		}
	case AttemptSuperseded:
		text = fmt.Sprintf("was replaced by a newer publication of %s at %s, %s", of, utc(s.ReplacedAt), s.until("its readers have time", *s.ReplacedAt, sw.opt.Superseded))
	default:
		text = fmt.Sprintf("was %s at %s, %s", s.State, utc(s.FinishedAt), s.until("its quarantine", *s.FinishedAt, sw.opt.Quarantine))
	}
	text = s.byKeeping(&x, text, of)
	x.Sentence = x.Outcome + ": " + text
	if x.Outcome == "gone" {
		x.Sentence = text
	}
	return x
}

// until says when a time ends, or that it has.
func (s story) until(what string, since time.Time, long time.Duration) string {
	end := since.Add(long)
	verb := "ends at"
	if strings.HasSuffix(what, "time") {
		verb = "until"
	}
	if end.After(s.now) {
		return fmt.Sprintf("%s %s %s, and the next run after that deletes it", what, verb, utc(&end))
	}
	if verb == "until" {
		return fmt.Sprintf("%s had time until %s, and the next run deletes it", strings.TrimSuffix(what, " have time"), utc(&end))
	}
	return fmt.Sprintf("%s ended at %s, and the next run deletes it", what, utc(&end))
}

// byKeeping says what a hold, a pin or a rule makes of it.
func (s story) byKeeping(x *Explanation, text, of string) string {
	switch {
	case s.kept != nil && (*s.kept == "hold" || *s.kept == "pin"):
		x.Outcome = "stays"
		word := "is on hold; the hold would have to be released"
		if *s.kept == "pin" {
			word = "is pinned; it would have to be unpinned"
		}
		return fmt.Sprintf("it, or its export %s, %s", of, word)
	case s.State != AttemptSuperseded || s.deletedExport != nil || s.rule.ID == 0:
		return text
	}
	text = fmt.Sprintf("was replaced by a newer publication of %s at %s; %s keeps %s", of, utc(s.ReplacedAt), s.rule.Name(), s.rule.Superseded())
	switch {
	case s.kept == nil:
		return text + ", and the next run deletes it"
	case s.keptUntil != nil:
		return text + fmt.Sprintf(", so it stays until %s, and the next run after that deletes it", utc(s.keptUntil))
	case *s.kept == "newest":
		x.Outcome = "stays"
		return text + ", and it is one of these"
	}
	x.Outcome = "stays"
	return text
}

// current says for how long a current publication stays when nothing replaces it.
func (s story) current() string {
	if s.rule.ID == 0 || s.rule.CurrentDays == nil || s.keptUntil == nil {
		return ""
	}
	return fmt.Sprintf("; %s keeps it %s, until %s", s.rule.Name(), s.rule.Current(), utc(s.keptUntil))
}

// gone tells of what was deleted.
func (s story) gone() string {
	text := "was deleted at " + utc(s.DeletedAt)
	if s.Verdict != nil {
		text += fmt.Sprintf(", after it was %s", *s.Verdict)
	}
	if s.run != nil {
		text += fmt.Sprintf(", by run %d because it %s", *s.run, *s.why)
	}
	if s.probe != nil {
		text += fmt.Sprintf("; its folder is looked at again at %s, in case a frozen worker wrote after that", utc(s.probe))
	}
	return text
}
