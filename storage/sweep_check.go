package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// checkOn fails with [ErrOff] when nobody is to clean up, or not this process.
func (sw *Sweep) checkOn(ctx context.Context) error {
	if sw.opt.Off {
		return fmt.Errorf("%w for this process, by SWEEP_OFF", ErrOff)
	}
	off, err := sw.store.SweepSwitch(ctx)
	if err != nil || off == nil {
		return err
	}
	note := ""
	if off.Note != "" {
		note = " (" + off.Note + ")"
	}
	return fmt.Errorf("%w since %s by %s%s; `fenceline sweep on` switches it on again", ErrOff, utc(&off.Since), off.By, note)
}

// checkSafe looks at the whole: a standby, a folder of another installation or
// a database that knows nothing about the files it is asked to clean up.
func (sw *Sweep) checkSafe(ctx context.Context) error {
	if err := sw.store.Ping(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	if err := sw.ours(ctx); err != nil {
		return err
	}
	if err := sw.recovered(ctx); err != nil {
		return err
	}
	return sw.checkReferences(ctx)
}

// ours refuses files of another installation.
func (sw *Sweep) ours(ctx context.Context) error {
	id, err := sw.store.Installation(ctx)
	if err != nil {
		return err
	}
	if err := sw.files.CheckMarker(ctx, id); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	return nil
}

// Check says beforehand why [Sweep.Run] would refuse the whole: the files are of another installation, recovery is
// needed, the store cannot be listed, or the database knows nothing of the files that are there ([ErrUnsafe]). A plan or
// an audit on such a ground would be wrong without anybody seeing it. That clean-ups are switched off, or wait after a
// recovery, is no such reason.
func (sw *Sweep) Check(ctx context.Context) error {
	if err := sw.ours(ctx); err != nil {
		return err
	}
	if _, err := sw.store.compare(ctx, sw.files); err != nil {
		return err
	}
	if _, err := sw.files.Empty(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	return sw.checkReferences(ctx)
}

// checkReferences refuses a database that knows no attempt, beside files.
func (sw *Sweep) checkReferences(ctx context.Context) error {
	var known bool
	if err := sw.store.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM fenceline.attempts)").Scan(&known); err != nil {
		return fmt.Errorf("look for attempts: %w", err)
	}
	if known {
		return nil
	}
	empty, err := sw.files.Empty(ctx)
	if err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: the files folder is not empty but the database knows no attempt; was it restored or replaced?", ErrUnsafe)
	}
	return nil
}

// checkShare adds up what the run would delete at most and fails with [ErrTooMuch]
// when that is too large a share of what is stored.
func (r *sweepRun) checkShare(ctx context.Context) error {
	if r.opt.MaxShare <= 0 || r.opt.MaxShare >= 1 {
		return nil
	}
	t, err := r.Plan(ctx, func(SweepItem) error { return nil })
	if err != nil || t.Bytes <= r.opt.ShareFloor {
		return err
	}
	stored, err := r.store.Stored(ctx)
	if err != nil {
		return err
	}
	all := max(stored.Bytes, t.Bytes) // what silent attempts have written is not in the total yet
	if share := float64(t.Bytes) / float64(all); share > r.opt.MaxShare {
		r.res.Stopped = stoppedShare
		return fmt.Errorf("%w: this run would delete %d of %d bytes, %.0f %%, and %.0f %% are allowed; look at `fenceline sweep plan`, "+
			"and if that is right run `fenceline sweep run --max-share %d` once", ErrTooMuch, t.Bytes, all, 100*share, 100*r.opt.MaxShare, min(int(100*share)+1, 100))
	}
	return nil
}

// inFolder is what lies in the folder of an export.
type inFolder struct {
	export  uuid.UUID
	places  []files.Place
	unknown []string
}

// checkExports looks at the folders of those exports of the items that were not
// looked at before: a token that the database has not given out yet means that the
// database is older than its files.
func (r *sweepRun) checkExports(ctx context.Context, items []SweepItem) error {
	var fresh []uuid.UUID
	for _, it := range items {
		if !r.checked[it.Export] {
			r.checked[it.Export] = true
			fresh = append(fresh, it.Export)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	folders, err := r.look(ctx, fresh)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	issued, ours, err := r.known(ctx, folders)
	if err != nil {
		return err
	}
	for _, f := range folders {
		for _, name := range f.unknown {
			r.res.unknown(f.export.String() + "/" + name)
		}
		for _, p := range f.places {
			if p.Token > issued[f.export] {
				return fmt.Errorf("%w: %s carries token %d, but the database has given out %d at most: it is older than its files, or a worker from before a recovery wrote them; `fenceline recover --adopt` looks at them and ends this", ErrUnsafe, p, p.Token, issued[f.export])
			}
			if !ours[p.Attempt] {
				r.res.unknown(p.String())
			}
		}
	}
	return nil
}

// look lists the folders of several exports at once.
func (r *sweepRun) look(ctx context.Context, exports []uuid.UUID) ([]inFolder, error) {
	folders, errs := make([]inFolder, len(exports)), make([]error, len(exports))
	var parts sync.WaitGroup
	for part := range r.opt.Parallel {
		parts.Go(func() {
			for i := part; i < len(exports); i += r.opt.Parallel {
				folders[i].export = exports[i]
				folders[i].places, folders[i].unknown, errs[i] = r.files.Places(ctx, exports[i])
			}
		})
	}
	parts.Wait()
	return folders, errors.Join(errs...)
}

// known is the newest token of each export, and which of the attempts in the folders are its own.
func (r *sweepRun) known(ctx context.Context, folders []inFolder) (issued map[uuid.UUID]int64, ours map[uuid.UUID]bool, err error) {
	exports, attempts, of := []uuid.UUID{}, []uuid.UUID{}, []uuid.UUID{}
	for _, f := range folders {
		exports = append(exports, f.export)
		for _, p := range f.places {
			attempts, of = append(attempts, p.Attempt), append(of, f.export)
		}
	}
	issued, ours = make(map[uuid.UUID]int64, len(exports)), make(map[uuid.UUID]bool, len(attempts))
	rows, err := r.store.pool.Query(ctx, "SELECT id, issued_token FROM fenceline.exports WHERE id = ANY ($1::uuid[])", texts(exports))
	if err != nil {
		return nil, nil, fmt.Errorf("look up exports: %w", err)
	}
	var id uuid.UUID
	var token int64
	if _, err = pgx.ForEachRow(rows, []any{&id, &token}, func() error { issued[id] = token; return nil }); err != nil {
		return nil, nil, fmt.Errorf("look up exports: %w", err)
	}
	rows, err = r.store.pool.Query(ctx, `SELECT a.id FROM unnest($1::uuid[], $2::uuid[]) AS f(id, export)
		CROSS JOIN LATERAL (SELECT id FROM fenceline.attempts WHERE id = f.id AND export_id = f.export OFFSET 0) a`, texts(attempts), texts(of))
	if err != nil {
		return nil, nil, fmt.Errorf("look up attempts: %w", err)
	}
	if _, err = pgx.ForEachRow(rows, []any{&id}, func() error { ours[id] = true; return nil }); err != nil {
		return nil, nil, fmt.Errorf("look up attempts: %w", err)
	}
	return issued, ours, nil
}
