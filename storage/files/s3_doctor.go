package files

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/uuid"
)

// BucketFacts are what can be seen of a part of a bucket without touching it.
type BucketFacts struct {
	Marked uuid.UUID // for which installation; the zero UUID without a mark
	Mark   Mark      // all that it remembers; the zero Mark without one
	Holds  string    // a name in an unmarked part that is not ours, "" when it is empty
	// Versioned means that the bucket keeps what is deleted.
	Versioned bool
}

// LookAtBucket looks at a location that is a bucket. Unlike [OpenS3] it marks nothing.
func LookAtBucket(ctx context.Context, l Location) (f BucketFacts, err error) {
	s, err := connectS3(ctx, l)
	if err != nil {
		return f, err
	}
	defer s.Close()
	m, err := s.ReadMark(ctx)
	if errors.Is(err, ErrNotFound) {
		f.Holds, err = s.stranger(ctx)
	}
	if err != nil {
		return f, err
	}
	f.Marked, f.Mark = m.Installation, m
	// Not everybody may ask this, and not every server knows.
	if out, err := s.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: s.bucket()}); err == nil {
		f.Versioned = out.Status == types.BucketVersioningStatusEnabled
	}
	return f, nil
}

// ProbeBucket tries below a location what writing needs, removes it again, and
// answers how long a small object took. Only what is marked for the installation
// is touched ([ErrNotOurs]). It is [ErrNoConditions] when names that are taken are not refused.
func ProbeBucket(ctx context.Context, l Location, installation uuid.UUID) (time.Duration, error) {
	s, err := connectS3(ctx, l)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	m, err := s.ReadMark(ctx)
	if errors.Is(err, ErrNotFound) || err == nil && (installation == uuid.Nil || m.Installation != installation) {
		return 0, ErrNotOurs
	}
	if err != nil {
		return 0, err
	}
	return s.probe(ctx)
}
