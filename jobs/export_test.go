package jobs

import (
	"context"
	"time"
)

// SetNow lets a test say what the database's clock shows.
func (s *Schedules) SetNow(at time.Time) { s.now = at }

// Follow looks at the file once.
func (f *ScheduleFile) Follow(ctx context.Context, s *Schedules) { f.follow(ctx, s) }
