package jobs

import "context"

// Point names a moment between two steps of an attempt.
type Point string

// The points, in the order in which an attempt passes them.
const (
	PointLeased    Point = "leased"    // the lease is held, no token was drawn
	PointBegun     Point = "begun"     // the token is committed, nothing was read
	PointRead      Point = "read"      // the snapshot is open
	PointWritten   Point = "written"   // a file's bytes are written, it is not visible yet
	PointCommitted Point = "committed" // a file is durable under its name, the attempt is not sealed
	PointSealed    Point = "sealed"    // the files are recorded, nothing was published
	PointPublished Point = "published" // the pointer has moved, the lease is still held
)

// Points lists all points.
func Points() []Point {
	return []Point{PointLeased, PointBegun, PointRead, PointWritten, PointCommitted, PointSealed, PointPublished}
}

// Faults lets tests hurt a worker at a point: At may return an error, block, or
// end the process. In production it is nil, which costs one comparison a point.
type Faults interface {
	At(ctx context.Context, p Point) error
}

func pass(ctx context.Context, f Faults, p Point) error {
	if f == nil {
		return nil
	}
	return f.At(ctx, p)
}
