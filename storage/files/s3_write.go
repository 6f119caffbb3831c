package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/uuid"
)

// What an object carries, so that who lost the answer to its own write can tell
// that it was its own.
const (
	metaAttempt = "fenceline-attempt"
	metaWriter  = "fenceline-writer"
)

// A part is sent again when it fails, so it is in memory until it has arrived:
// a writer holds one that is being filled and two that are being sent.
const (
	firstPart   = 8 << 20
	evenParts   = 1000 // of the first size
	growEvery   = 60   // further parts are one first part larger than the last ones
	sendAtOnce  = 2
	sendAlone   = 64 << 20 // larger parts are sent one after the other
	firstBuffer = 64 << 10
)

// partSize is the size of a part, from 1. Up to 8.4 GB all have 8 MiB; then they
// grow, so that the 10,000 parts that there may be are enough for 5 TiB, the
// largest object that there may be.
func partSize(number int32) int {
	return firstPart * (1 + max(0, int(number)-evenParts+growEvery-1)/growEvery)
}

// Create is [Store.Create]. Before its first object a store tries whether its
// server honours conditions.
func (s *S3) Create(ctx context.Context, p Place, object string) (Writer, error) {
	if err := checkObject(object); err != nil {
		return nil, err
	}
	if err := s.CheckConditions(ctx); err != nil {
		return nil, err
	}
	w := &s3Writer{s: s, place: p, object: object, id: uuid.New(), hash: sha256.New(), slots: make(chan struct{}, sendAtOnce)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	return w, nil
}

// s3Writer gathers a small object in memory and sends it at once, a larger one in parts.
type s3Writer struct {
	s      *S3
	place  Place
	object string
	id     uuid.UUID
	ctx    context.Context // ends when the caller's ends, when a part fails, or at the end
	cancel context.CancelCauseFunc
	hash   hash.Hash
	size   int64
	buffer []byte // the next part
	upload string // empty while there is none
	ended  bool
	err    error

	slots   chan struct{}
	sending sync.WaitGroup
	mu      sync.Mutex
	parts   []types.CompletedPart // by number, from 1
}

func (w *s3Writer) name() string { return w.place.String() + "/" + w.object }

func (w *s3Writer) key() *string { return w.s.key(w.name()) }

func (w *s3Writer) metadata() map[string]string {
	return map[string]string{metaAttempt: w.place.Attempt.String(), metaWriter: w.id.String()}
}

// Write is [Writer].Write.
func (w *s3Writer) Write(b []byte) (n int, err error) {
	if w.err == nil && w.ctx.Err() != nil {
		return 0, w.fail(w.why())
	}
	for len(b) > 0 && w.err == nil {
		size := partSize(int32(len(w.parts) + 1))
		if len(w.buffer) == size {
			w.send()
			continue
		}
		some := b[:min(len(b), size-len(w.buffer))]
		w.room(len(some), size)
		w.buffer = append(w.buffer, some...)
		w.hash.Write(some)
		w.size += int64(len(some))
		n, b = n+len(some), b[len(some):]
	}
	return n, w.err
}

// room makes the buffer large enough for some more bytes: small objects need
// little, and what is as large as a first part is used again and again.
func (w *s3Writer) room(more, size int) {
	need := len(w.buffer) + more
	if need <= cap(w.buffer) {
		return
	}
	var larger []byte
	switch {
	case size == firstPart && need > firstPart/16:
		larger = (*w.s.buffers.Get().(*[]byte))[:0]
	case size == firstPart:
		larger = make([]byte, 0, max(firstBuffer, 2*need))
	default:
		larger = make([]byte, 0, size)
	}
	w.buffer = append(larger, w.buffer...)
}

func (w *s3Writer) release(buffer []byte) {
	if cap(buffer) == firstPart {
		w.s.buffers.Put(&buffer)
	}
}

// fail keeps the first error and stops what is being sent.
func (w *s3Writer) fail(err error) error {
	if w.err == nil {
		w.err = fmt.Errorf("write %s: %w", w.name(), err)
		w.cancel(w.err)
	}
	return w.err
}

// send sends the buffer as the next part, in the background.
func (w *s3Writer) send() {
	if w.upload == "" {
		if err := w.begin(); err != nil {
			_ = w.fail(err)
			return
		}
	}
	if len(w.buffer) > sendAlone {
		w.sending.Wait()
	}
	select {
	case w.slots <- struct{}{}:
	case <-w.ctx.Done():
		_ = w.fail(w.why())
		return
	}
	part := w.buffer
	w.buffer = nil
	w.mu.Lock()
	w.parts = append(w.parts, types.CompletedPart{})
	number := int32(len(w.parts))
	w.mu.Unlock()
	w.sending.Go(func() {
		defer func() { <-w.slots }()
		if err := w.sendPart(number, part); err != nil {
			w.cancel(fmt.Errorf("part %d: %w", number, err))
		}
		w.release(part)
	})
}

// why is the reason for which the context has ended: the caller's, or that of a part.
func (w *s3Writer) why() error { return context.Cause(w.ctx) }

// begin opens the upload and has it remembered before there is anything in it.
func (w *s3Writer) begin() error {
	out, err := w.s.client.CreateMultipartUpload(w.ctx, &s3.CreateMultipartUploadInput{
		Bucket: w.s.bucket(), Key: w.key(), Metadata: w.metadata(), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
	})
	if err != nil {
		return w.s.explain(err)
	}
	w.upload = aws.ToString(out.UploadId)
	if err := w.s.ledger.begin(w.ctx, w.record()); err != nil {
		return fmt.Errorf("record the upload: %w", err)
	}
	if tries, ok := retry.GetAttemptResults(out.ResultMetadata); ok && len(tries.Results) > 1 {
		return w.abortTwins()
	}
	return nil
}

// abortTwins ends uploads of the same object that an earlier try has begun and whose
// reply was lost: nobody knows them, and an attempt that is published is never cleaned up.
func (w *s3Writer) abortTwins() error {
	list, err := w.s.Uploads(w.ctx, w.place)
	if err != nil {
		return fmt.Errorf("look for uploads that were begun twice: %w", err)
	}
	for _, u := range list {
		if u.Object != w.object || u.ID == w.upload {
			continue
		}
		if _, err := w.s.abortUpload(w.ctx, u); err != nil {
			return fmt.Errorf("end an upload that was begun twice: %w", err)
		}
	}
	return nil
}

func (w *s3Writer) record() Upload { return Upload{Place: w.place, Object: w.object, ID: w.upload} }

// checksum is what the server compares a part with (CRC-32C).
func checksum(part []byte) string {
	sum := crc32.Checksum(part, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (w *s3Writer) sendPart(number int32, part []byte) error {
	check := checksum(part)
	out, err := w.s.client.UploadPart(w.ctx, &s3.UploadPartInput{
		Bucket: w.s.bucket(), Key: w.key(), UploadId: &w.upload, PartNumber: &number,
		Body: bytes.NewReader(part), ContentLength: new(int64(len(part))), ChecksumCRC32C: &check,
	})
	if err != nil {
		return w.s.explain(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parts[number-1] = types.CompletedPart{ETag: out.ETag, PartNumber: &number, ChecksumCRC32C: &check}
	return nil
}

// Commit sends what is left and makes the object visible, unless its name is
// taken. Where the answer was lost it looks whose object is there.
func (w *s3Writer) Commit() (Written, error) {
	if w.err != nil {
		return Written{}, w.err
	}
	if w.ended {
		return Written{}, fmt.Errorf("write %s: it has ended already", w.name())
	}
	sum := [sha256.Size]byte(w.hash.Sum(nil))
	if err := w.finish(sum); err != nil {
		return Written{}, w.fail(err)
	}
	w.ended = true
	w.release(w.buffer)
	w.buffer = nil
	if w.upload != "" {
		ctx, cancel := w.afterwards()
		defer cancel()
		_ = w.s.ledger.end(ctx, w.record()) // remembered for longer than need be, it is one more look for the clean-up
	}
	w.cancel(nil)
	return Written{Size: w.size, SHA256: sum}, nil
}

func (w *s3Writer) finish(sum [sha256.Size]byte) error {
	if w.upload == "" {
		return w.settle(w.put(sum))
	}
	if len(w.buffer) > 0 {
		if w.send(); w.err != nil {
			return w.err
		}
	}
	if w.sending.Wait(); w.ctx.Err() != nil {
		return w.why()
	}
	return w.settle(w.complete())
}

func (w *s3Writer) put(sum [sha256.Size]byte) error {
	_, err := w.s.client.PutObject(w.ctx, &s3.PutObjectInput{
		Bucket: w.s.bucket(), Key: w.key(), Metadata: w.metadata(), IfNoneMatch: aws.String("*"),
		Body: bytes.NewReader(w.buffer), ContentLength: &w.size, ChecksumSHA256: new(base64.StdEncoding.EncodeToString(sum[:])),
	})
	return err
}

// joinedPerSecond is how many bytes a server must manage to join: some copy the
// parts, and answer only then.
const joinedPerSecond = 20 << 20

func (w *s3Writer) complete() error {
	ctx := withPatience(w.ctx, time.Duration(w.size/joinedPerSecond)*time.Second)
	_, err := w.s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: w.s.bucket(), Key: w.key(), UploadId: &w.upload, IfNoneMatch: aws.String("*"),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: w.parts},
	})
	return err
}

// settle finds the outcome of the request that makes the object visible. After an
// error nobody knows: the answer may have been lost, and the client has
// tried again and met its own object. The object itself tells.
func (w *s3Writer) settle(err error) error {
	if err == nil {
		return nil
	}
	explained := w.s.explain(err)
	ctx, cancel := w.afterwards()
	defer cancel()
	out, look := w.s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: w.s.bucket(), Key: w.key()})
	switch {
	case look != nil && errors.Is(explained, ErrExists):
		return fmt.Errorf("%w, and whether it is this one: %w", explained, w.s.explain(look))
	case look != nil: // it is not there, or not to be seen; if it comes later, the clean-up takes it
		return explained
	case out.Metadata[metaWriter] != w.id.String() || out.Metadata[metaAttempt] != w.place.Attempt.String():
		return ErrExists
	case aws.ToInt64(out.ContentLength) != w.size:
		return fmt.Errorf("%d bytes have arrived of %d", aws.ToInt64(out.ContentLength), w.size)
	}
	return nil
}

// afterwards is for what has to be done although the attempt is over.
func (w *s3Writer) afterwards() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(w.ctx), w.s.location.Timeout)
}

// Abort gives up what was sent in parts. What may have become an object stays: it
// is for the clean-up.
func (w *s3Writer) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	w.cancel(context.Canceled)
	w.sending.Wait()
	w.release(w.buffer)
	w.buffer = nil
	if w.upload == "" {
		return
	}
	ctx, cancel := w.afterwards()
	defer cancel()
	_, _ = w.s.abortUpload(ctx, w.record()) // the clean-up tries again
}
