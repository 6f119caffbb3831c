package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// JobAfter is the job that follows another one in its chain; the zero job when
// there is none, or none that the scope sees. Its payload is left out.
func (s *Store) JobAfter(ctx context.Context, scope Scope, id uuid.UUID) (Job, error) {
	var list []Job
	err := scope.where(s.db.WithContext(ctx), "tenant").Omit("payload").Where("after_job = ?", id).Order("id").Limit(1).Find(&list).Error
	if err != nil {
		return Job{}, fmt.Errorf("look for the job after %s: %w", id, err)
	}
	if len(list) == 0 {
		return Job{}, nil
	}
	return list[0], nil
}
