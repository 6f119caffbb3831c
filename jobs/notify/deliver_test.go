package notify

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceline/fenceline/storage"
)

// A publication and a failure are told, signed, with what a receiver needs and nothing that it must not have.
func TestWebhooksAreDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	target, secret := w.hook("acme", "shop", r.URL+"/hooks")
	w.deliver()
	job, begun := w.published("acme", "orders", "Orders of „March“ <b>")
	w.until("the publication is told", func() bool { return len(r.calls()) == 1 })
	got := r.calls()[0]
	now, err := w.store.Now(w.ctx)
	w.must(err)
	if err := Verify(secret, got.Header, []byte(got.body), now); err != nil {
		t.Errorf("the signature: %v", err)
	}
	var e Event
	w.must(json.Unmarshal([]byte(got.body), &e))
	x, j := e.Data.Export, e.Data.Job
	if e.Type != "export.published" || e.Data.Tenant != "acme" || x == nil || j == nil || j.ID != job.ID.String() || j.Kind != "report" || j.Error != "" ||
		x.ID != job.ExportID.String() || x.Key != "orders" || x.Title != "Orders of „March“ <b>" || x.Token != begun.Token || x.PublishedAt == nil || *x.Rows != 1204 || *x.Bytes != 56300 ||
		x.URL != "https://exports.example.com/exports/"+x.ID || len(x.Files) != 1 || x.Files[0].Name != "orders.csv" || x.Files[0].SHA256.String() != strings.Repeat("0", 64) {
		t.Errorf("told: %s", got.body)
	}
	if e.Timestamp.IsZero() || e.Timestamp.Location() != time.UTC || got.Get("Content-Type") != "application/json" || got.path != "/hooks" {
		t.Errorf("told at %s with %v to %s", e.Timestamp, got.Header, got.path)
	}
	w.failed("acme", "stock", "Stock", "no such table\nsecond line")
	w.until("the failure is told", func() bool { return len(r.calls()) == 2 })
	w.must(json.Unmarshal([]byte(r.calls()[1].body), &e))
	if e.Type != "job.failed" || e.Data.Job.Error != "no such table" || e.Data.Job.Attempts != 1 || e.Data.Export.Title != "Stock" {
		t.Errorf("told: %s", r.calls()[1].body)
	}
	w.until("both are recorded", func() bool {
		list := w.deliveries()
		return len(list) == 2 && list[0].State == storage.DeliveryDelivered && list[1].State == storage.DeliveryDelivered
	})
	for _, c := range r.calls() {
		if strings.Contains(c.body, "hunter2") {
			t.Errorf("the payload of a job was told: %s", c.body)
		}
	}
	raw, err := json.Marshal([]any{target, w.deliveries()})
	w.must(err)
	if bare := strings.TrimPrefix(secret, "whsec_"); strings.Contains(w.log.String(), bare) || strings.Contains(string(raw), bare) {
		t.Error("the secret was told")
	}
}

// L8, end to end: the attempt that was overtaken tells nobody.
func TestAFencedAttemptSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	w.hook("acme", "all", r.URL, "*")
	w.deliver()
	job := w.insert("acme", "orders", "Orders")
	frozen := w.begin(job)
	if lost, err := w.store.HandOnLost(w.ctx, -time.Hour, 10); err != nil || len(lost) != 1 {
		t.Fatalf("handed on: %v, %v", lost, err)
	}
	current := w.begin(job)
	w.seal(current)
	w.must(w.store.Publish(w.ctx, current.ID))
	w.seal(frozen)
	if err := w.store.Publish(w.ctx, frozen.ID); !errors.Is(err, storage.ErrFenced) {
		t.Fatalf("the frozen attempt: %v", err)
	}
	if _, err := w.store.EndAttempt(w.ctx, frozen.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "late", Counts: true, Final: true}); err != nil {
		t.Fatal(err)
	}
	w.custom("acme", "custom.last", nil) // when this one is told, what was before it is too
	w.until("the last is told", func() bool {
		for _, c := range r.calls() {
			if strings.Contains(c.body, "custom.last") {
				return true
			}
		}
		return false
	})
	w.until("all are recorded", func() bool { c, err := w.store.CountOutbox(w.ctx); w.must(err); return c.Pending == 0 })
	if got := r.calls(); len(got) != 2 {
		t.Fatalf("told %d times: %+v", len(got), got)
	}
	for _, c := range r.calls() {
		var e Event
		w.must(json.Unmarshal([]byte(c.body), &e))
		if e.Type == "export.published" && e.Data.Export.Token != current.Token {
			t.Errorf("told of token %d, want %d", e.Data.Export.Token, current.Token)
		}
	}
}

