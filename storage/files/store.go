package files

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"
)

// Store keeps immutable objects: [Local] in a folder, [S3] in a bucket. It is safe
// for concurrent use, also by several processes. Its methods end with ctx; errors
// that a caller can act on wrap one of this package's.
type Store interface {
	// Create begins an object of the attempt at p. The attempt's row must be in
	// the database already, so that the clean-up knows whose files these are. The
	// caller ends the writer with Commit or Abort, and ctx lasts until then.
	Create(ctx context.Context, p Place, object string) (Writer, error)
	// Open opens an object for reading, or fails with [ErrNotFound]. The caller
	// closes it, and ctx lasts until then.
	Open(ctx context.Context, p Place, object string) (Reader, error)
	// Remove deletes everything that lies at a place and answers how many bytes
	// that were. A place where nothing lies is success: nothing is left either way.
	// A crash of the machine may bring back what was deleted seconds before: the
	// caller looks again later, as it does for writers that come late.
	Remove(ctx context.Context, p Place) (int64, error)
	// RemoveFolder removes what an export leaves when nothing of it is left: the
	// folder where a store has folders. One that is not empty is an error.
	RemoveFolder(ctx context.Context, export uuid.UUID) error
	// Present answers whether anything lies at a place.
	Present(ctx context.Context, p Place) (bool, error)
	// Places lists the attempts of one export that have files, and the names among
	// them that Fenceline did not make. An export without files has none of either.
	Places(ctx context.Context, export uuid.UUID) (places []Place, unknown []string, err error)
	// List calls fn for every object except the store's own mark, in the byte order
	// of their paths, and ends with the first error of fn. It needs memory that does
	// not grow with their number. What comes or goes meanwhile may be missed.
	List(ctx context.Context, fn func(Object) error) error
	// CheckMarker reads the store's mark again, as the sweep does before it deletes:
	// another folder may have been mounted since the start. A store that is
	// empty is marked. It fails with [ErrOtherInstallation].
	CheckMarker(ctx context.Context, installation uuid.UUID) error
	// ReadMark reads the store's mark. A store without one fails with [ErrNotFound].
	ReadMark(ctx context.Context) (Mark, error)
	// WriteMark replaces the mark, at once and for good, and fails with
	// [ErrOtherInstallation] where it is that of another one. Whoever reads
	// meanwhile gets the old or the new one in full.
	WriteMark(ctx context.Context, m Mark) error
	// Empty answers whether the store holds nothing but its mark.
	Empty(ctx context.Context) (bool, error)
	// Close releases what the store holds. Objects that are open stay usable.
	Close() error
}

// Writer writes one object. Until Commit nothing is visible under the object's
// name. It is not safe for concurrent use.
type Writer interface {
	// Write appends to the object. After an error every later call fails with it.
	io.Writer
	// Commit makes the object durable and visible under its name, or fails with
	// [ErrExists] when the name is taken. An error ends the attempt.
	Commit() (Written, error)
	// Abort gives the object up. After Commit it does nothing.
	Abort()
}

// Reader reads one object, from any position. It is not safe for concurrent use.
type Reader interface {
	io.ReadSeekCloser
	// Size is how many bytes the object has.
	Size() int64
}

// Object is one entry of [Store.List].
type Object struct {
	// Path is where the object lies below the root, with forward slashes. One that
	// ends with a slash is an empty folder.
	Path string
	// Place is the attempt in whose folder the object lies. Only Export is set when
	// it lies elsewhere below an export's folder, nothing when it lies elsewhere.
	Place Place
	// Known is whether the whole path has the form of ours: a file of an attempt,
	// what is left of one that was being written, or an attempt's folder that is empty.
	Known bool
	// Name is the rest of the path, below the attempt's folder; empty without one.
	Name string
	Size int64
	// Modified is by the store's clock, for people to read.
	Modified time.Time
}
