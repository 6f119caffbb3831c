package jobs

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceline/fenceline/storage"
)

// Metrics count what workers do. A nil Metrics counts nothing.
type Metrics struct {
	attempts *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics registers a worker's metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fenceline_attempts_total", Help: "Attempts that ended, by kind and outcome.",
		}, []string{"kind", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fenceline_attempt_seconds", Help: "From lease to verdict, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 9),
		}, []string{"kind"}),
	}
	return m, errors.Join(r.Register(m.attempts), r.Register(m.seconds))
}

func (m *Metrics) ended(kind string, err error, took time.Duration) {
	if m == nil {
		return
	}
	outcome := "failed"
	switch {
	case err == nil:
		outcome = "published"
	case errors.Is(err, storage.ErrFenced):
		outcome = "fenced"
	case errors.Is(err, storage.ErrCancelled):
		outcome = "cancelled"
	case errors.Is(err, storage.ErrCondemned):
		outcome = "condemned"
	case errors.Is(err, storage.ErrUnknownOutcome):
		outcome = "unknown"
	case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrWorkerStopped):
		outcome = "released"
	}
	m.attempts.WithLabelValues(kind, outcome).Inc()
	m.seconds.WithLabelValues(kind).Observe(took.Seconds())
}
