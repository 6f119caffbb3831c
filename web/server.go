package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/web/oidc"
	"github.com/fenceline/fenceline/web/password"
)

// Config is what a [Server] stands on. Store, Files, Dispatcher, Reports, Targets and Log
// are needed; the caller closes them after [Server.Run] has returned.
type Config struct {
	Store      *storage.Store
	Files      files.Store
	Dispatcher *jobs.Dispatcher
	Reports    *jobs.Reports
	Targets    *notify.Targets
	// Invoices draws documents before they are issued.
	Invoices jobs.InvoiceRenderers
	// Sweep is the clean-up as configured, for its page; nil shows what there is and runs none.
	Sweep *storage.Sweep
	// Metrics answers GET /metrics; nil answers 404.
	Metrics http.Handler
	Log     *slog.Logger
	// PublicURL is how people reach the server, such as https://exports.example.com.
	// With https the session cookie is sent over TLS only.
	PublicURL string
	// Ready says why the server cannot work, or nil. It is given a second. What it
	// answers is shown to anybody when it is a [NotReady], else only logged. Nil is always ready.
	Ready func(context.Context) error
	// Lease is how long a worker may be silent before its job is handed on; used
	// to say for how long an attempt was silent at least. Zero is unknown.
	Lease time.Duration
	// LinkMax is how long a signed link may live at most; zero is a week.
	LinkMax time.Duration
	// APIRate is how many requests of the API a token or a user may make in a minute, a sixth of them at once; 0 is any number.
	APIRate int
	// TrustedProxies are the networks of proxies that are believed whom they speak for.
	TrustedProxies []netip.Prefix
	// Tally counts tries to sign in together with other processes; nil counts in this one only.
	Tally *jobs.Tally
	// Provider signs people in besides links and passwords; nil for none. It sends them back
	// to [CallbackPath] below PublicURL.
	Provider *oidc.Config
	// Retention is how long things stay, as the settings page shows it.
	Retention []Setting
	// beat is how often a silent stream gets a comment; zero is as often as proxies want it. Tests hurry it.
	beat time.Duration
}

// NotReady is why a server is not ready, in a word that anybody may read.
type NotReady string

// Error is the word.
func (n NotReady) Error() string { return string(n) }

// Server serves the pages and the API. It is safe for concurrent use.
type Server struct {
	store      *storage.Store
	files      files.Store
	dispatcher *jobs.Dispatcher
	schedules  *jobs.Schedules
	reports    *jobs.Reports
	targets    *notify.Targets
	invoices   jobs.InvoiceRenderers
	metrics    http.Handler
	log        *slog.Logger
	publicURL  string
	secure     bool
	ready      func(context.Context) error
	lease      time.Duration
	linkMax    time.Duration
	rate       *throttle
	sweeps     *sweeper
	retention  []Setting
	docs       func() (described, error)
	keys       inFlight
	proxies    []netip.Prefix
	beat       time.Duration

	assets  assets
	pages   pages
	drawn   chartCache
	nav     []navGroup
	paths   map[string]bool // the routes that there are, as in "GET /new"
	events  *hub
	signins *limiter  // by address
	names   *limiter  // by name
	links   *throttle // of signed links, by address
	// misses are links that there are not: by address, whether an address had any, and of all.
	misses, missed, allMisses *limiter
	hasher                    *password.Hasher
	// provider is nil when there is none.
	provider *oidc.Provider
	handler  http.Handler
	// stopping is closed when the server begins to shut down.
	stopping chan struct{}
}

