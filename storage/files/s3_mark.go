package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
)

// CheckMarker is [Store.CheckMarker].
func (s *S3) CheckMarker(ctx context.Context, installation uuid.UUID) error {
	marked, err := s.marked(ctx)
	if errors.Is(err, ErrNotFound) {
		return s.mark(ctx, installation)
	}
	if err == nil && marked != installation {
		return fmt.Errorf("%w: %s is marked for installation %s, the database is installation %s; set FILES_URL to the right bucket and prefix",
			ErrOtherInstallation, s, marked, installation)
	}
	return err
}

// marked reads whose mark it is, or fails with [ErrNotFound].
func (s *S3) marked(ctx context.Context) (uuid.UUID, error) {
	m, err := s.ReadMark(ctx)
	return m.Installation, err
}

// ReadMark is [Store.ReadMark].
func (s *S3) ReadMark(ctx context.Context) (Mark, error) {
	m, _, err := s.readMark(ctx)
	return m, err
}

// readMark answers the mark and its version. An answer that breaks off is asked for again: the client itself tries
// again only until an answer has begun.
func (s *S3) readMark(ctx context.Context) (m Mark, etag *string, err error) {
	var raw []byte
	for range maxTries {
		out, refused := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: s.bucket(), Key: s.key(markerName)})
		if refused != nil {
			return m, nil, fmt.Errorf("read %s: %w", markerName, s.explain(refused))
		}
		raw, err = io.ReadAll(io.LimitReader(out.Body, 64<<10))
		_ = out.Body.Close()
		if etag = out.ETag; err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return m, nil, fmt.Errorf("read %s: %w", markerName, s.explain(err))
	}
	if m, err = decodeMark(raw); err != nil {
		return m, nil, fmt.Errorf("read %s of %s: %w", markerName, s, err)
	}
	return m, etag, nil
}

// markTries is how often a mark is read and written anew because somebody else wrote it between the two.
const markTries = 5

// WriteMark is [Store.WriteMark]: an object is replaced in full, and only while it
// is the one whose installation was looked at.
func (s *S3) WriteMark(ctx context.Context, m Mark) error {
	raw, err := m.encode()
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		if err := s.CheckMarker(ctx, m.Installation); err != nil {
			return err
		}
		found, etag, err := s.readMark(ctx)
		if err == nil && found.Installation != m.Installation {
			err = ErrOtherInstallation
		}
		if err != nil {
			return err
		}
		_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: s.bucket(), Key: s.key(markerName), Body: bytes.NewReader(raw), IfMatch: etag, ContentType: aws.String("application/json"),
		})
		if err = s.explain(err); err == nil {
			return nil
		}
		if !errors.Is(err, ErrExists) || try == markTries {
			return fmt.Errorf("write %s: %w", markerName, err)
		}
	}
}

func (s *S3) mark(ctx context.Context, installation uuid.UUID) error {
	stranger, err := s.stranger(ctx)
	if err != nil {
		return err
	}
	if stranger != "" {
		if marked, err := s.marked(ctx); err == nil && marked == installation { // another process was first, since we looked
			return nil
		}
		return fmt.Errorf("%w: %s holds %q but no %s; set FILES_URL to a prefix that holds nothing", ErrOtherInstallation, s, stranger, markerName)
	}
	raw, err := Mark{Installation: installation}.encode()
	if err != nil {
		return err
	}
	_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: s.bucket(), Key: s.key(markerName), Body: bytes.NewReader(raw), IfNoneMatch: aws.String("*"), ContentType: aws.String("application/json"),
	})
	if err = s.explain(err); err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("write %s: %w", markerName, err)
	}
	marked, err := s.marked(ctx) // another process may have been first
	if err == nil && marked != installation {
		return s.CheckMarker(ctx, installation)
	}
	return err
}
