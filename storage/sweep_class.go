package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// Class is what a file is to the clean-up.
type Class string

// The classes of files.
const (
	ClassCurrent     Class = "current"     // the pointer of its export names it
	ClassRetained    Class = "retained"    // replaced, or of a deleted export, and kept for its readers
	ClassLive        Class = "live"        // of an attempt at work
	ClassQuarantined Class = "quarantined" // of an attempt that lost, until its quarantine ends
	ClassOrphan      Class = "orphan"      // waits for the next run
	ClassUnknown     Class = "unknown"     // no attempt accounts for it; never deleted
	ClassMissing     Class = "missing"     // it should be there and is not, or not as recorded
)

// Classes are all classes, in the order in which they are shown.
func Classes() []Class {
	return []Class{ClassCurrent, ClassRetained, ClassLive, ClassQuarantined, ClassOrphan, ClassUnknown, ClassMissing}
}

// keptSQL is until when something keeps the files of attempt a; $3 is as for classSQL.
const keptSQL = "(SELECT k.until FROM fenceline.kept(a.id, $3) k)"

// classSQL tells the class of attempt a of export e; $1 to $3 are the grace, the
// quarantine and how long replaced files are kept, in seconds.
const classSQL = `CASE
	WHEN a.state = 'published' AND e.deleted_at IS NULL THEN 'current'
	WHEN a.state = 'published' THEN CASE WHEN e.deleted_at < clock_timestamp() - make_interval(secs => $3) AND ` + keptSQL + ` IS NULL THEN 'orphan' ELSE 'retained' END
	WHEN a.state = 'superseded' THEN CASE WHEN a.replaced_at < clock_timestamp() - make_interval(secs => $3) AND ` + keptSQL + ` IS NULL THEN 'orphan' ELSE 'retained' END
	WHEN a.state IN ('running', 'sealed') THEN CASE WHEN a.heartbeat_at < clock_timestamp() - make_interval(secs => $1) THEN 'orphan' ELSE 'live' END
	WHEN a.state = 'deleted' THEN CASE WHEN a.probe_at IS NULL THEN 'unknown' ELSE 'orphan' END
	WHEN ` + keptSQL + ` IS NOT NULL THEN 'retained'
	WHEN a.finished_at < clock_timestamp() - make_interval(secs => $2) THEN 'orphan'
	ELSE 'quarantined' END`

// holding is an attempt as the audit sees it: what it is and which files it has recorded.
type holding struct {
	place   files.Place
	state   AttemptState
	class   Class
	objects []string
	sizes   []int64
}

const holdingSQL = `SELECT a.export_id, a.token, a.id, a.state, ` + classSQL + `,
		ARRAY(SELECT object FROM fenceline.files WHERE attempt_id = a.id ORDER BY ordinal),
		ARRAY(SELECT size FROM fenceline.files WHERE attempt_id = a.id ORDER BY ordinal)
	FROM fenceline.attempts a JOIN fenceline.exports e ON e.id = a.export_id `

// promised reports whether the files that an attempt recorded must be there.
func (h holding) promised() bool {
	return h.class == ClassCurrent || h.class == ClassRetained || h.class == ClassLive && h.state == AttemptSealed
}

// folder is the name under which the files lie below the export's.
func (h holding) folder() string { return folderOf(h.place) }

func folderOf(p files.Place) string { return fmt.Sprintf("%d-%s", p.Token, p.Attempt) }

func (sw *Sweep) holdings(ctx context.Context, where string, args ...any) ([]holding, error) {
	o := sw.opt
	rows, err := sw.store.pool.Query(ctx, holdingSQL+where, append([]any{o.Grace.Seconds(), o.Quarantine.Seconds(), o.Superseded.Seconds()}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h holding, err error) {
		err = row.Scan(&h.place.Export, &h.place.Token, &h.place.Attempt, &h.state, &h.class, &h.objects, &h.sizes)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	return list, nil
}

// holding looks at one attempt afresh; ok is false when there is none at this place.
func (sw *Sweep) holding(ctx context.Context, p files.Place) (h holding, ok bool, err error) {
	list, err := sw.holdings(ctx, "WHERE a.id = $4 AND a.export_id = $5 AND a.token = $6", p.Attempt, p.Export, p.Token)
	if err != nil || len(list) == 0 {
		return h, false, err
	}
	return list[0], true, nil
}

// auditPage is how many attempts are read at once.
const auditPage = 1000

// holders yields the attempts that are no tombstones in the order in which a store
// lists their folders, a page at a time by keyset.
type holders struct {
	sw     *Sweep
	page   []holding
	export uuid.UUID
	folder string
	ended  bool
}

// peek is the next one; nil at the end.
func (hs *holders) peek(ctx context.Context) (*holding, error) {
	if len(hs.page) == 0 && !hs.ended {
		const key = `(a.token::text || '-' || a.id::text) COLLATE "C"`
		var err error
		hs.page, err = hs.sw.holdings(ctx, `WHERE a.state <> 'deleted' AND (a.export_id, `+key+`) > ($4::uuid, $5::text COLLATE "C")
			ORDER BY a.export_id, `+key+fmt.Sprintf(" LIMIT %d", auditPage), hs.export, hs.folder)
		if err != nil {
			return nil, err
		}
		hs.ended = len(hs.page) < auditPage
		if n := len(hs.page); n > 0 {
			hs.export, hs.folder = hs.page[n-1].place.Export, hs.page[n-1].folder()
		}
	}
	if len(hs.page) == 0 {
		return nil, nil
	}
	return &hs.page[0], nil
}

func (hs *holders) pop() { hs.page = hs.page[1:] }

// ago is how long ago a time was, for people.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	if d < time.Minute {
		return fmt.Sprintf("%d s ago", int(max(d, 0).Seconds()))
	}
	return d.Round(time.Minute).String() + " ago"
}
