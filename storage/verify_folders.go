package storage

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// walk looks from the files to the database: whatever lies there needs an owner.
// The files come in the order of their paths, those of one attempt together.
type walk struct {
	v       *verifier
	pending []*folder
	held    int       // names in pending
	odd     string    // the last path that was reported as a stranger's
	export  uuid.UUID // the last one seen
	done    int64     // exports
	total   int64
}

// folder is what lies at a place, or a part of it when that is a lot.
type folder struct {
	place   files.Place
	more    bool // there was a part before this one
	bytes   int64
	entries []entry
}

type entry struct {
	name string
	size int64
}

// all goes over everything that the store holds.
func (w *walk) all(ctx context.Context) error {
	if err := w.v.store.pool.QueryRow(ctx, "SELECT count(*) FROM fenceline.exports").Scan(&w.total); err != nil {
		return err
	}
	err := w.v.files.List(ctx, func(o files.Object) error {
		if o.Place.Export != w.export {
			w.next(o.Place.Export)
		}
		switch {
		case o.Place.Attempt != uuid.Nil:
			return w.add(ctx, o)
		case o.Place.Export != uuid.Nil && o.Path == o.Place.Export.String()+"/":
			return w.add(ctx, o) // empty, but does the export exist?
		}
		w.odds(o)
		return nil
	})
	if err != nil {
		return err
	}
	w.next(uuid.Nil)
	return w.flush(ctx)
}

// next tells that the export that was seen last is done.
func (w *walk) next(export uuid.UUID) {
	if w.export != uuid.Nil {
		w.done++
		w.v.progress("folders", w.done, max(w.total, w.done))
	}
	w.export = export
}

// odds reports what lies where nothing of ours does: once for all that a strange
// folder holds.
func (w *walk) odds(o files.Object) {
	top, rest, _ := strings.Cut(o.Path, "/")
	if o.Place.Export != uuid.Nil {
		name, _, _ := strings.Cut(rest, "/")
		top = path.Join(top, name)
	}
	if top != w.odd {
		w.odd = top
		w.v.stranger(Violation{Export: o.Place.Export, What: fmt.Sprintf("%q is nothing that Fenceline made", top)})
	}
}

// add collects what an attempt, or an export, holds.
func (w *walk) add(ctx context.Context, o files.Object) error {
	var last *folder
	if n := len(w.pending); n > 0 {
		last = w.pending[n-1]
	}
	same := last != nil && last.place == o.Place
	if full := len(w.pending) == verifyPage && !same || w.held >= 10*verifyPage; full {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if !same || len(w.pending) == 0 {
		last = &folder{place: o.Place, more: same}
		w.pending = append(w.pending, last)
	}
	if o.Name != "" {
		last.entries = append(last.entries, entry{o.Name, o.Size})
		last.bytes += o.Size
		w.held++
	}
	return nil
}

// owner is what the database knows about a folder.
type owner struct {
	place    files.Place
	folder   *folder
	exists   bool // the export
	issued   int64
	job      uuid.NullUUID
	state    *AttemptState // nil without an attempt of that export and token
	verdict  *AttemptState
	ended    *time.Time
	outdated *time.Time // since when it is replaced, or its export deleted
	beat     *time.Time
	probe    *time.Time
	expired  bool     // outdated, and kept for long enough since
	kept     bool     // by a rule, a pin or a hold, until that changes
	objects  []string // recorded
}

const ownersSQL = `SELECT f.export, f.token, f.attempt, e.id IS NOT NULL, coalesce(e.issued_token, 0), a.job_id, a.state, a.verdict,
		a.finished_at, o.outdated, a.heartbeat_at, a.probe_at, coalesce(o.outdated < clock_timestamp() - make_interval(secs => $4)
			AND (a.stay_until IS NULL OR a.stay_until < clock_timestamp()) AND (SELECT k.until FROM fenceline.kept(a.id, $4) k) IS NULL, false),
		coalesce(a.stay_until = 'infinity', false),
		ARRAY(SELECT object FROM fenceline.files WHERE attempt_id = a.id)
	FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS f(export, token, attempt)
	LEFT JOIN LATERAL (SELECT * FROM fenceline.exports WHERE id = f.export OFFSET 0) e ON true
	LEFT JOIN LATERAL (SELECT * FROM fenceline.attempts WHERE id = f.attempt AND export_id = f.export AND token = f.token OFFSET 0) a ON true
	CROSS JOIN LATERAL (SELECT CASE a.state WHEN 'superseded' THEN CASE WHEN a.stay_until < 'infinity' THEN greatest(a.replaced_at, a.stay_until) ELSE a.replaced_at END WHEN 'published' THEN e.deleted_at END AS outdated) o`

// flush looks the collected folders up. They were seen in the store before, and
// an attempt's row is there before its files: what has no row now has no owner.
func (w *walk) flush(ctx context.Context) error {
	if len(w.pending) == 0 {
		return nil
	}
	exports, tokens, attempts := make([]string, 0, verifyPage), make([]int64, 0, verifyPage), make([]string, 0, verifyPage)
	byAttempt := make(map[files.Place]*folder, len(w.pending))
	for _, f := range w.pending {
		exports, tokens, attempts = append(exports, f.place.Export.String()), append(tokens, f.place.Token), append(attempts, f.place.Attempt.String())
		byAttempt[f.place] = f
	}
	w.pending, w.held = w.pending[:0], 0
	rows, err := w.v.store.pool.Query(ctx, ownersSQL, exports, tokens, attempts, w.v.opt.Sweep.Superseded.Seconds())
	if err != nil {
		return err
	}
	owners, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o owner, err error) {
		err = row.Scan(&o.place.Export, &o.place.Token, &o.place.Attempt, &o.exists, &o.issued, &o.job, &o.state, &o.verdict,
			&o.ended, &o.outdated, &o.beat, &o.probe, &o.expired, &o.kept, &o.objects)
		o.folder = byAttempt[o.place]
		return o, err
	})
	if err != nil {
		return err
	}
	for _, o := range owners {
		if err := w.judge(ctx, o); err != nil {
			return fmt.Errorf("look at %s: %w", o.place, err)
		}
	}
	return nil
}

