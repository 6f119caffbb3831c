package files

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/uuid"
)

// pages calls fn for each page of the keys that begin with prefix; with a
// delimiter for the folders directly below it too.
func (s *S3) pages(ctx context.Context, prefix, delimiter string, most int32, fn func(*s3.ListObjectsV2Output) error) error {
	in := &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: &prefix}
	if delimiter != "" {
		in.Delimiter = &delimiter
	}
	if most > 0 {
		in.MaxKeys = &most
	}
	pages := s3.NewListObjectsV2Paginator(s.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list %s: %w", s, s.explain(err))
		}
		if err := fn(page); err != nil {
			return err
		}
	}
	return nil
}

// List is [Store.List].
func (s *S3) List(ctx context.Context, fn func(Object) error) error {
	root, last := s.below(""), ""
	return s.pages(ctx, root, "", 0, func(page *s3.ListObjectsV2Output) error {
		for _, c := range page.Contents {
			name := strings.TrimPrefix(aws.ToString(c.Key), root)
			if first, _, _ := strings.Cut(name, "/"); ownName(first) || name == "" {
				continue
			}
			if name <= last {
				return fmt.Errorf("list %s: the server names %q after %q, and not in the order of names as it has to", s, name, last)
			}
			last = name
			if err := fn(objectAt(name, aws.ToInt64(c.Size), aws.ToTime(c.LastModified))); err != nil {
				return err
			}
		}
		return nil
	})
}

// Places is [Store.Places].
func (s *S3) Places(ctx context.Context, export uuid.UUID) (places []Place, unknown []string, err error) {
	prefix := s.below(export.String())
	err = s.pages(ctx, prefix, "/", 0, func(page *s3.ListObjectsV2Output) error {
		for _, folder := range page.CommonPrefixes {
			name := strings.TrimSuffix(strings.TrimPrefix(aws.ToString(folder.Prefix), prefix), "/")
			if p, ok := parseFolder(export, name); ok {
				places = append(places, p)
			} else {
				unknown = append(unknown, name)
			}
		}
		for _, c := range page.Contents {
			if name := strings.TrimPrefix(aws.ToString(c.Key), prefix); name != "" { // "" is how a console shows a folder
				unknown = append(unknown, name)
			}
		}
		return nil
	})
	return places, unknown, err
}

// Present is [Store.Present].
func (s *S3) Present(ctx context.Context, p Place) (there bool, err error) {
	enough := errors.New("enough")
	err = s.pages(ctx, s.below(p.String()), "", 1, func(page *s3.ListObjectsV2Output) error {
		there = len(page.Contents) > 0
		return enough
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return there, err
}

// Remove is [Store.Remove]. It ends the uploads first: one that is completed
// meanwhile is then seen as an object.
func (s *S3) Remove(ctx context.Context, p Place) (int64, error) {
	bytes, err := s.abortAll(ctx, p)
	if err != nil {
		return bytes, fmt.Errorf("abort the uploads of %s: %w", p, err)
	}
	var names []types.Object
	err = s.pages(ctx, s.below(p.String()), "", 0, func(page *s3.ListObjectsV2Output) error {
		names = append(names, page.Contents...)
		return nil
	})
	if err != nil {
		return bytes, err
	}
	for _, o := range names {
		// One by one: not every server can delete several at once, and an attempt has few.
		_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket(), Key: o.Key})
		if err = s.explain(err); err != nil && !errors.Is(err, ErrNotFound) {
			return bytes, fmt.Errorf("remove %s: %w", p, err)
		}
		bytes += aws.ToInt64(o.Size)
	}
	return bytes, nil
}

// abortAll ends the uploads of an attempt: those that the store lists, and those
// that were recorded.
func (s *S3) abortAll(ctx context.Context, p Place) (bytes int64, err error) {
	recorded, err := s.ledger.open(ctx, p.Attempt)
	if err != nil {
		return 0, err
	}
	listed, err := s.Uploads(ctx, p)
	if err != nil {
		return 0, err
	}
	done := map[string]bool{}
	for _, u := range append(recorded, listed...) {
		if done[u.ID] {
			continue
		}
		done[u.ID] = true
		u.Place = p
		n, err := s.abortUpload(ctx, u)
		bytes += n
		if err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// Uploads lists the uploads of an attempt that have not ended, as far as the
// server tells.
func (s *S3) Uploads(ctx context.Context, p Place) (list []Upload, err error) {
	prefix := s.below(p.String())
	in := &s3.ListMultipartUploadsInput{Bucket: s.bucket(), Prefix: &prefix}
	for {
		out, err := s.client.ListMultipartUploads(ctx, in)
		if err != nil {
			return list, s.explain(err)
		}
		for _, u := range out.Uploads {
			if object, below := strings.CutPrefix(aws.ToString(u.Key), prefix); below {
				list = append(list, Upload{Place: p, Object: object, ID: aws.ToString(u.UploadId)})
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return list, nil
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
}

// abortUpload ends an upload and answers how many bytes it held. One that has ended is success.
func (s *S3) abortUpload(ctx context.Context, u Upload) (bytes int64, err error) {
	key := s.key(u.Place.String() + "/" + u.Object)
	parts := s3.NewListPartsPaginator(s.client, &s3.ListPartsInput{Bucket: s.bucket(), Key: key, UploadId: &u.ID})
	for parts.HasMorePages() {
		page, err := parts.NextPage(ctx)
		if err != nil {
			break // how much it was is only for the record
		}
		for _, p := range page.Parts {
			bytes += aws.ToInt64(p.Size)
		}
	}
	_, err = s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: s.bucket(), Key: key, UploadId: &u.ID})
	if _, gone := errors.AsType[*types.NoSuchUpload](err); err != nil && !gone {
		return 0, s.explain(err)
	} else if gone {
		bytes = 0
	}
	return bytes, s.ledger.end(ctx, u)
}
