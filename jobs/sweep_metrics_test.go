package jobs_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func TestSweepMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	sweep := storage.NewSweep(w.store, w.files, storage.SweepOptions{Grace: -time.Hour, Quarantine: -time.Hour, Superseded: time.Hour})
	values := func() map[string]float64 {
		t.Helper()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(jobs.NewSweepMetrics(sweep, slog.New(slog.DiscardHandler)))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = m.GetGauge().GetValue()
			}
		}
		return got
	}
	w.exec(`WITH e AS (INSERT INTO fenceline.exports (tenant, kind, key) VALUES ('acme', 'report', 'k') RETURNING id),
		j AS (INSERT INTO fenceline.jobs (id, tenant, kind, queue, export_id, payload, payload_version, max_attempts, max_crashes, timeout_seconds, request_hash)
			SELECT gen_random_uuid(), 'acme', 'report', 'nowhere', id, '{}', 1, 3, 3, 60, '' FROM e RETURNING id, export_id)
		INSERT INTO fenceline.attempts (id, export_id, job_id, number, token, worker, heartbeat_at, bytes)
			SELECT gen_random_uuid(), export_id, id, 1, nextval('fenceline.fence_tokens'), 'w', now() - interval '1 hour', 77 FROM j`)
	before := values()
	if before["fenceline_sweep_orphans silent"] != 1 || before["fenceline_sweep_orphan_bytes silent"] != 77 || before["fenceline_sweep_oldest_orphan_seconds silent"] < 3600 ||
		before["fenceline_sweep_last_success_timestamp_seconds"] != 0 || before["fenceline_sweep_off"] != 0 {
		t.Errorf("before a run: %v", before)
	}
	if _, err := sweep.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.store.SwitchSweep(t.Context(), false, "nadia", ""); err != nil {
		t.Fatal(err)
	}
	after := values()
	if after["fenceline_sweep_orphans silent"] != 0 || after["fenceline_sweep_last_run_planned"] != 2 || after["fenceline_sweep_last_run_deleted"] != 1 ||
		after["fenceline_sweep_off"] != 1 || time.Since(time.Unix(int64(after["fenceline_sweep_last_success_timestamp_seconds"]), 0)).Abs() > time.Hour {
		t.Errorf("after a run: %v", after)
	}
}
