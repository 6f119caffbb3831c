package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// walk looks from the files to the database: whatever lies there needs an owner.
// Names are read from the disk a part at a time, however many a folder has.
type walk struct {
	v       *verifier
	root    *os.Root
	pending []files.Place
	done    int64 // folders of exports
	total   int64
}

// markName begins the names of the root's mark and, after a dot, of marks that a killed start left.
const markName = "FENCELINE.json"

// all goes over the folders of exports.
func (w *walk) all(ctx context.Context) error {
	if err := w.v.store.pool.QueryRow(ctx, "SELECT count(*) FROM fenceline.exports").Scan(&w.total); err != nil {
		return err
	}
	err := w.names(ctx, ".", func(e fs.DirEntry) error {
		if strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), markName) {
			return nil
		}
		export, err := uuid.Parse(e.Name())
		if err != nil || export.String() != e.Name() || !e.IsDir() {
			w.v.stranger(Violation{What: fmt.Sprintf("%q is nothing that Fenceline made", e.Name())})
			return nil
		}
		return w.export(ctx, export)
	})
	if err != nil {
		return err
	}
	return w.flush(ctx)
}

// export collects the attempts' folders of one export.
func (w *walk) export(ctx context.Context, export uuid.UUID) error {
	any := false
	err := w.names(ctx, export.String(), func(e fs.DirEntry) error {
		any = true
		p, ok := parsePlace(export, e.Name())
		if !ok || !e.IsDir() {
			w.v.stranger(Violation{Export: export, What: fmt.Sprintf("%q is nothing that Fenceline made", path.Join(export.String(), e.Name()))})
			return nil
		}
		return w.add(ctx, p)
	})
	if err == nil && !any {
		err = w.add(ctx, files.Place{Export: export}) // empty, but does the export exist?
	}
	w.done++
	w.v.progress("folders", w.done, max(w.total, w.done))
	return err
}

func (w *walk) add(ctx context.Context, p files.Place) error {
	w.pending = append(w.pending, p)
	if len(w.pending) < verifyPage {
		return nil
	}
	return w.flush(ctx)
}