// New prepares a server. Nothing is opened before [Server.Run].
func New(c Config) *Server {
	s := &Server{
		store: c.Store, files: c.Files, dispatcher: c.Dispatcher, schedules: jobs.NewSchedules(c.Store, c.Dispatcher, c.Log), reports: c.Reports, targets: c.Targets, invoices: c.Invoices, metrics: c.Metrics, log: c.Log,
		publicURL: strings.TrimRight(c.PublicURL, "/"), secure: strings.HasPrefix(c.PublicURL, "https://"),
		ready: c.Ready, lease: c.Lease, retention: c.Retention, rate: newThrottle(c.APIRate), linkMax: cmp.Or(c.LinkMax, 7*24*time.Hour), assets: newAssets(), signins: newLimiter("signin", maxFailedSignins, time.Minute, c.Tally),
		names: newLimiter("name", maxFailedNames, nameWindow, c.Tally),
		links: newThrottle(linksPerMinute), misses: newLimiter("link", maxLinkMisses, time.Minute, c.Tally), proxies: c.TrustedProxies,
		missed: newLimiter("linked", 1, time.Minute, c.Tally), allMisses: newLimiter("links", maxMissesOfAll, time.Minute, c.Tally), hasher: password.New(2),
		stopping: make(chan struct{}), sweeps: newSweeper(c),
	}
	if c.Provider != nil {
		s.provider = oidc.New(*c.Provider, s.publicURL+CallbackPath)
	}
	s.pages = newPages(s.assets)
	s.events = newHub(c.Store, c.Log)
	s.beat = cmp.Or(c.beat, keepAlive)
	s.docs = sync.OnceValues(s.describe)
	table := s.routes()
	s.nav, s.paths = linked(table), map[string]bool{}
	for _, rt := range table {
		s.paths[rt.method+" "+rt.path] = true
	}
	s.handler = s.chain(table)
	return s
}

// access says who may use a route.
type access int

const (
	open     access = iota // anybody
	signedIn               // people with a session; others are sent to the sign-in page
	api                    // an API token or a session; others get 401
	apiToken               // an API token only; others get 401
)

// route is a line of the table.
type route struct {
	method, path string
	access       access
	needs        storage.Verb // what the role or the token has to allow; empty for open routes only
	handle       func(http.ResponseWriter, *http.Request) error
}

