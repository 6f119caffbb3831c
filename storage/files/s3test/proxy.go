package s3test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

// Fault is what a [Proxy] does to a request.
type Fault int

// The faults that there are.
const (
	None      Fault = iota
	Fail            // 500 InternalError
	SlowDown        // 503 SlowDown
	Deny            // 403 AccessDenied
	NoBucket        // 404 NoSuchBucket
	Conflict        // 409 ConditionalRequestConflict
	Stall           // nothing, until the client goes
	LoseReply       // the server has done it, and the connection ends
	Cut             // the connection ends in the middle of the body, in either direction
	Replace         // success where the server has refused a name that is taken
)

// Proxy stands between a client and the server and does harm.
type Proxy struct {
	URL string // as an endpoint

	mu    sync.Mutex
	judge func(*http.Request) Fault
	count map[string]int
}

// NewProxy starts a proxy before a bucket's server that ends with the test.
// judge says what happens to a request; nil lets all pass.
func NewProxy(t testing.TB, b *Bucket, judge func(*http.Request) Fault) *Proxy {
	t.Helper()
	to, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{judge: judge, count: map[string]int{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, to) }))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	p.URL = s.URL
	return p
}

// Judge replaces what decides about requests from now on.
func (p *Proxy) Judge(judge func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = judge
}

// Seen is how many requests of an [Operation] have come.
func (p *Proxy) Seen(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[operation]
}

// Operation names a request as S3 does: PutObject, UploadPart and so on.
func Operation(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && q.Has("uploads"):
		return "CreateMultipartUpload"
	case r.Method == http.MethodPost && q.Has("uploadId"):
		return "CompleteMultipartUpload"
	case r.Method == http.MethodPut && q.Has("partNumber"):
		return "UploadPart"
	case r.Method == http.MethodPut:
		return "PutObject"
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		return "AbortMultipartUpload"
	case r.Method == http.MethodDelete:
		return "DeleteObject"
	case r.Method == http.MethodHead:
		return "HeadObject"
	case q.Has("uploads"):
		return "ListMultipartUploads"
	case q.Has("list-type"):
		return "ListObjectsV2"
	case q.Has("uploadId"):
		return "ListParts"
	}
	return "GetObject"
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, to *url.URL) {
	p.mu.Lock()
	p.count[Operation(r)]++
	judge, fault := p.judge, None
	p.mu.Unlock()
	if judge != nil {
		fault = judge(r)
	}
	switch fault {
	case Fail:
		refuse(w, r, http.StatusInternalServerError, "InternalError", "We encountered an internal error.")
	case SlowDown:
		refuse(w, r, http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.")
	case Deny:
		refuse(w, r, http.StatusForbidden, "AccessDenied", "Access Denied")
	case NoBucket:
		refuse(w, r, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	case Conflict:
		refuse(w, r, http.StatusConflict, "ConditionalRequestConflict", "The conditional request cannot succeed due to a conflicting operation.")
	case Stall:
		_, _ = io.Copy(io.Discard, r.Body) // only after it is it seen that the client goes
		<-r.Context().Done()
	case Cut:
		if r.ContentLength > 0 {
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
			panic(http.ErrAbortHandler)
		}
		forward(w, r, to, fault)
	default:
		forward(w, r, to, fault)
	}
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
}

// forward asks the server. The host stays what the client has signed.
func forward(w http.ResponseWriter, r *http.Request, to *url.URL, fault Fault) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = to.Scheme, to.Host, ""
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	if fault == LoseReply {
		panic(http.ErrAbortHandler)
	}
	if fault == Replace && resp.StatusCode == http.StatusPreconditionFailed {
		replaced(w, r)
		return
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	if fault == Cut {
		_, err = io.CopyN(w, resp.Body, resp.ContentLength/2)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if _, err := io.Copy(w, resp.Body); err != nil && !errors.Is(err, io.EOF) {
		panic(http.ErrAbortHandler)
	}
}

// replaced answers as a server does that has never heard of conditions.
func replaced(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"0"`)
	if Operation(r) == "CompleteMultipartUpload" {
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><CompleteMultipartUploadResult><ETag>"0"</ETag></CompleteMultipartUploadResult>`)
	}
}