// names calls fn for each name in a folder; one that is gone has none.
func (w *walk) names(ctx context.Context, dir string, fn func(fs.DirEntry) error) error {
	f, err := w.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, err := f.ReadDir(verifyPage)
		for _, e := range list {
			if err := fn(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// parsePlace reads the name of an attempt's folder, exactly as [files.Place] writes it.
func parsePlace(export uuid.UUID, name string) (files.Place, bool) {
	digits, id, _ := strings.Cut(name, "-")
	token, err1 := strconv.ParseInt(digits, 10, 64)
	attempt, err2 := uuid.Parse(id)
	p := files.Place{Export: export, Token: token, Attempt: attempt}
	return p, err1 == nil && err2 == nil && token > 0 && p.String() == path.Join(export.String(), name)
}

// owner is what the database knows about a folder.
type owner struct {
	place    files.Place
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
	objects  []string // recorded
}

const ownersSQL = `SELECT f.export, f.token, f.attempt, e.id IS NOT NULL, coalesce(e.issued_token, 0), a.job_id, a.state, a.verdict,
		a.finished_at, o.outdated, a.heartbeat_at, a.probe_at, coalesce(o.outdated < clock_timestamp() - make_interval(secs => $4), false),
		ARRAY(SELECT object FROM fenceline.files WHERE attempt_id = a.id)
	FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS f(export, token, attempt)
	LEFT JOIN LATERAL (SELECT * FROM fenceline.exports WHERE id = f.export OFFSET 0) e ON true
	LEFT JOIN LATERAL (SELECT * FROM fenceline.attempts WHERE id = f.attempt AND export_id = f.export AND token = f.token OFFSET 0) a ON true
	CROSS JOIN LATERAL (SELECT CASE a.state WHEN 'superseded' THEN a.replaced_at WHEN 'published' THEN e.deleted_at END AS outdated) o`

// flush looks the collected folders up. They were seen on the disk before, and
// an attempt's row is there before its folder: what has no row now has no owner.
func (w *walk) flush(ctx context.Context) error {
	if len(w.pending) == 0 {
		return nil
	}
	exports, tokens, attempts := make([]string, 0, verifyPage), make([]int64, 0, verifyPage), make([]string, 0, verifyPage)
	for _, p := range w.pending {
		exports, tokens, attempts = append(exports, p.Export.String()), append(tokens, p.Token), append(attempts, p.Attempt.String())
	}
	w.pending = w.pending[:0]
	rows, err := w.v.store.pool.Query(ctx, ownersSQL, exports, tokens, attempts, w.v.opt.Sweep.Superseded.Seconds())
	if err != nil {
		return err
	}
	owners, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o owner, err error) {
		err = row.Scan(&o.place.Export, &o.place.Token, &o.place.Attempt, &o.exists, &o.issued, &o.job, &o.state, &o.verdict,
			&o.ended, &o.outdated, &o.beat, &o.probe, &o.expired, &o.objects)
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
		w.v.stranger(x)
		return nil
	case o.state == nil && o.place.Token > o.issued:
		x.What = fmt.Sprintf("folder %s carries a token above %d, the highest that was given out: the database is older than its files", o.place, o.issued)
		w.v.stranger(x)
		return nil
	case o.state == nil:
		x.What = fmt.Sprintf("folder %s: there is no such attempt", o.place)
		w.v.stranger(x)
		return nil
	}
	return w.judgeState(ctx, o, x)
}

func (w *walk) judgeState(ctx context.Context, o owner, x Violation) error {
	opt := w.v.opt.Sweep
	switch *o.state {
	case AttemptRunning, AttemptSealed:
		if w.v.due(o.beat, opt.Grace) {
			x.What = fmt.Sprintf("token %d gave no heartbeat since %s, but the last clean-up did not condemn it", o.place.Token, utc(o.beat))
			w.v.found(x)
		}
		if *o.state == AttemptRunning {
			return nil
		}
		return w.unrecorded(ctx, o, x)
	case AttemptPublished, AttemptSuperseded:
		if o.expired {
			return w.garbage(o, x, w.v.due(o.outdated, opt.Superseded), fmt.Sprintf("it was replaced or its export deleted at %s", utc(o.outdated)))
		}
		return w.unrecorded(ctx, o, x)
	case AttemptDeleted:
		return w.deleted(o, x)
	}
	return w.garbage(o, x, w.v.due(o.ended, opt.Quarantine), fmt.Sprintf("it was %s at %s", *o.state, utc(o.ended)))
}

// garbage counts a folder that a clean-up will take, and reports it if the last one had to.
func (w *walk) garbage(o owner, x Violation, due bool, why string) error {
	bytes, err := w.usage(o.place.String())
	if err != nil {
		return err
	}
	w.v.sum.Garbage++
	w.v.sum.GarbageBytes += bytes
	if due {
		x.What = fmt.Sprintf("the files of token %d are still there although the last clean-up had to take them: %s", o.place.Token, why)
		w.v.found(x)
	}
	return nil
}

// deleted looks at the folder of a tombstone: a frozen worker may have written
// after the clean-up, which therefore looks again for a day.
func (w *walk) deleted(o owner, x Violation) error {
	there, err := w.v.files.Present(o.place)
	if err != nil || !there { // it was seen before the clean-up removed it
		return err
	}
	if o.probe != nil {
		return w.garbage(o, x, w.v.drained != nil, fmt.Sprintf("they were deleted before; it will look again at %s", utc(o.probe)))
	}
	x.What = fmt.Sprintf("the files of token %d are there again after they were deleted, and no clean-up will look again", o.place.Token)
	w.v.found(x)
	return nil
}

// unrecorded looks for names in the folder of a sealed attempt that it did not record.
func (w *walk) unrecorded(ctx context.Context, o owner, x Violation) error {
	dir := o.place.String()
	return w.names(ctx, dir, func(e fs.DirEntry) error {
		name := e.Name()
		if slices.Contains(o.objects, name) {
			return nil
		}
		x.What = fmt.Sprintf("%q is in the folder of token %d, which did not record it", path.Join(dir, name), o.place.Token)
		if !strings.HasSuffix(name, ".partial") || w.v.drained != nil {
			w.v.stranger(x)
			return nil
		}
		w.v.sum.Garbage++ // a link was made and its temporary name stayed: it goes with its attempt
		if info, err := e.Info(); err == nil {
			w.v.sum.GarbageBytes += info.Size()
		}
		return nil
	})
}

// usage is the sum of the sizes in a folder; what vanishes meanwhile counts nothing.
func (w *walk) usage(dir string) (sum int64, err error) {
	err = fs.WalkDir(w.root.FS(), dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				sum += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return sum, err
}

// stranger reports a name without an owner. No clean-up takes it, so it is a
// warning; where the files must be exactly those that are owned, a violation.
func (v *verifier) stranger(x Violation) {
	v.sum.Unknown++
	x.Law, x.Warning = "L7", v.drained == nil
	v.found(x)
}

func utc(t *time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
