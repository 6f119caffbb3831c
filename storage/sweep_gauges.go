package storage

import (
	"context"
	"fmt"
	"time"
)

// SweepGauges are numbers about the clean-up, for metrics.
type SweepGauges struct {
	Waiting []Waiting
	Stored  StoredTotal
	Off     bool
	// LastSuccess is when the newest run over all tenants ended that came to its end; zero when none has.
	LastSuccess time.Time
	// Last is the newest run that has ended; nil before the first.
	Last *SweepRun
}

// Gauges asks for the numbers. Its cost is bounded, whatever waits.
func (sw *Sweep) Gauges(ctx context.Context) (g SweepGauges, err error) {
	if g.Waiting, err = sw.Waiting(ctx); err != nil {
		return g, err
	}
	if g.Stored, err = sw.store.Stored(ctx); err != nil {
		return g, err
	}
	off, err := sw.store.SweepSwitch(ctx)
	if err != nil {
		return g, err
	}
	g.Off = off != nil
	var last *time.Time
	err = sw.store.pool.QueryRow(ctx, `SELECT (SELECT finished_at FROM fenceline.sweeps
		WHERE finished_at IS NOT NULL AND error IS NULL AND tenant IS NULL ORDER BY id DESC LIMIT 1)`).Scan(&last)
	if err != nil {
		return g, fmt.Errorf("look for the last clean-up: %w", err)
	}
	if last != nil {
		g.LastSuccess = *last
	}
	runs, err := sw.store.SweepRuns(ctx, 2) // the newest may be at work
	if err != nil {
		return g, err
	}
	for _, r := range runs {
		if r.FinishedAt != nil {
			g.Last = &r
			break
		}
	}
	return g, nil
}
