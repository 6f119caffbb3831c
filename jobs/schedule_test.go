package jobs_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

func TestOneJobPerFireTimeHoweverManySchedulers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.handle("ok", writes("x"))
	w.must(w.store.PutSchedule(w.ctx, storage.Schedule{Name: "s", Cron: "* * * * *", Zone: "Asia/Dhaka", Tenant: "acme", Kind: "test", Payload: payload("ok", "sales")}))
	w.must(w.store.PutSchedule(w.ctx, storage.Schedule{Name: "bad", Cron: "* * * * *", Zone: "UTC", Tenant: "acme", Kind: "nope", Payload: payload("ok", "sales")}))
	// Nothing ran for five minutes: what was missed becomes one run.
	w.exec("UPDATE fenceline.schedules SET created_at = date_trunc('minute', now()) - interval '5 minutes'")
	ctx, cancel := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	for range 4 {
		sweep := storage.NewSweep(w.store, w.files, storage.SweepOptions{Grace: time.Hour, Quarantine: time.Hour, Superseded: time.Hour})
		wg.Go(func() {
			if err := jobs.NewScheduler(w.store, w.dispatcher, sweep, 0, w.log).Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var fired []storage.Schedule
	w.until("both have fired", func() bool {
		var err error
		fired, err = w.store.Schedules(w.ctx)
		w.must(err)
		return fired[0].LastFire != nil && fired[1].LastFire != nil
	})
	cancel()
	wg.Wait()
	page, err := w.store.Jobs(w.ctx, everything, storage.JobFilter{})
	w.must(err)
	minutes := 1
	if now, err := w.store.Now(w.ctx); err != nil || now.Sub(*fired[1].LastFire) < 5*time.Second {
		minutes = 2 // a minute began while we looked
	}
	if n := len(page.Items); n < 1 || n > minutes {
		t.Errorf("%d jobs for one fire time", n)
	}
	if page.Items[0].RequestedBy != "schedule s" || page.Items[0].Tenant != "acme" {
		t.Errorf("job %+v", page.Items[0])
	}
}

func TestParseCron(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cron, zone string
		ok         bool
	}{
		{"0 6 * * 1", "Europe/Berlin", true}, {"@daily", "UTC", true}, {"0 6 * *", "UTC", false}, {"61 * * * *", "UTC", false},
		{"0 6 * * 1", "Mars/Olympus", false}, {"0 6 * * 1", "Local", false}, {"", "UTC", false},
	} {
		if _, _, err := jobs.ParseCron(c.cron, c.zone); (err == nil) != c.ok {
			t.Errorf("%q in %q: %v", c.cron, c.zone, err)
		}
	}
}