// routes is every route there is. GET answers HEAD too.
func (s *Server) routes() []route {
	return append([]route{
		{"GET", "/healthz", open, "", s.healthz},
		{"GET", "/readyz", open, "", s.readyz},
		{"GET", "/signin", open, "", s.signinPage},
		{"POST", "/signin", open, "", s.signin},
		{"GET", "/static/{file}", open, "", s.static},

		{"GET", "/{$}", signedIn, storage.VerbView, s.overviewPage},
		{"GET", "/exports/{id}", signedIn, storage.VerbView, s.exportPage},
		{"GET", "/exports/{id}/files/{name}", signedIn, storage.VerbView, s.download},
		{"GET", "/exports/{id}/attempts/{attempt}/files/{name}", signedIn, storage.VerbView, s.download},
		{"GET", "/jobs/{id}", signedIn, storage.VerbView, s.jobPage},
		{"POST", "/jobs/{id}/cancel", signedIn, storage.VerbRequest, s.cancelForm},
		{"POST", "/jobs/{id}/retry", signedIn, storage.VerbOperate, s.retryForm},
		{"GET", "/new", signedIn, storage.VerbView, s.reportsPage},
		{"GET", "/new/{report}", signedIn, storage.VerbView, s.newExportPage},
		{"POST", "/new/{report}", signedIn, storage.VerbRequest, s.newExportForm},
		{"POST", "/new/{report}/preview", signedIn, storage.VerbRequest, s.previewForm},
		{"POST", "/signout", signedIn, storage.VerbView, s.signout},

		{"GET", "/events", api, storage.VerbView, s.eventStream},
		{"POST", "/api/v1/jobs", api, storage.VerbRequest, s.apiDispatch},
		{"GET", "/api/v1/jobs", api, storage.VerbView, s.apiJobs},
		{"POST", "/api/v1/jobs/bulk", api, storage.VerbRequest, s.apiBulk},
		{"POST", "/api/v1/chains", api, storage.VerbRequest, s.apiChain},
		{"GET", "/api/v1/jobs/{id}", api, storage.VerbView, s.apiJob},
		{"POST", "/api/v1/jobs/{id}/cancel", api, storage.VerbRequest, s.apiCancel},
		{"POST", "/api/v1/jobs/{id}/retry", api, storage.VerbOperate, s.apiRetry},
		{"POST", "/api/v1/jobs/{id}/forget", api, storage.VerbOperate, s.apiForget},
		{"GET", "/api/v1/failed", api, storage.VerbView, s.apiFailed},
		{"POST", "/api/v1/failed/retry", api, storage.VerbOperate, s.apiRetryFailed},
		{"POST", "/api/v1/failed/forget", api, storage.VerbOperate, s.apiForgetFailed},
		{"GET", "/api/v1/queues", api, storage.VerbView, s.apiQueues},
		{"POST", "/api/v1/queues/{name}/pause", api, storage.VerbOperate, s.apiPause},
		{"POST", "/api/v1/queues/{name}/resume", api, storage.VerbOperate, s.apiResume},
		{"GET", "/api/v1/workers", api, storage.VerbView, s.apiWorkers},
		{"GET", "/api/v1/exports", api, storage.VerbView, s.apiExports},
		{"GET", "/api/v1/exports/{id}", api, storage.VerbView, s.apiExport},
		{"GET", "/api/v1/exports/{id}/files/{name}", api, storage.VerbView, s.download},
		{"GET", "/api/v1/exports/{id}/attempts/{attempt}/files/{name}", api, storage.VerbView, s.download},
		{"GET", "/api/v1/reports", api, storage.VerbView, s.apiReports},
		{"POST", "/api/v1/invoices", api, storage.VerbRequest, s.apiIssue},
		{"GET", "/api/v1/invoices/schema", api, storage.VerbView, s.apiInvoiceSchema},
		{"GET", "/api/v1/series/{name}", api, storage.VerbView, s.apiNumbers},
		{"GET", "/api/v1/batches", api, storage.VerbView, s.apiBatches},
		{"GET", "/api/v1/batches/{id}", api, storage.VerbView, s.apiBatch},
		{"POST", "/api/v1/batches", api, storage.VerbRequest, s.apiMakeBatch},
		{"POST", "/api/v1/batches/{id}/retry", api, storage.VerbOperate, s.apiRetryBatch},
		{"POST", "/api/v1/batches/{id}/cancel", api, storage.VerbOperate, s.apiCancelBatch},
		{"GET", "/api/v1/schedules", api, storage.VerbView, s.apiSchedules},
		{"GET", "/api/v1/schedules/{name}", api, storage.VerbView, s.apiSchedule},
		{"PUT", "/api/v1/schedules/{name}", api, storage.VerbOperate, s.apiPutSchedule},
		{"DELETE", "/api/v1/schedules/{name}", api, storage.VerbOperate, s.apiDeleteSchedule},
		{"POST", "/api/v1/schedules/{name}/pause", api, storage.VerbOperate, s.apiPauseSchedule},
		{"POST", "/api/v1/schedules/{name}/resume", api, storage.VerbOperate, s.apiResumeSchedule},
		{"POST", "/api/v1/schedules/{name}/run", api, storage.VerbOperate, s.apiRunSchedule},
		{"GET", "/api/v1/schedules/{name}/runs", api, storage.VerbView, s.apiScheduleRuns},
		{"GET", "/metrics", apiToken, storage.VerbView, s.serveMetrics},
	}, slices.Concat(
		s.notifyRoutes(),
		s.jobListRoutes(),
		s.exportListRoutes(),
		s.queueRoutes(),
		s.batchRoutes(),
		s.scheduleRoutes(),
		s.failedRoutes(),
		s.detailRoutes(),
		s.auditRoutes(),
		s.linkRoutes(),
		s.followRoutes(),
		s.cleanupRoutes(),
		s.settingsRoutes(),
		s.providerRoutes(),
		s.docRoutes(),
		s.keepRoutes(),
		s.labRoutes(),
	)...)
}

// Handler is the whole site. Live events flow only while [Server.Run] runs.
func (s *Server) Handler() http.Handler { return s.handler }

// SigninURL is the address that signs somebody in with the secret of a sign-in link.
func (s *Server) SigninURL(secret string) string {
	return s.publicURL + "/signin?token=" + url.QueryEscape(secret)
}

// shutdownGrace is how long requests may go on after a stop.
const shutdownGrace = 10 * time.Second

// Run serves on a listener, which it closes, until ctx ends: then event streams
// end at once and other requests within ten seconds. nil means that it was
// stopped so. It may be called once.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	defer s.sweeps.stop()
	listening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		s.events.run(listening)
	}()
	defer func() {
		cancel()
		<-heard
	}()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	return s.shutdown(ctx, srv)
}

func (s *Server) shutdown(ctx context.Context, srv *http.Server) error {
	close(s.stopping)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := srv.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were still running after the grace and were cut off", "grace", shutdownGrace)
		err = srv.Close()
	}
	if err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	return nil
}