// judge says what a folder is: in use, garbage, or nobody's.
func (w *walk) judge(ctx context.Context, o owner) error {
	x := Violation{Law: "L7", Export: o.place.Export, Attempt: o.place.Attempt, Job: o.job.UUID}
	switch {
	case o.place.Token == 0 && o.exists:
		return nil
	case !o.exists:
		x.What = fmt.Sprintf("folder %s: there is no such export", strings.TrimSuffix(o.place.String(), "/0-"+uuid.Nil.String()))
	case o.state == nil && o.place.Token > o.issued:
		x.What = fmt.Sprintf("folder %s carries a token above %d, the highest that was given out: the database is older than its files", o.place, o.issued)
	case o.state == nil:
		x.What = fmt.Sprintf("folder %s: there is no such attempt", o.place)
	default:
		return w.judgeState(ctx, o, x)
	}
	if !o.folder.more {
		w.v.stranger(x)
	}
	return nil
}

func (w *walk) judgeState(ctx context.Context, o owner, x Violation) error {
	opt := w.v.opt.Sweep
	switch *o.state {
	case AttemptRunning, AttemptSealed:
		if w.v.due(o.beat, opt.Grace) && !o.folder.more {
			x.What = fmt.Sprintf("token %d gave no heartbeat since %s, but the last clean-up did not condemn it", o.place.Token, utc(o.beat))
			w.v.found(x)
		}
		if *o.state == AttemptSealed {
			w.unrecorded(o, x)
		}
		return nil
	case AttemptPublished, AttemptSuperseded:
		if o.expired {
			w.garbage(o, x, w.v.due(o.outdated, opt.Superseded), fmt.Sprintf("it was replaced or its export deleted at %s", utc(o.outdated)))
		} else {
			w.unrecorded(o, x)
		}
		return nil
	case AttemptDeleted:
		return w.deleted(ctx, o, x)
	}
	if o.kept {
		return nil // its export is on hold
	}
	w.garbage(o, x, w.v.due(o.ended, opt.Quarantine), fmt.Sprintf("it was %s at %s", *o.state, utc(o.ended)))
	return nil
}

// garbage counts a folder that a clean-up will take, and reports it if the last one had to.
func (w *walk) garbage(o owner, x Violation, due bool, why string) {
	w.v.sum.GarbageBytes += o.folder.bytes
	if o.folder.more {
		return
	}
	w.v.sum.Garbage++
	if due {
		x.What = fmt.Sprintf("the files of token %d are still there although the last clean-up had to take them: %s", o.place.Token, why)
		w.v.found(x)
	}
}

// deleted looks at the folder of a tombstone: a frozen worker may have written
// after the clean-up, which therefore looks again for a day.
func (w *walk) deleted(ctx context.Context, o owner, x Violation) error {
	there, err := w.v.files.Present(ctx, o.place)
	if err != nil || !there { // it was seen before the clean-up removed it
		return err
	}
	if o.probe != nil {
		w.garbage(o, x, w.v.drained != nil, fmt.Sprintf("they were deleted before; it will look again at %s", utc(o.probe)))
		return nil
	}
	x.What = fmt.Sprintf("the files of token %d are there again after they were deleted, and no clean-up will look again", o.place.Token)
	w.v.found(x)
	return nil
}

// unrecorded looks for names in the folder of a sealed attempt that it did not record.
func (w *walk) unrecorded(o owner, x Violation) {
	for _, e := range o.folder.entries {
		if slices.Contains(o.objects, e.name) || e.name == files.ManifestName {
			continue
		}
		x.What = fmt.Sprintf("%q is in the folder of token %d, which did not record it", path.Join(o.place.String(), e.name), o.place.Token)
		if !strings.HasSuffix(e.name, ".partial") || w.v.drained != nil {
			w.v.stranger(x)
			continue
		}
		w.v.sum.Garbage++ // a link was made and its temporary name stayed: it goes with its attempt
		w.v.sum.GarbageBytes += e.size
	}
}

// stranger reports a name without an owner. No clean-up takes it, so it is a
// warning; where the files must be exactly those that are owned, a violation.
func (v *verifier) stranger(x Violation) {
	v.sum.Unknown++
	x.Law, x.Warning = "L7", v.drained == nil
	v.found(x)
}

func utc(t *time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
