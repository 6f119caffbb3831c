package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// keeper is an attempt whose files have to be there.
type keeper struct {
	place files.Place
	job   uuid.UUID
	state AttemptState
	files []File
}

// keeps says of an attempt a that its files have to be there. $1 is for how many
// seconds publications are kept that were replaced or whose export was deleted:
// after that their files may be there or not.
const keeps = `(a.state = 'sealed'
	OR a.state = 'superseded' AND a.replaced_at >= clock_timestamp() - make_interval(secs => $1)
	OR a.state = 'published' AND NOT EXISTS (SELECT FROM fenceline.exports e
		WHERE e.id = a.export_id AND e.deleted_at < clock_timestamp() - make_interval(secs => $1)))`

// recorded looks from the database to the files: what the rows say must be there.
func (v *verifier) recorded(ctx context.Context) error {
	var total int64
	kept := v.opt.Sweep.Superseded.Seconds()
	if err := v.store.pool.QueryRow(ctx, "SELECT count(*) FROM fenceline.attempts a WHERE "+keeps, kept).Scan(&total); err != nil {
		return err
	}
	buffer := make([]byte, 256<<10)
	for after, done := uuid.Nil, int64(0); ; {
		page, err := v.keepers(ctx, after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for _, k := range page {
			if err := v.keeper(ctx, k, buffer); err != nil {
				return err
			}
			done++
			v.progress("files", done, max(total, done))
		}
		after = page[len(page)-1].place.Attempt
	}
}

// keepers reads the next attempts whose files have to be there, with their files.
func (v *verifier) keepers(ctx context.Context, after uuid.UUID) ([]*keeper, error) {
	rows, err := v.store.pool.Query(ctx, `SELECT a.id, a.export_id, a.token, a.job_id, a.state FROM fenceline.attempts a
		WHERE a.id > $2::uuid AND `+keeps+` ORDER BY a.id LIMIT $3`, v.opt.Sweep.Superseded.Seconds(), after.String(), verifyPage)
	if err != nil {
		return nil, err
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*keeper, error) {
		k := &keeper{}
		return k, row.Scan(&k.place.Attempt, &k.place.Export, &k.place.Token, &k.job, &k.state)
	})
	if err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]*keeper, len(page))
	ids := make([]string, len(page))
	for i, k := range page {
		byID[k.place.Attempt], ids[i] = k, k.place.Attempt.String()
	}
	return page, v.store.filesOf(ctx, ids, func(f File) { byID[f.AttemptID].files = append(byID[f.AttemptID].files, f) })
}

// filesOf calls fn with the recorded files of attempts, in their order.
func (s *Store) filesOf(ctx context.Context, attempts []string, fn func(File)) error {
	rows, err := s.pool.Query(ctx, `SELECT attempt_id, name, object, size, sha256 FROM fenceline.files
		WHERE attempt_id = ANY ($1::uuid[]) ORDER BY attempt_id, ordinal`, attempts)
	if err != nil {
		return err
	}
	var f File
	_, err = pgx.ForEachRow(rows, []any{&f.AttemptID, &f.Name, &f.Object, &f.Size, (*[]byte)(&f.SHA256)}, func() error {
		fn(f)
		f.SHA256 = nil // the next row's bytes go elsewhere
		return nil
	})
	return err
}

// keeper looks at the files of one attempt.
func (v *verifier) keeper(ctx context.Context, k *keeper, buffer []byte) error {
	if len(k.files) == 0 {
		return v.lacks(ctx, k, "no file is recorded")
	}
	for _, f := range k.files {
		what := v.compareFile(ctx, k.place, f, buffer)
		if err := ctx.Err(); err != nil {
			return err
		}
		v.sum.Files++
		if what == "" {
			continue
		}
		if err := v.lacks(ctx, k, what); err != nil {
			return err
		}
	}
	return v.manifest(ctx, k)
}

// manifest compares what the store says of an attempt with what the database does.
// Older versions wrote none.
func (v *verifier) manifest(ctx context.Context, k *keeper) error {
	m, err := ReadManifest(ctx, v.files, k.place)
	if errors.Is(err, ErrNoManifest) {
		return nil
	}
	what := ""
	if err != nil {
		what = err.Error()
	} else if list, err := m.list(); err != nil {
		what = err.Error()
	} else if !slices.EqualFunc(list, k.files, sameFile) {
		what = fmt.Sprintf("the manifest of %s lists other files than were recorded", k.place)
	}
	if what == "" {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return v.lacksIf(ctx, k, what, true)
}

func sameFile(a, b File) bool {
	return a.Name == b.Name && a.Object == b.Object && a.Size == b.Size && bytes.Equal(a.SHA256, b.SHA256)
}

// compareFile says what is wrong with a file, if anything is. One that is there
// and cannot be read is as bad as one that is missing.
func (v *verifier) compareFile(ctx context.Context, p files.Place, f File, buffer []byte) string {
	wrong, err := v.lookAt(ctx, p, f, buffer)
	if err != nil {
		return err.Error()
	}
	return wrong
}

// lookAt says what is wrong with a file, as far as the store tells. Its error says that the store could not tell.
func (v *verifier) lookAt(ctx context.Context, p files.Place, f File, buffer []byte) (wrong string, err error) {
	name := fmt.Sprintf("file %q (%s/%s)", f.Name, p, f.Object)
	file, err := v.files.Open(ctx, p, f.Object)
	if errors.Is(err, files.ErrNotFound) {
		return name + " is missing", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be opened: %w", name, err)
	}
	defer file.Close()
	if file.Size() != f.Size {
		return fmt.Sprintf("%s has %d bytes, but %d were recorded", name, file.Size(), f.Size), nil
	}
	if v.opt.SizesOnly {
		v.sum.Bytes += f.Size
		return "", nil
	}
	h := sha256.New()
	n, err := io.CopyBuffer(h, &untilDone{ctx, file}, buffer)
	v.sum.Bytes += n
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", name, err)
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, f.SHA256) {
		return fmt.Sprintf("%s has SHA-256 %x, but %s was recorded", name, sum, f.SHA256), nil
	}
	return "", nil
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// lacks reports something that an attempt lacks, if after that was seen its
// files still have to be there. They had to at that moment too: no attempt goes
// back to a state in which they have to.
func (v *verifier) lacks(ctx context.Context, k *keeper, what string) error {
	return v.lacksIf(ctx, k, what, false)
}

// lacksIf reports a warning where only a recovery would miss it, or an operator has said that it is lost.
func (v *verifier) lacksIf(ctx context.Context, k *keeper, what string, warning bool) error {
	var state AttemptState
	var lost *time.Time
	err := v.store.pool.QueryRow(ctx, `SELECT a.state, (SELECT files_lost_at FROM fenceline.exports WHERE id = a.export_id AND attempt_id = a.id)
		FROM fenceline.attempts a WHERE a.id = $2 AND `+keeps, v.opt.Sweep.Superseded.Seconds(), k.place.Attempt).Scan(&state, &lost)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read attempt %s again: %w", k.place.Attempt, err)
	}
	law := "L7" // nobody has condemned it, and its retention is not over
	if state == AttemptPublished {
		law = "L1"
	}
	if lost != nil {
		what += fmt.Sprintf(", and was given up at %s", utc(lost))
	}
	v.found(Violation{
		Law: law, Warning: warning || lost != nil, Export: k.place.Export, Attempt: k.place.Attempt, Job: k.job,
		What: fmt.Sprintf("token %d is %s, but %s", k.place.Token, state, what),
	})
	return nil
}
