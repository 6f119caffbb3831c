package jobs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// CheckFile reads a file of schedules and checks each as [Schedules.Put] does, without
// keeping any. What is wrong is an [*invalid.Error] that names entries and lines.
func (s *Schedules) CheckFile(ctx context.Context, raw []byte) ([]storage.Schedule, error) {
	entries, err := ParseScheduleFile(raw)
	if err != nil {
		return nil, err
	}
	refused, list := new(invalid.Error), make([]storage.Schedule, 0, len(entries))
	for _, e := range entries {
		sc, err := s.Check(ctx, e.Schedule)
		var bad *invalid.Error
		if errors.As(err, &bad) {
			for _, p := range bad.Problems {
				p.Field = e.place(p.Field)
				refused.Problems = append(refused.Problems, p)
			}
		} else if err != nil {
			return nil, fmt.Errorf("check schedule %q: %w", sc.Name, err)
		}
		list = append(list, sc)
	}
	return list, refused.OrNil()
}

// Sync takes over what a file of schedules holds: all of it in one transaction, or
// nothing when any of it is wrong; then what is wrong is kept for people to see. Schedules
// that were made at run time stay as they are, also where the file has their name.
func (s *Schedules) Sync(ctx context.Context, path, worker string, raw []byte) (storage.SyncedSchedules, error) {
	sum := sha256.Sum256(raw)
	f := storage.ScheduleFile{Path: path, SHA256: sum[:], Worker: worker}
	list, err := s.CheckFile(ctx, raw)
	if err == nil {
		for i := range list {
			list[i].ChangedBy = path
		}
		return s.store.SyncSchedules(ctx, f, list)
	}
	err = fmt.Errorf("%s: %w", path, err)
	return storage.SyncedSchedules{}, errors.Join(err, s.store.FailScheduleFile(ctx, f, err.Error()))
}

// ScheduleFile follows a file of schedules by its content. It is for one [Scheduler].
type ScheduleFile struct {
	path   string
	worker string
	log    *slog.Logger

	seen     bool // there was a file
	taken    [sha256.Size]byte
	pending  [sha256.Size]byte
	again    time.Time // when to try once more what was not taken over; zero for never
	problem  string    // that was said
	needless bool
}

// NewScheduleFile prepares to follow a file. Where it is optional, there may be none;
// one that was there and is gone changes nothing and is complained about.
func NewScheduleFile(path string, optional bool, worker string, log *slog.Logger) *ScheduleFile {
	return &ScheduleFile{path: path, worker: worker, log: log, needless: optional}
}

// fileAgain is after how long a content is tried again that was not taken over as a
// whole: a report may be there now, or a name free.
const fileAgain = time.Minute

// follow looks at the file and takes over what is new.
func (f *ScheduleFile) follow(ctx context.Context, s *Schedules) {
	raw, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) && f.needless && !f.seen {
		return
	}
	if err != nil {
		f.complain(fmt.Errorf("read the schedules: %w; what they were stays", err))
		return
	}
	sum := sha256.Sum256(raw)
	switch {
	case f.seen && sum == f.taken && (f.again.IsZero() || time.Now().Before(f.again)):
		return
	case f.seen && sum != f.taken && sum != f.pending: // it may be half written: look once more
		f.pending = sum
		return
	}
	f.seen, f.taken, f.again = true, sum, time.Time{}
	done, err := s.Sync(ctx, f.path, f.worker, raw)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		f.again = time.Now().Add(fileAgain)
		f.complain(fmt.Errorf("the schedules stay as they were: %w", err))
		return
	}
	if done.Changes() {
		f.log.Info("schedules taken over", "file", f.path, "added", done.Added, "changed", done.Changed, "removed", done.Removed)
	}
	if len(done.Kept) == 0 {
		f.problem = ""
		return
	}
	f.again = time.Now().Add(fileAgain)
	f.complain(fmt.Errorf("%s has schedules that were made at run time, and those stay: %s", f.path, strings.Join(done.Kept, ", ")))
}

// complain logs a problem once.
func (f *ScheduleFile) complain(err error) {
	if text := err.Error(); text != f.problem {
		f.problem = text
		f.log.Error("file of schedules", "error", err)
	}
}

// FileEntry is a schedule of a file, with where it stands.
type FileEntry struct {
	storage.Schedule
	Line  int
	lines map[string]int // of its fields
}

// place names a field of the entry with its line.
func (e FileEntry) place(field string) string {
	head, _, _ := strings.Cut(strings.TrimPrefix(field, "options."), ".")
	head, _, _ = strings.Cut(head, "[")
	return fmt.Sprintf("schedules.%s.%s (line %d)", e.Name, strings.TrimPrefix(field, "options."), cmp.Or(e.lines[head], e.Line))
}

// mostFile bounds a file of schedules, in bytes.
const mostFile = 4 << 20

// ParseScheduleFile reads a file of schedules (YAML) strictly: fields that there are
// not, fields given twice and values of a wrong kind are an [*invalid.Error] with the lines.
//
//	schedules:
//	  monday:
//	    cron: 0 6 * * 1
//	    zone: Europe/Berlin
//	    report: stock
func ParseScheduleFile(raw []byte) ([]FileEntry, error) {
	if len(raw) > mostFile {
		return nil, invalid.New("file", "", "has %d bytes, %d are allowed", len(raw), mostFile)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, invalid.New("file", "", "is empty; for no schedules write schedules: {}")
	}
	r := &fileReader{refused: new(invalid.Error)}
	list := r.file(raw)
	return list, r.refused.OrNil()
}
