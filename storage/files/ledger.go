package files

import (
	"context"

	"github.com/google/uuid"
)

// Upload is an object of an attempt that is being sent to a bucket in parts. The
// parts cost room until the upload is completed or aborted, and no listing of
// objects shows them.
type Upload struct {
	Place  Place
	Object string
	ID     string // what the store calls it
}

// Ledger remembers uploads outside of the bucket, so that a clean-up finds those
// of a worker that was killed. Not every server lists them, and none at once.
// The zero value remembers nothing.
type Ledger struct {
	// Begin records an upload before its first part. An error refuses it: the
	// attempt may have been condemned meanwhile.
	Begin func(context.Context, Upload) error
	// End forgets an upload that was completed or aborted.
	End func(context.Context, Upload) error
	// Open are the uploads of an attempt that have not ended.
	Open func(context.Context, uuid.UUID) ([]Upload, error)
}

func (l Ledger) begin(ctx context.Context, u Upload) error {
	if l.Begin == nil {
		return nil
	}
	return l.Begin(ctx, u)
}

func (l Ledger) end(ctx context.Context, u Upload) error {
	if l.End == nil {
		return nil
	}
	return l.End(ctx, u)
}

func (l Ledger) open(ctx context.Context, attempt uuid.UUID) ([]Upload, error) {
	if l.Open == nil {
		return nil, nil
	}
	return l.Open(ctx, attempt)
}
