package notify

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceline/fenceline/storage"
)

// Metrics count what a deliverer does. A nil Metrics counts nothing.
type Metrics struct {
	sends   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewMetrics registers a deliverer's metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		sends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fenceline_deliveries_total", Help: "Attempts to deliver, by kind of target and outcome (delivered, retried, stopped, dead).",
		}, []string{"kind", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fenceline_delivery_seconds", Help: "How long attempts to deliver took, in seconds.", Buckets: prometheus.ExponentialBuckets(0.01, 3, 8),
		}, []string{"kind"}),
	}
	return m, errors.Join(r.Register(m.sends), r.Register(m.seconds))
}

func (m *Metrics) sent(kind string, o storage.DeliveryOutcome, took time.Duration) {
	if m == nil {
		return
	}
	outcome := string(o.State)
	switch {
	case o.Blameless:
		outcome = "stopped"
	case o.State == storage.DeliveryPending:
		outcome = "retried"
	}
	m.sends.WithLabelValues(kind, outcome).Inc()
	m.seconds.WithLabelValues(kind).Observe(took.Seconds())
}

// waiting are the metrics of what is not delivered: they are in the database, so
// that every process can show them.
type waiting struct {
	store                 *storage.Store
	pending, dead, oldest *prometheus.Desc
}

// NewWaiting is a collector that counts what is not delivered, when it is asked.
func NewWaiting(store *storage.Store) prometheus.Collector {
	return &waiting{store,
		prometheus.NewDesc("fenceline_deliveries_pending", "Deliveries that are not delivered yet (counted to 10,000).", nil, nil),
		prometheus.NewDesc("fenceline_deliveries_dead", "Deliveries that were given up (counted to 10,000).", nil, nil),
		prometheus.NewDesc("fenceline_delivery_oldest_pending_seconds", "For how long the oldest delivery that is not delivered waits.", nil, nil)}
}

// Describe names the metrics.
func (w *waiting) Describe(to chan<- *prometheus.Desc) {
	to <- w.pending
	to <- w.dead
	to <- w.oldest
}

// Collect counts; when the database does not answer in time the metrics are missing.
func (w *waiting) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	c, err := w.store.CountOutbox(ctx)
	if err != nil {
		return
	}
	oldest := 0.0
	if c.OldestPending != nil {
		oldest = c.Now.Sub(*c.OldestPending).Seconds()
	}
	to <- prometheus.MustNewConstMetric(w.pending, prometheus.GaugeValue, float64(c.Pending))
	to <- prometheus.MustNewConstMetric(w.dead, prometheus.GaugeValue, float64(c.Dead))
	to <- prometheus.MustNewConstMetric(w.oldest, prometheus.GaugeValue, oldest)
}
