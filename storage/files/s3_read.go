package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Open is [Store.Open].
func (s *S3) Open(ctx context.Context, p Place, object string) (Reader, error) {
	if err := checkObject(object); err != nil {
		return nil, err
	}
	name := p.String() + "/" + object
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: s.bucket(), Key: s.key(name)})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, s.absent(ctx, err))
	}
	return &s3Reader{s: s, ctx: ctx, name: name, size: aws.ToInt64(out.ContentLength), tag: out.ETag}, nil
}

// absent explains an error of a look at an object. The answer does not say whether
// the object is missing or the whole bucket, and that is not the same.
func (s *S3) absent(ctx context.Context, err error) error {
	explained := s.explain(err)
	if !errors.Is(explained, ErrNotFound) {
		return explained
	}
	_, err = s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: s.bucket()})
	if errors.Is(s.explain(err), ErrNotFound) {
		return fmt.Errorf("the bucket of %s does not exist", s)
	}
	return explained // also when one may not look at the bucket
}

// s3Reader reads an object from where it stands to the end, and goes on where it
// was when the connection breaks.
type s3Reader struct {
	s    *S3
	ctx  context.Context
	name string
	size int64
	tag  *string
	at   int64
	body io.ReadCloser // stands at at; nil while there is none
}

// Size is [Reader].Size.
func (r *s3Reader) Size() int64 { return r.size }

// Read is [Reader].Read.
func (r *s3Reader) Read(b []byte) (n int, err error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if len(b) == 0 {
		return 0, nil
	}
	for range maxTries {
		if n, err = r.try(b); n > 0 || err == nil {
			return n, nil
		}
		_ = r.Close()
		if r.ctx.Err() != nil {
			return 0, context.Cause(r.ctx)
		}
		if !errors.Is(err, errBroken) {
			break
		}
	}
	return 0, fmt.Errorf("read %s from byte %d: %w", r.name, r.at, err)
}

// errBroken is a connection that ended in the middle of an object.
var errBroken = errors.New("the connection broke")

func (r *s3Reader) try(b []byte) (int, error) {
	if r.body == nil {
		out, err := r.s.client.GetObject(r.ctx, &s3.GetObjectInput{
			Bucket: r.s.bucket(), Key: r.s.key(r.name), Range: aws.String(fmt.Sprintf("bytes=%d-", r.at)), IfMatch: r.tag,
		})
		if err != nil {
			return 0, r.changed(err)
		}
		r.body = out.Body
	}
	n, err := r.body.Read(b)
	r.at += int64(n)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		return 0, nil
	}
	return 0, fmt.Errorf("%w: %w", errBroken, r.s.explain(err))
}

// changed explains why an object cannot be read any more.
func (r *s3Reader) changed(err error) error {
	explained := r.s.explain(err)
	if errors.Is(explained, ErrExists) { // the condition: it must be the object that was opened
		return errors.New("it was replaced since it was opened, which nothing of Fenceline does")
	}
	return explained
}

// Seek is [Reader].Seek.
func (r *s3Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("read %s: there is nothing at byte %d", r.name, offset)
	}
	if offset != r.at {
		_ = r.Close()
		r.at = offset
	}
	return offset, nil
}

// Close is [Reader].Close.
func (r *s3Reader) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}
