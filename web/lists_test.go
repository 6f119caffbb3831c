package web

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// Before anything was done every operation that reads answers as it is described: a list without items is [], and not null.
func TestListsOfNothingAreLists(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	tried := 0
	for _, name := range slices.Sorted(maps.Keys(p.contract.operations())) {
		if strings.HasPrefix(name, "GET ") && !strings.Contains(name, "{") && !strings.HasSuffix(name, "/events") {
			p.play(scene{operation: name, status: 200})
			tried++
		}
	}
	if tried < 15 {
		t.Errorf("%d operations were tried", tried)
	}
	// What is there and has nothing yet.
	job := p.queued("acme", "sales")
	for operation, fill := range map[string]string{
		"GET /api/v1/jobs/{id}": job.ID.String(), "GET /api/v1/exports/{id}": job.ExportID.String(), "GET /api/v1/exports/{id}/links": job.ExportID.String(),
	} {
		got := p.play(scene{operation: operation, fill: fill, status: 200})
		for _, list := range []string{"items", "files", "attempts", "errors", "tags"} {
			if strings.Contains(got.body, fmt.Sprintf("%q:null", list)) || strings.Contains(got.body, fmt.Sprintf("%q: null", list)) {
				t.Errorf("%s: %s is null: %s", operation, list, got.body)
			}
		}
	}
}

// queued is a job that nobody has begun.
func (p *probe) queued(tenant, key string) (job storage.Job) {
	p.t.Helper()
	err := p.store.Transaction(p.t.Context(), func(tx storage.Tx) (err error) {
		job, _, err = p.store.InsertJob(p.t.Context(), tx, storage.NewJob{
			Tenant: tenant, Kind: "report", Key: key, Title: key, Queue: "default", Payload: []byte("{}"), PayloadVersion: 1, MaxAttempts: 3, MaxCrashes: 3, Timeout: 60e9, RequestHash: []byte("x"),
		})
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return job
}