// What is repeated is the same: its id and its bytes.
func TestARepetitionIsTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, func(n int, rw http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			rw.WriteHeader(500)
			_, _ = rw.Write([]byte("not\x00 now\n" + strings.Repeat("x", 5000)))
		}
	})
	target, _ := w.hook("acme", "shop", r.URL)
	w.deliver()
	job, _ := w.published("acme", "orders", "Orders")
	d := w.tried(1)
	if d.State != storage.DeliveryPending || d.LastStatus != 500 || d.LastError != "answered 500 Internal Server Error" ||
		!strings.HasPrefix(d.LastAnswer, "not  now xxx") || len(d.LastAnswer) > 1100 {
		t.Errorf("recorded: %+v", d)
	}
	w.exec("UPDATE fenceline.exports SET title = 'Another title' WHERE id = $1", job.ExportID)
	w.lapse()
	w.tried(2)
	if got, err := w.store.Target(w.ctx, everything, target.ID); err != nil || got.Failures != 2 {
		t.Errorf("the target: %+v, %v", got, err)
	}
	w.lapse()
	w.becomes(storage.DeliveryDelivered)
	calls := r.calls()
	if len(calls) != 3 {
		t.Fatalf("sent %d times", len(calls))
	}
	for _, c := range calls[1:] {
		if c.body != calls[0].body || c.Get(HeaderID) != calls[0].Get(HeaderID) || c.Get(HeaderID) != d.ID.String() {
			t.Errorf("the repetition differs:\n%s\n%s", c.body, calls[0].body)
		}
	}
}

// With two deliverers everything arrives once, as long as nobody dies.
func TestTwoDeliverers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	w.hook("acme", "all", r.URL, "custom.*")
	w.deliver()
	w.deliver()
	for range 40 {
		w.custom("acme", "custom.many", nil)
	}
	w.until("all are told", func() bool { return len(r.calls()) >= 40 })
	w.until("all are recorded", func() bool { c, err := w.store.CountOutbox(w.ctx); w.must(err); return c.Pending == 0 })
	ids := map[string]int{}
	for _, c := range r.calls() {
		ids[c.Get(HeaderID)]++
	}
	if len(ids) != 40 || len(r.calls()) != 40 {
		t.Errorf("%d calls for %d deliveries, want 40", len(r.calls()), len(ids))
	}
}

// A target that does not answer holds up nobody else.
func TestASlowTarget(t *testing.T) {
	t.Parallel()
	const many = places + 6 // enough to take every place there is
	w := newWorld(t)
	free := make(chan struct{})
	slow := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-free:
		case <-r.Context().Done():
		}
	})
	quick := newReceiver(t, nil)
	w.hook("acme", "slow", slow.URL, "custom.slow")
	w.hook("acme", "quick", quick.URL, "custom.quick")
	w.deliver()
	for range many {
		w.custom("acme", "custom.slow", nil)
	}
	w.until("the slow one is waited for", func() bool { return len(slow.calls()) == perTarget })
	for range many {
		w.custom("acme", "custom.quick", nil)
	}
	w.until("the quick one was told all", func() bool { return len(quick.calls()) == many })
	if n := len(slow.calls()); n != perTarget {
		t.Errorf("the slow one was called %d times at once, want %d", n, perTarget)
	}
	close(free)
	w.until("the slow one was told all", func() bool { return len(slow.calls()) == many })
}

