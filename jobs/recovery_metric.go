package jobs

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceline/fenceline/storage"
)

// NewRecoveryMetric tells whether recovery is needed: 1 while nothing is published
// or cleaned up because the database and its files do not fit. The caller
// registers it.
func NewRecoveryMetric(store *storage.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fenceline_recovery_needed", Help: "1 while database and files do not fit together, so that nothing is published or cleaned up.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
		defer cancel()
		if errors.Is(store.Paired(ctx), storage.ErrRecoveryNeeded) {
			return 1
		}
		return 0
	})
}
