package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/demo"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/web"
)

// app is an opened Fenceline: the database, the files, and what is made of them.
// It is closed by its owner, in reverse.
type app struct {
	conf       Config
	log        *slog.Logger
	store      *storage.Store
	files      files.Store
	redis      jobs.Redis  // without a client when the app does not work
	leases     jobs.Leaser // nil when the app does not work
	reports    *jobs.Reports
	invoices   jobs.InvoiceRenderers
	registry   *jobs.Registry
	keys       *secret.Keyring // nil: none
	dispatcher *jobs.Dispatcher
	metrics    *prometheus.Registry
	counts     *jobs.Metrics // of the worker
	name       string
	extras     extras
	closers    []func()
}

// openApp opens the database and the files. withRedis is for those who work or relay.
func openApp(ctx context.Context, conf Config, log *slog.Logger, x extras, withRedis bool) (_ *app, err error) {
	a := &app{conf: conf, log: log, extras: x, name: workerName(), metrics: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	conns := int32(2*conf.Concurrency + 12) // each attempt beats and decides; web and relay need some too
	if a.store, err = storage.Open(ctx, conf.DatabaseURL, storage.Options{MaxConns: conns, DirectURL: conf.DirectURL}); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.store.Close)
	id, err := a.store.Installation(ctx)
	if err != nil {
		return nil, err
	}
	if a.files, err = files.Open(ctx, conf.Files, id, a.store.Uploads()); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() { _ = a.files.Close() })
	if err := a.store.Pair(ctx, a.files); err != nil { // it serves all the same: jobs wait, and pages say why
		log.Error(err.Error())
	}
	if bucket, ok := a.files.(*files.S3); ok && withRedis { // whoever may work says at once what would fail
		if err := bucket.CheckConditions(ctx); err != nil {
			return nil, err
		}
	}
	if withRedis {
		if conf.RedisURL == "" {
			return nil, errors.New("REDIS_URL is not set: workers and schedulers need the Redis that the others use")
		}
		if a.redis, err = jobs.OpenRedis(ctx, conf.RedisURL, conf.Namespace, jobs.RedisConcurrency(conf.Concurrency)); err != nil {
			return nil, err
		}
		a.closers = append(a.closers, func() { _ = a.redis.Client.Close() })
		if err := a.openLeases(ctx); err != nil {
			return nil, err
		}
	}
	a.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), jobs.NewQueueMetrics(a.store, log), jobs.NewSweepMetrics(a.sweep(), log), jobs.NewRecoveryMetric(a.store), notify.NewWaiting(a.store))
	if a.counts, err = jobs.NewMetrics(a.metrics); err != nil {
		return nil, err
	}
	return a, a.register()
}

// register builds what knows the kinds of jobs.
func (a *app) register() (err error) {
	conf := jobs.ReportConfig{Catalog: newCatalog(a.conf), Store: a.store}
	if a.conf.SourceURL != "" {
		if conf.Source, err = storage.OpenSource(a.conf.SourceURL); err != nil {
			return err
		}
	}
	if a.reports, err = jobs.NewReports(conf); err != nil {
		return err
	}
	if a.invoices, err = newInvoiceRenderers(a.conf); err != nil {
		return err
	}
	kinds := append([]jobs.Kind{a.reports.Kind(), jobs.InvoiceKind(a.invoices), jobs.NewInvoiceRuns(a.reports, func() *jobs.Dispatcher { return a.dispatcher }).Kind(),
		jobs.BatchZIPKind(a.store), jobs.DrillKind()}, a.extras.kinds...)
	if a.registry, err = jobs.NewRegistry(kinds...); err != nil {
		return err
	}
	keys, err := a.conf.keyring()
	a.keys = keys
	if err != nil {
		return err
	}
	a.registry = a.registry.WithKeys(keys)
	a.dispatcher = jobs.NewDispatcher(a.store, a.registry)
	return nil
}

// newInvoiceRenderers reads the style and the further fonts, when there are any.
func newInvoiceRenderers(conf Config) (jobs.InvoiceRenderers, error) {
	var o invoice.Options
	if conf.InvoiceStyle != "" {
		raw, err := os.ReadFile(conf.InvoiceStyle)
		if err != nil {
			return jobs.InvoiceRenderers{}, fmt.Errorf("INVOICE_STYLE: %w", err)
		}
		if o.Style, err = invoice.ParseStyle(raw); err != nil {
			return jobs.InvoiceRenderers{}, fmt.Errorf("INVOICE_STYLE %s: %w", conf.InvoiceStyle, err)
		}
	}
	if len(conf.InvoiceFonts) > 0 {
		fonts, err := invoice.LoadFonts(conf.InvoiceFonts...)
		if err != nil {
			return jobs.InvoiceRenderers{}, fmt.Errorf("INVOICE_FONTS: %w", err)
		}
		o.Fonts = fonts
	}
	return jobs.NewInvoiceRenderers(o)
}

// newCatalog has the demo's reports and, winning over them, the user's.
func newCatalog(conf Config) *report.Catalog {
	return report.NewCatalog(demo.Reports(), os.DirFS(conf.Reports))
}

