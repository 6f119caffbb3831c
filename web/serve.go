package web

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// request is what the chain knows about a request. It travels in its context.
type request struct {
	id        string
	api       bool // errors are problems in JSON, not pages
	principal principal
	tls       bool   // a trusted proxy was spoken to over TLS
	seen      string // the newest event before anything was read for a page
}

type requestKey struct{}

// of answers what the chain knows about a request.
func of(r *http.Request) *request {
	if known, ok := r.Context().Value(requestKey{}).(*request); ok {
		return known
	}
	return &request{} // the request did not come through the chain: nobody, who sees nothing
}

// contentPolicy allows what the pages need: their own script, style and pictures.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// chain builds the handler of a table of routes.
func (s *Server) chain(table []route) http.Handler {
	mux := http.NewServeMux()
	for _, rt := range table {
		mux.Handle(rt.method+" "+rt.path, s.guard(rt))
	}
	origin := http.NewCrossOriginProtection()
	if s.publicURL != "" {
		if err := origin.AddTrustedOrigin(s.publicURL); err != nil {
			s.log.Warn("the public address is not an origin; forms work only under the Host that browsers use", "error", err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := &request{id: requestID(r), api: strings.HasPrefix(r.URL.Path, "/api/")}
		known.tls = s.fromProxy(r)
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, known))
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		setHeaders(rec.Header(), known.id)
		if s.overTLS(r) {
			rec.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		start := time.Now()
		defer s.finish(rec, r, start)
		if err := origin.Check(r); err != nil {
			s.fail(rec, r, errCrossOrigin)
			return
		}
		s.dispatch(mux, rec, r)
	})
}

// finish logs a request, and answers it when its handler has panicked.
func (s *Server) finish(rec *recorder, r *http.Request, start time.Time) {
	known := of(r)
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler {
			panic(p)
		}
		s.log.Error("panic in a handler", "request_id", known.id, "panic", p, "stack", string(debug.Stack()))
		if rec.begun {
			panic(http.ErrAbortHandler) // the answer is cut off, so that nobody takes it for whole
		}
		s.fail(rec, r, errInternal)
	}
	level := slog.LevelInfo
	if strings.HasPrefix(r.URL.Path, "/static/") || strings.HasSuffix(r.URL.Path, "z") {
		level = slog.LevelDebug
	}
	s.log.Log(r.Context(), level, "request", "request_id", known.id, "method", r.Method, "path", shownPath(r),
		"status", rec.status, "bytes", rec.bytes, "took", time.Since(start).Round(time.Microsecond), "who", known.principal.name)
}

func setHeaders(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// dispatch lets the mux choose the route; what it has none for is answered in our own words.
func (s *Server) dispatch(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	h, pattern := mux.Handler(r)
	if pattern != "" {
		mux.ServeHTTP(w, r)
		return
	}
	var look lookOnly
	h.ServeHTTP(&look, r)
	if look.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", look.Header().Get("Allow"))
		s.fail(w, r, errMethod)
		return
	}
	s.fail(w, r, errNoRoute)
}

// guard lets through who may use a route.
func (s *Server) guard(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		known := of(r)
		known.api = rt.access == api || rt.access == apiToken
		who, err := s.identify(r, rt.access)
		if err == nil {
			known.principal = who
			if rt.access == signedIn {
				known.seen = s.events.position()
			}
			if rt.access != open && !who.may(rt.needs) {
				err = errVerb
			} else if rt.access == api {
				err = s.withinRate(r, who)
			}
			if err == nil {
				err = rt.handle(w, r)
			}
		}
		if err != nil {
			s.fail(w, r, err)
		}
	}
}

var saneID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID takes the id that a proxy gave the request, or makes one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); saneID.MatchString(id) {
		return id
	}
	return strings.ToLower(rand.Text()[:16])
}

// writePatience is how long a client may take to receive anything at all.
const writePatience = time.Minute

// recorder remembers how a request was answered, and gives up on a client that
// takes nothing: each write has a minute, so a slow one may take as long as it needs.
type recorder struct {
	http.ResponseWriter
	status   int
	bytes    int64
	begun    bool
	deadline time.Time
}

// extend gives the client another while to take something. After each answer
// net/http takes the deadline off the connection.
func (rec *recorder) extend() {
	if now := time.Now(); rec.deadline.Sub(now) < writePatience-time.Second {
		rec.deadline = now.Add(writePatience)
		_ = http.NewResponseController(rec.ResponseWriter).SetWriteDeadline(rec.deadline) // not every transport has one
	}
}

// WriteHeader notes the status.
func (rec *recorder) WriteHeader(status int) {
	rec.extend()
	if !rec.begun && status >= 200 {
		rec.status, rec.begun = status, true
	}
	rec.ResponseWriter.WriteHeader(status)
}

// Write notes the size.
func (rec *recorder) Write(b []byte) (int, error) {
	rec.begun = true
	rec.extend()
	n, err := rec.ResponseWriter.Write(b)
	rec.bytes += int64(n)
	return n, err
}

// Unwrap lets [http.ResponseController] reach the connection.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// lookOnly learns what a handler would answer.
type lookOnly struct {
	header http.Header
	status int
}

// Header holds what the handler sets.
func (l *lookOnly) Header() http.Header {
	if l.header == nil {
		l.header = http.Header{}
	}
	return l.header
}

// WriteHeader notes the status.
func (l *lookOnly) WriteHeader(status int) { l.status = status }

// Write drops the body.
func (l *lookOnly) Write(b []byte) (int, error) { return len(b), nil }
