package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// Run is one attempt as the code that renders sees it: a snapshot to read from,
// files to write to, and a place to report progress. Its methods may be called
// from several goroutines.
type Run struct {
	// Log carries job, attempt and token on every line.
	Log *slog.Logger

	store   *storage.Store
	files   files.Store
	faults  Faults
	ctx     context.Context // of the attempt; only for faults, which a file's methods have no context for
	job     storage.Job
	attempt storage.Begun

	mu       sync.Mutex
	progress storage.Progress
	sealed   storage.Sealed
}

// Token is the attempt's fencing token.
func (r *Run) Token() int64 { return r.attempt.Token }

// Snapshot opens one consistent view of the database, not older than the
// attempt's token. The caller closes it. A [*storage.FencedError] means that a
// newer attempt has begun; it should be returned as it is.
func (r *Run) Snapshot(ctx context.Context) (*storage.Snapshot, error) {
	return r.SnapshotOf(ctx, storage.ReadOptions{})
}

// SnapshotOf is [Run.Snapshot] of a source, in a zone, with a timeout.
func (r *Run) SnapshotOf(ctx context.Context, o storage.ReadOptions) (*storage.Snapshot, error) {
	sn, err := r.store.SnapshotOf(ctx, r.job.ExportID, r.attempt.Token, o)
	if err != nil {
		return nil, err
	}
	r.readAt(sn.AsOf())
	if err := pass(ctx, r.faults, PointRead); err != nil {
		sn.Close()
		return nil, err
	}
	return sn, nil
}

// readAt keeps the oldest view that the attempt read from.
func (r *Run) readAt(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sealed.DataAsOf.IsZero() || at.Before(r.sealed.DataAsOf) {
		r.sealed.DataAsOf = at
	}
}

// Progress reports how many rows were written in all.
func (r *Run) Progress(rows int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Rows = rows
}

// Expect reports how many rows there will be, as far as is known.
func (r *Run) Expect(rows int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Expected = &rows
}

// Warn keeps what a reader of the files should know, as JSON, with the attempt.
// The last call counts.
func (r *Run) Warn(warnings any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed.Warnings = warnings
}

func (r *Run) step(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Step = name
}

func (r *Run) now() storage.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// Create begins a file of the export. name is what people see and download, in
// any script; format is a word such as csv. The file becomes part of the export
// when [Output.Commit] has returned nil and the attempt is published.
func (r *Run) Create(name, format, mediaType string) (*Output, error) {
	if err := checkFileName(name); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.sealed.Files {
		if f.Name == name {
			return nil, fmt.Errorf("create file %q: the attempt has one of this name", name)
		}
	}
	ordinal := len(r.sealed.Files) + 1
	object := files.ObjectName(ordinal, name)
	w, err := r.files.Create(r.ctx, files.Place{Export: r.job.ExportID, Token: r.attempt.Token, Attempt: r.attempt.ID}, object)
	if err != nil {
		return nil, err
	}
	r.progress.Step = "write"
	r.sealed.Files = append(r.sealed.Files, storage.File{Name: name, Object: object, Format: format, MediaType: mediaType, Size: -1})
	return &Output{run: r, index: ordinal - 1, file: w}, nil
}

// result is what will be sealed; it fails when a file was begun and not committed.
func (r *Run) result() (storage.Sealed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sealed.Files) == 0 {
		return storage.Sealed{}, fmt.Errorf("the job of kind %s wrote no file", r.job.Kind)
	}
	sum := r.sealed
	sum.Rows = 0
	for _, f := range sum.Files {
		if f.Size < 0 {
			return storage.Sealed{}, fmt.Errorf("file %q was begun and not finished", f.Name)
		}
		sum.Rows = max(sum.Rows, f.Rows)
	}
	return sum, nil
}

// Output is a file that is being written. It is not safe for concurrent use.
type Output struct {
	run   *Run
	index int
	file  files.Writer
}

// Write appends to the file.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.file.Write(b)
	o.run.mu.Lock()
	o.run.progress.Bytes += int64(n)
	o.run.mu.Unlock()
	return n, err
}

// Commit ends the file, which holds rows rows, and makes it durable.
func (o *Output) Commit(rows int64) error {
	if err := pass(o.run.ctx, o.run.faults, PointWritten); err != nil {
		return err
	}
	written, err := o.file.Commit()
	if err != nil {
		return err
	}
	o.run.mu.Lock()
	f := &o.run.sealed.Files[o.index]
	f.Size, f.SHA256, f.Rows = written.Size, written.SHA256[:], rows
	o.run.mu.Unlock()
	return pass(o.run.ctx, o.run.faults, PointCommitted)
}

// Close gives a file up that was not committed. After Commit it does nothing.
func (o *Output) Close() { o.file.Abort() }

// checkFileName accepts what every common file system and browser can hold.
func checkFileName(name string) error {
	bad := func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`/\:*?"<>|`, r) }
	switch {
	case name == "" || len(name) > 200 || !utf8.ValidString(name):
		return invalid.New("file name", name, "must be 1 to 200 bytes of UTF-8")
	case strings.ContainsFunc(name, bad):
		return invalid.New("file name", name, `must not hold control characters or any of / \ : * ? " < > |`)
	case strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.TrimSpace(name) != name:
		return invalid.New("file name", name, "must not begin or end with a dot or a space")
	}
	return nil
}