// What is given up is dead until it is replayed.
func TestDeadAndReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	works := make(chan struct{})
	r := newReceiver(t, func(_ int, rw http.ResponseWriter, _ *http.Request) {
		select {
		case <-works:
		default:
			rw.WriteHeader(404)
		}
	})
	w.hook("acme", "shop", r.URL)
	w.exec("UPDATE fenceline.notify_targets SET failures = 0")
	w.deliver()
	w.published("acme", "orders", "Orders")
	d := w.tried(1)
	for n := 2; n <= len(waits)+1; n++ {
		w.lapse()
		d = w.tried(n)
		if dead := n > len(waits); dead != (d.State == storage.DeliveryDead) {
			t.Fatalf("after attempt %d it is %s", n, d.State)
		}
	}
	close(works)
	if n, err := w.store.ReplayDead(w.ctx, storage.Scope{Tenant: "acme"}, d.TargetID); err != nil || n != 1 {
		t.Fatalf("%d replayed: %v", n, err)
	}
	again := w.becomes(storage.DeliveryDelivered)
	if again.ID != d.ID || again.Attempts != len(waits)+2 {
		t.Errorf("replayed as %+v", again)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, func(n int, rw http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			rw.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			rw.WriteHeader(302)
		case 2:
			rw.Header().Set("Retry-After", "7000")
			rw.WriteHeader(503)
		case 3:
			panic(http.ErrAbortHandler)
		case 4:
			rw.WriteHeader(204)
		default:
			rw.WriteHeader(410)
		}
	})
	target, _ := w.hook("acme", "shop", r.URL, "*")
	w.deliver()
	w.published("acme", "orders", "Orders")
	if d := w.tried(1); d.LastStatus != 302 || !strings.Contains(d.LastError, "redirects are not followed") {
		t.Errorf("a redirect: %+v", d)
	}
	w.lapse()
	d := w.tried(2)
	now, err := w.store.Now(w.ctx)
	w.must(err)
	if wait := d.NextAt.Sub(now); d.LastStatus != 503 || wait < 6900*time.Second || wait > 7000*time.Second {
		t.Errorf("asked to be left alone for 7000 s, left alone for %s: %+v", wait, d)
	}
	w.lapse()
	if d = w.tried(3); d.LastStatus != 0 || strings.Contains(d.LastError, r.URL) || d.LastError == "" {
		t.Errorf("a connection that was cut: %+v", d)
	}
	w.lapse()
	if d = w.becomes(storage.DeliveryDelivered); d.LastStatus != 204 {
		t.Errorf("delivered: %+v", d)
	}
	w.custom("acme", "custom.more", nil)
	w.until("the target is disabled", func() bool {
		got, err := w.store.Target(w.ctx, everything, target.ID)
		w.must(err)
		return got.DisabledAt != nil && strings.Contains(got.DisabledWhy, "410")
	})
	w.custom("acme", "custom.unheard", nil)
	w.until("it was looked at", func() bool {
		n, err := w.store.FanOut(w.ctx, 10, func(storage.Notice) (string, error) { return "{}", nil })
		w.must(err)
		return n == 0
	})
	if list := w.deliveries(); len(list) != 2 || list[0].State != storage.DeliveryDead {
		t.Errorf("a target that is gone is told: %+v", list)
	}
}

// What is internal is not reached, although it was allowed when it was added.
func TestInternalTargetsAreNotReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	w.hook("acme", "shop", r.URL)
	w.deliver(func(c *Config) { c.Guard = nil })
	w.published("acme", "orders", "Orders")
	if d := w.tried(1); !strings.Contains(d.LastError, "not of the public internet") {
		t.Errorf("recorded: %+v", d)
	}
	if n := len(r.calls()); n != 0 {
		t.Errorf("it was called %d times", n)
	}
}

// A deliverer that is stopped records what it was sending as not delivered, without blame.
func TestStoppingWhileSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done()
		}
	})
	target, _ := w.hook("acme", "shop", r.URL)
	stop := w.deliver()
	w.published("acme", "orders", "Orders")
	w.until("it is being sent", func() bool { return len(r.calls()) == 1 })
	stop()
	if d := w.tried(1); d.State != storage.DeliveryPending || d.LastError != "the deliverer was stopped" {
		t.Errorf("recorded: %+v", d)
	}
	if got, err := w.store.Target(w.ctx, everything, target.ID); err != nil || got.Failures != 0 {
		t.Errorf("the target is blamed: %+v, %v", got, err)
	}
	w.deliver()
	w.becomes(storage.DeliveryDelivered)
}

func TestRotatedSecretsSignBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	target, first := w.hook("acme", "shop", r.URL)
	_, second, err := w.targets.Rotate(w.ctx, storage.Scope{Tenant: "acme"}, target.ID)
	w.must(err)
	if first == second {
		t.Fatal("the secret is the same")
	}
	w.deliver()
	w.published("acme", "orders", "Orders")
	w.until("it is told", func() bool { return len(r.calls()) == 1 })
	got := r.calls()[0]
	now, err := w.store.Now(w.ctx)
	w.must(err)
	for _, secret := range []string{first, second} {
		if err := Verify(secret, got.Header, []byte(got.body), now); err != nil {
			t.Error(err)
		}
	}
}

func TestTestsAndMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	target, _ := w.hook("acme", "shop", r.URL, "job.failed")
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	w.must(err)
	registry.MustRegister(NewWaiting(w.store))
	if _, err := w.targets.Test(w.ctx, storage.Scope{Tenant: "globex"}, target.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant tests it: %v", err)
	}
	d, err := w.targets.Test(w.ctx, storage.Scope{Tenant: "acme"}, target.ID)
	w.must(err)
	if got := gathered(t, registry); got["fenceline_deliveries_pending"] != 1 || got["fenceline_delivery_oldest_pending_seconds"] <= 0 {
		t.Errorf("before: %v", got)
	}
	w.deliver(func(c *Config) { c.Metrics = metrics })
	w.until("it has arrived", func() bool { return w.delivery(d.ID).State == storage.DeliveryDelivered })
	if got := r.calls(); len(got) != 1 || !strings.Contains(got[0].body, `"type":"test"`) || !strings.Contains(got[0].body, "the target shop") {
		t.Errorf("told: %+v", got)
	}
	w.until("it is counted", func() bool { return gathered(t, registry)["fenceline_deliveries_total"] == 1 })
	if got := gathered(t, registry); got["fenceline_deliveries_pending"] != 0 || got["fenceline_deliveries_dead"] != 0 {
		t.Errorf("after: %v", got)
	}
	_, err = w.store.DisableTarget(w.ctx, everything, target.ID, "test")
	w.must(err)
	if _, err := w.targets.Test(w.ctx, everything, target.ID); err == nil || !strings.Contains(err.Error(), "is disabled") {
		t.Errorf("a disabled one is tested: %v", err)
	}
}

// gathered are the sums of all metrics by name.
func gathered(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			sums[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sums
}

// drip answers 200 and never ends what it says.
type drip struct{}

func (drip) RoundTrip(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, "taken")
		<-r.Context().Done()
		_ = w.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: 200, Body: body}, nil
}

// The status is the answer: what else a target says is not waited for.
func TestAnAnswerWithoutAnEnd(t *testing.T) {
	t.Parallel()
	guard := newGuard(t, "127.0.0.1")
	synctest.Test(t, func(t *testing.T) {
		hook := newWebhook(guard, nil, nil)
		hook.client.Transport = drip{}
		begun := time.Now()
		r := hook.send(t.Context(), storage.Parcel{ID: uuid.New(), URL: "http://127.0.0.1/", Body: "{}", Secrets: []string{NewSecret()}, Now: begun})
		if took := time.Since(begun); !r.ok || r.answer != "taken" || took != answerIn {
			t.Errorf("after %s: %+v", took, r)
		}
		synctest.Wait()
	})
}

// A deliverer without the key of a secret leaves the delivery to others: that counts for nothing.
func TestADelivererWithoutTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	key := entry(t, "k1")
	w.targets = NewTargets(w.store, newGuard(t, "127.0.0.1"), ring(t, key))
	target, _ := w.hook("acme", "shop", r.URL)
	stop := w.deliver()
	w.published("acme", "orders", "Orders")
	for n := 1; n <= len(waits)+2; n++ { // more often than anything is tried
		d := w.tried(n)
		if d.State != storage.DeliveryPending || !strings.Contains(d.LastError, `key "k1"`) {
			t.Fatalf("recorded: %+v", d)
		}
		now, err := w.store.Now(w.ctx)
		w.must(err)
		if wait := d.NextAt.Sub(now); wait > keylessFor {
			t.Fatalf("it is tried again in %s", wait)
		}
		w.lapse()
	}
	stop()
	if got, err := w.store.Target(w.ctx, everything, target.ID); err != nil || got.Failures != 0 {
		t.Errorf("the target is blamed: %+v, %v", got, err)
	}
	w.lapse()
	w.deliver(func(c *Config) { c.Keys = ring(t, key) })
	w.becomes(storage.DeliveryDelivered)
}
