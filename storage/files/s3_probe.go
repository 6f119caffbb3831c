package files

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/uuid"
)

// ErrNoConditions means that a server stores an object under a name that is
// taken although it was told not to.
var ErrNoConditions = errors.New("the server ignores If-None-Match, so that what was published could be replaced; use one that honours conditional writes, such as Amazon S3")

// CheckConditions fails with [ErrNoConditions] unless the server refuses names
// that are taken, for objects and for uploads in parts. It tries that once in the
// life of a store, with small objects that it removes again.
func (s *S3) CheckConditions(ctx context.Context) error {
	s.trying.Lock()
	defer s.trying.Unlock()
	if s.tried {
		return nil
	}
	if _, err := s.probe(ctx); err != nil {
		return fmt.Errorf("try conditional writes on %s: %w", s, err)
	}
	s.tried = true
	return nil
}

// s3Probe is the names under which one probe writes.
type s3Probe struct {
	s   *S3
	dir string
}

// probe tries everything that a writer needs and answers how long a small object took.
func (s *S3) probe(ctx context.Context) (took time.Duration, err error) {
	s.removeOldS3Probes(ctx)
	p := s3Probe{s, probePrefix + uuid.NewString()}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.location.Timeout)
		defer cancel()
		if gone := s.removeBelow(clean, p.dir); gone != nil {
			err = errors.Join(err, fmt.Errorf("remove the probe %s: %w", p.dir, gone))
		}
	}()
	start := time.Now()
	if err := s.explain(p.put(ctx)); err != nil && !errors.Is(err, ErrExists) { // an answer may be lost, and the client has met its own object
		return 0, err
	}
	took = time.Since(start)
	if err := refusal(s.explain(p.put(ctx)), "an object"); err != nil {
		return took, err
	}
	if err := s.explain(p.inParts(ctx)); err != nil && !errors.Is(err, ErrExists) {
		return took, err
	}
	return took, refusal(s.explain(p.inParts(ctx)), "an upload in parts")
}

// refusal is nil when a server has refused a name that is taken.
func refusal(err error, of string) error {
	switch {
	case errors.Is(err, ErrExists):
		return nil
	case err == nil:
		return fmt.Errorf("%w (it replaced %s)", ErrNoConditions, of)
	}
	return err
}

func (p s3Probe) put(ctx context.Context) error {
	_, err := p.s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: p.s.bucket(), Key: p.s.key(p.dir + "/one"), IfNoneMatch: aws.String("*"), Body: strings.NewReader("probe"),
	})
	return err
}

// inParts is an upload of one part; it is ended whatever happens.
func (p s3Probe) inParts(ctx context.Context) error {
	key := p.s.key(p.dir + "/parts")
	up, err := p.s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: p.s.bucket(), Key: key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c})
	if err != nil {
		return err
	}
	check := checksum([]byte("probe"))
	part, err := p.s.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: p.s.bucket(), Key: key, UploadId: up.UploadId, PartNumber: new(int32(1)), Body: strings.NewReader("probe"), ChecksumCRC32C: &check,
	})
	if err == nil {
		_, err = p.s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: p.s.bucket(), Key: key, UploadId: up.UploadId, IfNoneMatch: aws.String("*"),
			MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: new(int32(1)), ChecksumCRC32C: &check}}},
		})
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.s.location.Timeout)
		defer cancel()
		_, _ = p.s.client.AbortMultipartUpload(clean, &s3.AbortMultipartUploadInput{Bucket: p.s.bucket(), Key: key, UploadId: up.UploadId})
	}
	return err
}

// removeBelow deletes everything below a folder of the root that is the store's own.
func (s *S3) removeBelow(ctx context.Context, dir string) error {
	return s.pages(ctx, s.below(dir), "", 0, func(page *s3.ListObjectsV2Output) error {
		for _, o := range page.Contents {
			if _, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket(), Key: o.Key}); err != nil {
				return s.explain(err)
			}
		}
		return nil
	})
}

// removeOldS3Probes clears up after probes that were killed. What it cannot
// remove the probe itself will complain about.
func (s *S3) removeOldS3Probes(ctx context.Context) {
	prefix := *s.key(probePrefix)
	_ = s.pages(ctx, prefix, "", 0, func(page *s3.ListObjectsV2Output) error {
		for _, o := range page.Contents {
			if time.Since(aws.ToTime(o.LastModified)) > probeLeftOver {
				_, _ = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket(), Key: o.Key})
			}
		}
		return nil
	})
}
