package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// walk calls fn with the places of one export after the other, lowest token first.
func (r *recovery) walk(ctx context.Context, fn func(context.Context, []files.Place) error) error {
	var places []files.Place
	flush := func() error {
		if len(places) == 0 {
			return nil
		}
		slices.SortFunc(places, func(a, b files.Place) int {
			return cmp.Or(cmp.Compare(a.Token, b.Token), strings.Compare(a.Attempt.String(), b.Attempt.String()))
		})
		places = slices.Compact(places)
		err := fn(ctx, places)
		places = places[:0]
		return err
	}
	err := r.files.List(ctx, func(o files.Object) error {
		if o.Place.Attempt == uuid.Nil {
			return nil // nothing of ours; `fenceline verify` names it
		}
		if n := len(places); n > 0 && places[n-1].Export != o.Place.Export {
			if err := flush(); err != nil {
				return err
			}
		}
		if n := len(places); n == 0 || places[n-1] != o.Place {
			places = append(places, o.Place)
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return fmt.Errorf("look at the files: %w", err)
	}
	return nil
}

// seen keeps the highest token of all names.
func (r *recovery) seen(_ context.Context, places []files.Place) error {
	r.sum.Seen = max(r.sum.Seen, places[len(places)-1].Token)
	return nil
}

// strangers reports, or adopts, the files of one export that no attempt accounts for.
func (r *recovery) strangers(ctx context.Context, places []files.Place) error {
	ids := make([]string, len(places))
	for i, p := range places {
		ids[i] = p.Attempt.String()
	}
	rows, err := r.store.pool.Query(ctx, "SELECT id FROM fenceline.attempts WHERE export_id = $1 AND id = ANY ($2::uuid[])", places[0].Export, ids)
	if err != nil {
		return err
	}
	known, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	for _, p := range places {
		if slices.Contains(known, p.Attempt) {
			continue
		}
		if err := r.stranger(ctx, p); err != nil {
			return err
		}
	}
	return r.account(ctx, places[len(places)-1])
}

// account lets the highest token of an export's files count as given out: a clean-up
// stops at a name with a token that the database does not know.
func (r *recovery) account(ctx context.Context, last files.Place) error {
	if r.opt.DryRun {
		return nil
	}
	_, err := r.store.pool.Exec(ctx, "UPDATE fenceline.exports SET issued_token = $2 WHERE id = $1 AND issued_token < $2", last.Export, last.Token)
	if err != nil {
		return fmt.Errorf("record the highest token of export %s: %w", last.Export, err)
	}
	return nil
}

// stranger looks at the files of an attempt that the database does not know.
func (r *recovery) stranger(ctx context.Context, p files.Place) error {
	x := RecoverFinding{What: "unknown", Export: p.Export, Attempt: p.Attempt, Token: p.Token}
	m, err := ReadManifest(ctx, r.files, p)
	var bad provesNothing
	switch {
	case errors.Is(err, ErrNoManifest):
		return r.unknown(x, "no manifest says that it is complete")
	case errors.As(err, &bad):
		return r.unknown(x, bad.Error())
	case err != nil: // what could not be read now may be complete
		return err
	}
	x.Tenant, x.Kind, x.Key = m.Tenant, m.Kind, m.Key
	if !r.opt.Adopt {
		return r.unknown(x, "its manifest says that it is complete; --adopt compares and publishes it, if nothing newer is")
	}
	x.What, x.Why, err = r.adopt(ctx, m)
	if err != nil {
		return fmt.Errorf("adopt %s: %w", p, err)
	}
	if x.What == "unknown" {
		return r.unknown(x, x.Why)
	}
	r.sum.Adopted++
	r.found(x)
	return nil
}

func (r *recovery) unknown(x RecoverFinding, why string) error {
	x.Why = why
	r.sum.Unknown++
	r.found(x)
	return nil
}

// adopt compares every file with the manifest and then lets the database decide.
func (r *recovery) adopt(ctx context.Context, m Manifest) (what, why string, err error) {
	if m.Installation != r.id {
		return "unknown", fmt.Sprintf("its manifest is of installation %s", m.Installation), nil
	}
	list, err := m.list()
	if err != nil {
		return "unknown", err.Error(), nil
	}
	v := &verifier{store: r.store, files: r.files}
	buffer := make([]byte, 256<<10)
	for _, f := range list {
		if wrong, err := v.lookAt(ctx, m.place(), f, buffer); err != nil {
			return "", "", err
		} else if wrong != "" {
			return "unknown", wrong, nil
		}
	}
	if r.opt.DryRun {
		return r.adoptable(ctx, m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return "", "", err
	}
	r.step("adopt")
	var outcome string
	if err := r.store.pool.QueryRow(ctx, "SELECT fenceline.adopt_attempt($1::jsonb)", string(raw)).Scan(&outcome); err != nil {
		return "", "", err
	}
	if outcome != "adopted" {
		return "unknown", notAdopted[outcome], nil
	}
	return "adopted", "complete, and newer than what was published", nil
}

// notAdopted says in words why the database did not adopt an attempt.
var notAdopted = map[string]string{
	"known":   "the database has another attempt of its id or token",
	"older":   "something newer is published",
	"stale":   "its data is older than what is published",
	"gone":    "its export was deleted",
	"other":   "its export has another name in the database",
	"decided": "its job runs, or has ended without it",
}

// adoptable is what adopt would come to, as far as can be told without doing it.
func (r *recovery) adoptable(ctx context.Context, m Manifest) (what, why string, err error) {
	var last int64
	err = r.store.pool.QueryRow(ctx, "SELECT coalesce((SELECT last_token FROM fenceline.exports WHERE id = $1), 0)", m.Export).Scan(&last)
	if err == nil && last >= m.Token {
		return "unknown", notAdopted["older"], nil
	}
	return "adoptable", "complete, and newer than what is published", err
}

// pointer is what an export shows at present.
type pointer struct {
	place             files.Place
	tenant, kind, key string
	given             bool // up, before
	deleted           bool // the export is, and can be restored
	files             []File
}

// pointers looks whether the files of every current publication are there, with the recorded size; also those of
// deleted exports, which come back when they are restored.
func (r *recovery) pointers(ctx context.Context) error {
	v := &verifier{store: r.store, files: r.files, opt: VerifyOptions{SizesOnly: true}}
	for after := uuid.Nil; ; {
		page, err := r.page(ctx, after)
		if err != nil {
			return fmt.Errorf("look at pointers: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for _, p := range page {
			if err := r.pointer(ctx, v, p); err != nil {
				return err
			}
		}
		after = page[len(page)-1].place.Export
	}
}

func (r *recovery) page(ctx context.Context, after uuid.UUID) ([]*pointer, error) {
	rows, err := r.store.pool.Query(ctx, `SELECT id, last_token, attempt_id, tenant, kind, key, files_lost_at IS NOT NULL, deleted_at IS NOT NULL FROM fenceline.exports e
		WHERE id > $1 AND attempt_id IS NOT NULL AND (deleted_at IS NULL OR files_gone_at IS NULL
			AND EXISTS (SELECT FROM fenceline.attempts a WHERE a.id = e.attempt_id AND a.state = 'published' AND a.doomed_at IS NULL))
		ORDER BY id LIMIT $2`, after, verifyPage)
	if err != nil {
		return nil, err
	}
	byID, ids := map[uuid.UUID]*pointer{}, []string{}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*pointer, error) {
		p := &pointer{}
		err := row.Scan(&p.place.Export, &p.place.Token, &p.place.Attempt, &p.tenant, &p.kind, &p.key, &p.given, &p.deleted)
		byID[p.place.Attempt], ids = p, append(ids, p.place.Attempt.String())
		return p, err
	})
	if err != nil {
		return nil, err
	}
	return page, r.store.filesOf(ctx, ids, func(f File) { byID[f.AttemptID].files = append(byID[f.AttemptID].files, f) })
}

func (r *recovery) pointer(ctx context.Context, v *verifier, p *pointer) error {
	r.sum.Pointers++
	wrong, err := "", error(nil)
	for _, f := range p.files {
		if wrong, err = v.lookAt(ctx, p.place, f, nil); err != nil {
			return fmt.Errorf("look at the files of export %s: %w", p.place.Export, err)
		}
		if wrong != "" {
			break
		}
	}
	if wrong != "" {
		if err := r.still(ctx); err != nil {
			return fmt.Errorf("%s, and perhaps all of the files: %w", wrong, err)
		}
		if r.sum.Lost++; p.deleted {
			wrong += "; the export is deleted, and could be restored"
		}
		r.found(RecoverFinding{What: "lost", Export: p.place.Export, Attempt: p.place.Attempt, Token: p.place.Token, Tenant: p.tenant, Kind: p.kind, Key: p.key, Why: wrong})
	}
	if r.opt.DryRun || p.given == (wrong != "") || wrong != "" && !r.opt.FilesLost {
		return nil
	}
	r.step("lost")
	_, err = r.store.pool.Exec(ctx, "UPDATE fenceline.exports SET files_lost_at = CASE WHEN $3 THEN clock_timestamp() END, changed_at = clock_timestamp() WHERE id = $1 AND attempt_id = $2",
		p.place.Export, p.place.Attempt, wrong != "")
	if err != nil {
		return fmt.Errorf("record that the files of export %s are lost: %w", p.place.Export, err)
	}
	return nil
}

// still answers nil while the files are those whose mark was read first. In an empty folder where a volume is not
// mounted any more, everything is missing.
func (r *recovery) still(ctx context.Context) error {
	m, err := r.files.ReadMark(ctx)
	if err == nil && m.Installation != r.id {
		err = fmt.Errorf("%w: they are of installation %s now", files.ErrOtherInstallation, m.Installation)
	}
	return err
}
