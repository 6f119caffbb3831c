package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/files"
)

// Uploads remembers in the database which objects attempts are sending to a bucket
// in parts. An attempt that does not run any more is refused with [ErrCondemned]
// and the like.
func (s *Store) Uploads() files.Ledger {
	return files.Ledger{Begin: s.beginUpload, End: s.endUpload, Open: s.openUploads}
}

func (s *Store) beginUpload(ctx context.Context, u files.Upload) error {
	var state string
	err := decide(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT fenceline.begin_upload($1, $2, $3)", u.Place.Attempt, u.Object, u.ID).Scan(&state)
	})
	if err != nil {
		return fmt.Errorf("record an upload of attempt %s: %w", u.Place.Attempt, err)
	}
	if state != "begun" {
		return found(u.Place.Attempt, state)
	}
	return nil
}

func (s *Store) endUpload(ctx context.Context, u files.Upload) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM fenceline.uploads WHERE attempt_id = $1 AND upload_id = $2", u.Place.Attempt, u.ID)
	if err != nil {
		return fmt.Errorf("forget an upload of attempt %s: %w", u.Place.Attempt, err)
	}
	return nil
}

func (s *Store) openUploads(ctx context.Context, attempt uuid.UUID) ([]files.Upload, error) {
	rows, err := s.pool.Query(ctx, "SELECT object, upload_id FROM fenceline.uploads WHERE attempt_id = $1", attempt)
	if err != nil {
		return nil, fmt.Errorf("look up the uploads of attempt %s: %w", attempt, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u files.Upload, err error) {
		return u, row.Scan(&u.Object, &u.ID)
	})
	if err != nil {
		return nil, fmt.Errorf("look up the uploads of attempt %s: %w", attempt, err)
	}
	return list, nil
}
