package jobs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceline/fenceline/storage"
)

// sweepAge is for how long an answer about the clean-up serves all scrapes.
const sweepAge = 10 * time.Second

// SweepMetrics tell what waits to be cleaned up and what the last run did: a
// [prometheus.Collector] that asks the database when it is scraped, every ten
// seconds at most. When the database does not answer it tells nothing, and logs why.
type SweepMetrics struct {
	sweep *storage.Sweep
	log   *slog.Logger

	orphans, bytes, oldest, success, planned, deleted, failed, off, stored *prometheus.Desc

	mu    sync.Mutex
	asked time.Time
	known []prometheus.Metric
}

// NewSweepMetrics prepares the metrics of what a clean-up finds by its options;
// the caller registers them.
func NewSweepMetrics(sweep *storage.Sweep, log *slog.Logger) *SweepMetrics {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fenceline_"+name, help, labels, nil)
	}
	return &SweepMetrics{
		sweep: sweep, log: log,
		orphans: describe("sweep_orphans", "Attempts that the next clean-up takes on, by reason, counted up to 10001.", "reason"),
		bytes:   describe("sweep_orphan_bytes", "Bytes of these attempts, by reason.", "reason"),
		oldest:  describe("sweep_oldest_orphan_seconds", "For how long the oldest of them is garbage, by reason; 0 when there is none.", "reason"),
		success: describe("sweep_last_success_timestamp_seconds", "When the last clean-up over all tenants came to its end; 0 when none has."),
		planned: describe("sweep_last_run_planned", "Attempts that the last clean-up took on."),
		deleted: describe("sweep_last_run_deleted", "Attempts whose files the last clean-up deleted."),
		failed:  describe("sweep_last_run_failed", "Attempts that the last clean-up failed at."),
		off:     describe("sweep_off", "1 while clean-ups are switched off."),
		stored:  describe("stored_bytes", "Bytes of all files that were written and not deleted, by the database's books."),
	}
}

// Describe implements [prometheus.Collector].
func (m *SweepMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.orphans, m.bytes, m.oldest, m.success, m.planned, m.deleted, m.failed, m.off, m.stored} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *SweepMetrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) > sweepAge {
		ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
		defer cancel()
		g, err := m.sweep.Gauges(ctx)
		if err != nil {
			m.log.Warn("could not ask the database for metrics of the clean-up", "error", err)
			m.known = nil
		} else {
			m.known = m.metrics(g)
		}
		m.asked = time.Now()
	}
	for _, metric := range m.known {
		to <- metric
	}
}

func (m *SweepMetrics) metrics(g storage.SweepGauges) (list []prometheus.Metric) {
	add := func(d *prometheus.Desc, v float64, labels ...string) {
		list = append(list, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
	}
	for _, w := range g.Waiting {
		age := 0.0
		if !w.Oldest.IsZero() {
			age = max(time.Since(w.Oldest).Seconds(), 0)
		}
		add(m.orphans, float64(w.Due), w.Reason)
		add(m.bytes, float64(w.Bytes), w.Reason)
		add(m.oldest, age, w.Reason)
	}
	success := 0.0
	if !g.LastSuccess.IsZero() {
		success = float64(g.LastSuccess.Unix())
	}
	add(m.success, success)
	if g.Last != nil {
		add(m.planned, float64(g.Last.Planned))
		add(m.deleted, float64(g.Last.Deleted))
		add(m.failed, float64(g.Last.Failed))
	}
	off := 0.0
	if g.Off {
		off = 1
	}
	add(m.off, off)
	add(m.stored, float64(g.Stored.Bytes))
	return list
}