// warnPooled says what a process that goes on will miss.
func (a *app) warnPooled() {
	if shared := a.store.Pooled(); shared != "" && a.conf.DirectURL == "" {
		a.log.Warn("a pooler that keeps no sessions is before PostgreSQL: no messages arrive, so jobs begin and pages change up to a second late; "+
			"DATABASE_DIRECT_URL can lead past it", "seen", shared)
	}
}

func (a *app) close() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
}

// leaser is who should work, as configured.
func (a *app) leaser() jobs.Leaser {
	return a.leases
}

// worker prepares a worker, which may be bounded.
func (a *app) worker(b stint) *jobs.Worker {
	return jobs.NewWorker(jobs.WorkerConfig{
		Store: a.store, Files: a.files, Registry: a.registry, Redis: a.redis, Leaser: a.leaser(),
		Name: a.name, Log: a.log, Concurrency: a.conf.Concurrency, Queues: a.conf.Queues,
		Lease: a.conf.Lease, Grace: a.conf.Grace, Metrics: a.counts, Faults: a.extras.faults,
		Autoscale: a.conf.Autoscale, AutoscaleWait: a.conf.AutoscaleWait,
		MaxJobs: b.jobs, MaxTime: b.time, StopWhenEmpty: b.whenEmpty,
	})
}

func (a *app) relay() *jobs.Relay {
	return jobs.NewRelay(a.store, a.redis, a.conf.Lease, a.log)
}

func (a *app) sweep() *storage.Sweep {
	return storage.NewSweep(a.store, a.files, storage.SweepOptions{
		Grace: a.conf.SweepGrace, Quarantine: a.conf.SweepQuarantine, Superseded: a.conf.SweepSuperseded, AfterRecovery: a.conf.SweepAfterRecovery, Worker: a.name,
		Limit: a.conf.SweepLimit, Time: a.conf.SweepTime, Pace: a.conf.SweepPace, Parallel: a.conf.SweepParallel,
		MaxShare: float64(a.conf.SweepMaxShare) / 100, Off: a.conf.SweepOff,
	})
}

func (a *app) schedules() *jobs.Schedules {
	return jobs.NewSchedules(a.store, a.dispatcher, a.log)
}

func (a *app) scheduler() *jobs.Scheduler {
	return jobs.NewScheduler(jobs.SchedulerConfig{
		Schedules: a.schedules(), Store: a.store, Sweep: a.sweep(), SweepEvery: a.conf.SweepEvery, AuditKeep: a.conf.AuditKeep, Log: a.log,
		File: jobs.NewScheduleFile(a.conf.Schedules, a.conf.schedulesOptional(), a.name, a.log),
	})
}

// deliverer is who sends what the outbox holds.
func (a *app) deliverer() (*notify.Deliverer, error) {
	metrics, err := notify.NewMetrics(a.metrics)
	if err != nil {
		return nil, err
	}
	return notify.NewDeliverer(notify.Config{
		Store: a.store, Log: a.log, Guard: a.conf.Guard, Keys: a.keys, Mailer: a.conf.Mailer, PublicURL: a.conf.url(a.conf.Addr), Keep: a.conf.NotifyKeep, Metrics: metrics,
	}), nil
}

func (a *app) web() *web.Server {
	return web.New(web.Config{
		Store: a.store, Files: a.files, Dispatcher: a.dispatcher, Reports: a.reports, Log: a.log, PublicURL: a.conf.PublicURL,
		Metrics: promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{}), Ready: a.ready, Lease: a.conf.Lease, Retention: a.conf.retention(), LinkMax: a.conf.LinkMax, Provider: a.conf.Provider, APIRate: a.conf.APIRate,
		Targets: notify.NewTargets(a.store, a.conf.Guard, a.keys), Sweep: a.sweep(), Invoices: a.invoices,
		TrustedProxies: a.conf.TrustedProxies, Tally: a.tally(),
	})
}

// tally counts with other processes, where there is a Redis.
func (a *app) tally() *jobs.Tally {
	if a.redis.Client == nil {
		return nil
	}
	return jobs.NewTally(a.redis)
}

// retention is how long things stay, in the words of the settings.
func (c Config) retention() (list []web.Setting) {
	for _, env := range []string{"SWEEP_EVERY", "SWEEP_GRACE", "SWEEP_QUARANTINE", "SWEEP_SUPERSEDED", "NOTIFY_KEEP"} {
		for _, s := range c.settings {
			if s.Env == env {
				list = append(list, web.Setting{Name: env, Value: s.Value, Help: settingOf(env).help})
			}
		}
	}
	return list
}

// ready is what a load balancer asks: can this process serve right now?
func (a *app) ready(ctx context.Context) error {
	if err := a.store.Ping(ctx); err != nil {
		a.log.Warn("not ready", "error", err)
		return web.NotReady("database")
	}
	if a.redis.Client == nil {
		return nil
	}
	if err := a.redis.Client.Ping(ctx).Err(); err != nil {
		a.log.Warn("not ready", "error", err)
		return web.NotReady("redis")
	}
	return nil
}

// workerName is unique among processes that run at once, and says where.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	tag := make([]byte, 2)
	_, _ = rand.Read(tag)
	return fmt.Sprintf("%s-%d-%x", host, os.Getpid(), tag)
}

// listen opens the address of the dashboard.
func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--addr %s: %w (choose another with --addr)", addr, err)
	}
	return l, nil
}
