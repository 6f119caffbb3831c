package jobs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceline/fenceline/storage"
)

const (
	// scrapeAge is for how long an answer of the database serves all scrapes.
	scrapeAge = time.Second
	// scrapePatience is how long a scrape waits for the database.
	scrapePatience = 2 * time.Second
	// scrapedQueues bounds the series: the queues beyond it are one, named [otherQueues].
	scrapedQueues = 100
	// otherQueues is no name that a queue can have.
	otherQueues = "_other"
)

// QueueMetrics tell how much waits and runs, for dashboards and autoscalers: a
// [prometheus.Collector] that asks the database when it is scraped, once a second
// at most. When the database does not answer it tells nothing, and logs why.
type QueueMetrics struct {
	store *storage.Store
	log   *slog.Logger

	waiting, running, oldest, failed, workers *prometheus.Desc

	mu    sync.Mutex
	asked time.Time
	known []prometheus.Metric
}

// NewQueueMetrics prepares the metrics; the caller registers them.
func NewQueueMetrics(store *storage.Store, log *slog.Logger) *QueueMetrics {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fenceline_"+name, help, labels, nil)
	}
	return &QueueMetrics{
		store: store, log: log,
		waiting: describe("queue_waiting", "Jobs that could run now, by queue, counted up to 10001.", "queue"),
		running: describe("queue_running", "Jobs that run, by queue.", "queue"),
		oldest:  describe("queue_oldest_wait_seconds", "For how long the job has waited that could have run first, by queue; 0 when none waits.", "queue"),
		failed:  describe("jobs_failed", "Jobs on the list of failed ones, counted up to 10001."),
		workers: describe("workers", "Workers that gave a heartbeat within the last minute."),
	}
}

// Describe implements [prometheus.Collector].
func (m *QueueMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.waiting, m.running, m.oldest, m.failed, m.workers} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *QueueMetrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) > scrapeAge {
		ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
		defer cancel()
		var err error
		if m.known, err = m.ask(ctx); err != nil {
			m.log.Warn("could not ask the database for metrics", "error", err)
		}
		m.asked = time.Now()
	}
	for _, metric := range m.known {
		to <- metric
	}
}

func (m *QueueMetrics) ask(ctx context.Context) ([]prometheus.Metric, error) {
	queues, err := m.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	g, err := m.store.Gauges(ctx)
	if err != nil {
		return nil, err
	}
	var list []prometheus.Metric
	add := func(d *prometheus.Desc, v float64, labels ...string) {
		list = append(list, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
	}
	for _, q := range fewQueues(queues, scrapedQueues) {
		add(m.waiting, float64(q.Waiting), q.Name)
		add(m.running, float64(q.Running), q.Name)
		add(m.oldest, q.OldestWaitSeconds, q.Name)
	}
	add(m.failed, float64(g.Failed))
	add(m.workers, float64(g.Workers))
	return list, nil
}

// fewQueues puts the queues beyond most together.
func fewQueues(queues []storage.Queue, most int) []storage.Queue {
	if len(queues) <= most {
		return queues
	}
	rest := storage.Queue{Name: otherQueues}
	for _, q := range queues[most:] {
		rest.Waiting += q.Waiting
		rest.Running += q.Running
		rest.OldestWaitSeconds = max(rest.OldestWaitSeconds, q.OldestWaitSeconds)
	}
	return append(queues[:most:most], rest)
}
