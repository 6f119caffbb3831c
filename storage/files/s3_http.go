package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// stalledError is a request that made no progress for too long.
type stalledError struct{ limit time.Duration }

func (e *stalledError) Error() string { return fmt.Sprintf("no progress for %s", e.limit) }

// Timeout and Temporary let it be tried again.
func (e *stalledError) Timeout() bool   { return true }
func (e *stalledError) Temporary() bool { return true }

// patient sends requests and gives those up on which nothing moves, in neither
// direction. A limit for the whole of a request would have to know its size and
// the line. Redirects are not followed: a signature is for one host.
type patient struct {
	transport *http.Transport
	limit     time.Duration
}

// tuned is a transport of the SDK, which knows the certificates of AWS_CA_BUNDLE,
// with connections that a store needs.
func tuned(limit time.Duration) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext = (&net.Dialer{Timeout: min(limit, 10*time.Second), KeepAlive: 15 * time.Second}).DialContext
		t.TLSHandshakeTimeout = min(limit, 10*time.Second)
		t.MaxIdleConnsPerHost, t.IdleConnTimeout = 64, time.Minute
		t.ForceAttemptHTTP2 = false // one connection for all parts would be one stall for all
	})
}

// Do sends a request. The limit counts anew with each piece that is sent or received;
// it does not count while the caller does not read.
func (p *patient) Do(r *http.Request) (*http.Response, error) {
	limit := p.limit
	if more, ok := r.Context().Value(patience{}).(time.Duration); ok {
		limit += more
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	w := &watched{limit: limit, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(&stalledError{limit}) })
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &sending{w, r.Body}
	}
	resp, err := p.transport.RoundTrip(r)
	if err != nil {
		w.end()
		return nil, w.reason(ctx, err)
	}
	w.timer.Stop()
	resp.Body = &receiving{watched: w, ctx: ctx, body: resp.Body}
	return resp, nil
}

// patience is how much longer a request may take to be answered.
type patience struct{}

func withPatience(ctx context.Context, more time.Duration) context.Context {
	return context.WithValue(ctx, patience{}, more)
}

// watched is a request that is under way.
type watched struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func (w *watched) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// reason tells a stall from what it looks like to the transport.
func (w *watched) reason(ctx context.Context, err error) error {
	if stalled, ok := errors.AsType[*stalledError](context.Cause(ctx)); ok {
		return stalled
	}
	return err
}

// sending is a body on its way out.
type sending struct {
	*watched
	io.ReadCloser
}

func (s *sending) Read(b []byte) (int, error) {
	s.timer.Reset(s.limit)
	return s.ReadCloser.Read(b)
}

// receiving is a body on its way in.
type receiving struct {
	*watched
	ctx    context.Context
	body   io.ReadCloser
	closed atomic.Bool
}

func (r *receiving) Read(b []byte) (int, error) {
	r.timer.Reset(r.limit)
	n, err := r.body.Read(b)
	r.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.reason(r.ctx, err)
	}
	return n, err
}

func (r *receiving) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	err := r.body.Close()
	r.end()
	return err
}
