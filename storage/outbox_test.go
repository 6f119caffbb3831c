package storage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// target is a webhook of a tenant that wants some topics.
func (w *world) target(tenant, name string, topics ...string) storage.Target {
	w.t.Helper()
	t, err := w.store.AddTarget(w.ctx, storage.Target{Tenant: tenant, Name: name, Kind: storage.TargetWebhook, URL: "https://example.com/", Topics: topics}, "kept secret")
	w.must(err)
	return t
}

// freeze is a body that tells notices apart.
func freeze(n storage.Notice) (string, error) {
	raw, err := json.Marshal(n)
	return string(raw), err
}

func (w *world) fanOut(want int) {
	w.t.Helper()
	n, err := w.store.FanOut(w.ctx, 100, freeze)
	w.must(err)
	if n != want {
		w.t.Fatalf("%d notices were handed out, want %d", n, want)
	}
}

func (w *world) deliveries(scope storage.Scope) []storage.Delivery {
	w.t.Helper()
	page, err := w.store.Deliveries(w.ctx, scope, storage.DeliveryFilter{})
	w.must(err)
	return page.Items
}

var claimAll = storage.DeliveryClaim{Kinds: []string{"webhook", "mail"}, Limit: 100, PerTarget: 4, Lease: time.Minute}

func (w *world) claim(c storage.DeliveryClaim, want int) []storage.Parcel {
	w.t.Helper()
	list, err := w.store.ClaimDeliveries(w.ctx, c)
	w.must(err)
	if len(list) != want {
		w.t.Fatalf("%d deliveries were taken, want %d", len(list), want)
	}
	return list
}

func (w *world) record(c storage.Parcel, o storage.DeliveryOutcome, want bool) {
	w.t.Helper()
	current, err := w.store.RecordDelivery(w.ctx, c, o)
	w.must(err)
	if current != want {
		w.t.Fatalf("the outcome of attempt %d was of interest: %t, want %t", c.Attempt, current, want)
	}
}

func (w *world) notify(tenant, topic string) {
	w.t.Helper()
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error { return w.store.Notify(w.ctx, tx, tenant, topic, map[string]int{"n": 1}) }))
}

// lapse lets every lease and every wait be over.
func (w *world) lapse() {
	w.t.Helper()
	w.exec("UPDATE fenceline.deliveries SET next_at = clock_timestamp() - interval '1 second' WHERE state = 'pending'")
}

func TestNoticesGoToWhoWantsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := map[string]string{
		w.target("acme", "both", "export.published", "job.failed").Name: "export.published job.failed",
		w.target("acme", "failed", "job.failed").Name:                   "job.failed",
		w.target("acme", "own", "custom.*").Name:                        "custom.stock.low",
		w.target("acme", "exact", "custom.stock").Name:                  "",
		w.target("acme", "all", "*").Name:                               "export.published job.failed custom.stock.low",
		w.target("globex", "others", "*").Name:                          "custom.stock.low",
	}
	off := w.target("acme", "off", "*")
	_, err := w.store.DisableTarget(w.ctx, everything, off.ID, "test")
	w.must(err)
	kinds, err := w.store.AddTarget(w.ctx, storage.Target{Tenant: "acme", Name: "kinds", Kind: storage.TargetMail, Addresses: []string{"a@example.com"},
		Topics: []string{"*"}, JobKinds: []string{"invoice"}}, "")
	w.must(err)
	want[kinds.Name] = "custom.stock.low" // of jobs only those of kind invoice, and there is none

	job, begun := w.published("orders")
	failed := w.insert(newJob("broken"))
	_, err = w.store.EndAttempt(w.ctx, w.begin(failed).ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "no such table", Counts: true, Final: true})
	w.must(err)
	w.notify("acme", "custom.stock.low")
	w.notify("globex", "custom.stock.low")
	w.fanOut(4)
	w.fanOut(0)

	got := map[string]string{}
	for _, d := range slices.Backward(w.deliveries(everything)) {
		got[d.Target] = strings.TrimSpace(got[d.Target] + " " + d.Topic)
	}
	for name, topics := range want {
		if got[name] != topics {
			t.Errorf("%s is told %q, want %q", name, got[name], topics)
		}
	}
	if got["off"] != "" {
		t.Errorf("a disabled target is told %q", got["off"])
	}
	for _, d := range w.deliveries(storage.Scope{Tenant: "acme"}) {
		w.checkNotice(d, job, failed, begun.Token)
	}
	if others := w.deliveries(storage.Scope{Tenant: "globex"}); len(others) != 1 || others[0].Target != "others" {
		t.Errorf("the other tenant sees %+v", others)
	}
}

// checkNotice compares what was frozen with what happened.
func (w *world) checkNotice(d storage.Delivery, job, failed storage.Job, token int64) {
	w.t.Helper()
	d, err := w.store.Delivery(w.ctx, everything, d.ID)
	w.must(err)
	var n storage.Notice
	w.must(json.Unmarshal(d.Body, &n))
	switch d.Topic {
	case "export.published":
		if n.JobID != job.ID.String() || n.ExportID != job.ExportID.String() || n.Token != token || n.PublishedAt == nil || n.Rows != 3 || n.Bytes != 5 ||
			len(n.Files) != 1 || n.Files[0].Name != "orders.csv" || n.Files[0].SHA256.String() != strings.Repeat("0", 64) {
			w.t.Errorf("published: %s", d.Body)
		}
	case "job.failed":
		if n.JobID != failed.ID.String() || n.JobError != "no such table" || n.Attempts != 1 {
			w.t.Errorf("failed: %s", d.Body)
		}
	default:
		if n.JobID != "" || n.ExportID != "" || string(n.Payload) != `{"n":1}` {
			w.t.Errorf("custom: %s", d.Body)
		}
	}
}

// L8: an attempt that was refused has nothing in the outbox, and so tells nobody.
func TestAFencedAttemptTellsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.target("acme", "all", "*")
	job := w.insert(newJob("orders"))
	frozen := w.begin(job)
	w.handOn(1)
	current := w.seal(w.begin(job))
	w.must(w.store.Publish(w.ctx, current.ID))
	w.seal(frozen)
	if err := w.store.Publish(w.ctx, frozen.ID); !errors.Is(err, storage.ErrFenced) {
		t.Fatalf("the frozen attempt: %v", err)
	}
	w.fanOut(1)
	list := w.deliveries(everything)
	if len(list) != 1 || list[0].Topic != "export.published" {
		t.Fatalf("told: %+v", list)
	}
	d, err := w.store.Delivery(w.ctx, everything, list[0].ID)
	w.must(err)
	var n storage.Notice
	w.must(json.Unmarshal(d.Body, &n))
	if n.Token != current.Token {
		t.Errorf("told of token %d, want %d", n.Token, current.Token)
	}
}

func TestNoticesOfRolledBackTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.target("acme", "all", "*")
	back := errors.New("back")
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		w.must(w.store.Notify(w.ctx, tx, "acme", "custom.never", nil))
		return back
	})
	if !errors.Is(err, back) {
		t.Fatal(err)
	}
	w.fanOut(0)
	for _, c := range []struct {
		tenant, topic string
		payload       any
	}{
		{"acme", "export.published", nil}, {"acme", "custom", nil}, {"acme", "custom.", nil}, {"acme", "custom.Big", nil}, {"acme", "custom.a b", nil},
		{"acme", "custom." + strings.Repeat("a", 94), nil}, {"", "custom.a", nil}, {"acme", "custom.a", strings.Repeat("x", 64<<10)}, {"acme", "custom.a", func() {}},
	} {
		err := w.store.Transaction(w.ctx, func(tx storage.Tx) error { return w.store.Notify(w.ctx, tx, c.tenant, c.topic, c.payload) })
		if err == nil {
			t.Errorf("%q for %q was taken", c.topic, c.tenant)
		}
	}
	w.fanOut(0)
}

// However many hand out, every notice becomes one delivery for each target.
func TestManyHandOutTheSameNotices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.target("acme", "one", "*")
	w.target("acme", "two", "*")
	for range 30 {
		w.notify("acme", "custom.many")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := 1; n > 0; {
				var err error
				if n, err = w.store.FanOut(w.ctx, 3, freeze); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var deliveries, notices int
	w.must(w.query("SELECT count(*), count(DISTINCT outbox_id) FROM fenceline.deliveries").Scan(&deliveries, &notices))
	if deliveries != 60 || notices != 30 {
		t.Errorf("%d deliveries of %d notices, want 60 of 30", deliveries, notices)
	}
}

func TestDeliveriesAreTakenByLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.target("acme", "all", "*")
	w.notify("acme", "custom.a")
	w.fanOut(1)
	first := w.claim(claimAll, 1)[0]
	if first.Attempt != 1 || first.Tries != 1 || len(first.Secrets) != 1 || first.Secrets[0] != "kept secret" || first.URL != "https://example.com/" {
		t.Errorf("taken: attempt %d, tries %d", first.Attempt, first.Tries)
	}
	w.claim(claimAll, 0)
	w.lapse() // the deliverer died
	second := w.claim(claimAll, 1)[0]
	if second.ID != first.ID || second.Body != first.Body || second.Attempt != 2 {
		t.Errorf("again: %s, attempt %d", second.ID, second.Attempt)
	}
	w.record(first, storage.DeliveryOutcome{State: storage.DeliveryDead, Error: "stale"}, false) // it only was frozen
	w.record(second, storage.DeliveryOutcome{State: storage.DeliveryPending, Error: "answered 500", Status: 500, Answer: "oh", Retry: time.Hour}, true)
	w.record(second, storage.DeliveryOutcome{State: storage.DeliveryDelivered}, true) // not taken by another since: the truth may still come
	w.record(second, storage.DeliveryOutcome{State: storage.DeliveryDead}, false)
	d, err := w.store.Delivery(w.ctx, everything, first.ID)
	w.must(err)
	if d.State != storage.DeliveryDelivered || d.DeliveredAt == nil || d.LastError != "" || d.Attempts != 2 {
		t.Errorf("recorded: %+v", d)
	}
	if _, err := w.store.ClaimDeliveries(w.ctx, storage.DeliveryClaim{Limit: 1}); err == nil {
		t.Error("taken without a lease")
	}
	if got, err := w.store.Target(w.ctx, everything, target.ID); err != nil || got.Failures != 0 || got.FailingSince != nil {
		t.Errorf("the target: %+v, %v", got, err)
	}
}

// One target that has much, or fails, leaves room for the others.
func TestTargetsAreTakenSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy, quiet := w.target("acme", "busy", "custom.*"), w.target("acme", "quiet", "custom.last")
	for range 20 {
		w.notify("acme", "custom.first")
	}
	w.notify("acme", "custom.last")
	w.fanOut(21)
	counts := func(list []storage.Parcel) map[uuid.UUID]int {
		n := map[uuid.UUID]int{}
		for _, c := range list {
			n[c.TargetID]++
		}
		return n
	}
	list := w.claim(claimAll, 5)
	if n := counts(list); n[busy.ID] != 4 || n[quiet.ID] != 1 {
		t.Errorf("taken: %v", n)
	}
	more := claimAll
	more.Busy = map[string]int{busy.ID.String(): 3}
	w.claim(more, 1)
	more.Busy = map[string]int{busy.ID.String(): 4}
	w.claim(more, 0)

	w.record(list[0], storage.DeliveryOutcome{State: storage.DeliveryPending, Error: "answered 500", Retry: time.Hour}, true)
	if list[0].TargetID != busy.ID {
		t.Fatalf("the oldest was taken last")
	}
	w.claim(claimAll, 0) // it fails now: it is not among those that work
	failing := claimAll
	failing.Failing = true
	w.claim(failing, 1)
	mail := failing
	mail.Kinds = []string{"mail"}
	w.claim(mail, 0)
	if got, err := w.store.Target(w.ctx, everything, busy.ID); err != nil || got.Failures != 1 || got.FailingSince == nil {
		t.Errorf("the failing target: %+v, %v", got, err)
	}
	w.record(list[1], storage.DeliveryOutcome{State: storage.DeliveryDelivered}, true)
	w.claim(claimAll, 4)

	_, err := w.store.DisableTarget(w.ctx, everything, busy.ID, "enough")
	w.must(err)
	w.lapse()
	w.claim(claimAll, 1) // of the quiet one, whose first attempt has no outcome
	_, err = w.store.EnableTarget(w.ctx, everything, busy.ID)
	w.must(err)
	w.claim(claimAll, 4)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.target("acme", "one", "*")
	gone := w.target("acme", "gone", "*")
	w.target("globex", "theirs", "*")
	w.notify("acme", "custom.a")
	w.notify("globex", "custom.a")
	w.fanOut(2)
	for _, c := range w.claim(claimAll, 3) {
		o := storage.DeliveryOutcome{State: storage.DeliveryDead, Error: "answered 404"}
		if c.TargetID == gone.ID {
			o.Disable = "answered 410"
		}
		w.record(c, o, true)
	}
	if got, err := w.store.Target(w.ctx, everything, gone.ID); err != nil || got.DisabledAt == nil || got.DisabledWhy != "answered 410" {
		t.Errorf("the target that is gone: %+v, %v", got, err)
	}
	acme := storage.Scope{Tenant: "acme"}
	for scope, want := range map[storage.Scope]int64{everything: 3, acme: 2, {Tenant: "nobody"}: 0, {}: 0} {
		if n, err := w.store.CountDead(w.ctx, scope, uuid.Nil); err != nil || n != want {
			t.Errorf("%+v: %d are dead, want %d: %v", scope, n, want, err)
		}
	}
	counts, err := w.store.CountOutbox(w.ctx)
	if err != nil || counts.Dead != 3 || counts.Pending != 0 || counts.OldestPending != nil {
		t.Errorf("counted: %+v, %v", counts, err)
	}
	if n, err := w.store.ReplayDead(w.ctx, acme, gone.ID); err != nil || n != 1 {
		t.Errorf("%d replayed: %v", n, err)
	}
	w.claim(claimAll, 0) // it is disabled still
	if counts, err = w.store.CountOutbox(w.ctx); err != nil || counts.Pending != 0 {
		t.Errorf("what waits for a disabled target counts: %+v, %v", counts, err)
	}
	if n, err := w.store.ReplayDead(w.ctx, acme, uuid.Nil); err != nil || n != 1 {
		t.Errorf("%d replayed: %v", n, err)
	}
	failing := claimAll
	failing.Failing = true
	again := w.claim(failing, 1)[0]
	if again.Attempt != 2 || again.Tries != 1 {
		t.Errorf("replayed: attempt %d, try %d", again.Attempt, again.Tries)
	}
	w.record(again, storage.DeliveryOutcome{State: storage.DeliveryDelivered}, true)
	if _, err := w.store.ReplayDelivery(w.ctx, storage.Scope{Tenant: "globex"}, again.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant replays: %v", err)
	}
	if d, err := w.store.ReplayDelivery(w.ctx, acme, again.ID); err != nil || d.State != storage.DeliveryPending || d.DeliveredAt != nil {
		t.Errorf("a delivered one is replayed as %+v, %v", d, err)
	}
	if got := w.claim(claimAll, 1)[0]; got.ID != again.ID || got.Body != again.Body {
		t.Error("it is another one now")
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.target("acme", "shop", "*")
	w.target("globex", "shop", "*")
	if _, err := w.store.AddTarget(w.ctx, a, "s"); !errors.Is(err, storage.ErrTargetExists) || !strings.HasPrefix(err.Error(), "target shop of tenant acme: ") {
		t.Errorf("the name again: %v", err)
	}
	theirs := storage.Scope{Tenant: "globex"}
	for what, try := range map[string]func() error{
		"read":    func() error { _, err := w.store.Target(w.ctx, theirs, a.ID); return err },
		"enable":  func() error { _, err := w.store.EnableTarget(w.ctx, theirs, a.ID); return err },
		"disable": func() error { _, err := w.store.DisableTarget(w.ctx, theirs, a.ID, ""); return err },
		"rotate":  func() error { _, err := w.store.RotateTarget(w.ctx, theirs, a.ID, "s", time.Hour); return err },
		"remove":  func() error { return w.store.RemoveTarget(w.ctx, theirs, a.ID) },
	} {
		if err := try(); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("another tenant could %s it: %v", what, err)
		}
	}
	list, err := w.store.Targets(w.ctx, theirs)
	w.must(err)
	if raw, err := json.Marshal(list); err != nil || len(list) != 1 || strings.Contains(string(raw), "kept secret") {
		t.Errorf("the list is %s, %v", raw, err)
	}
	if _, err := w.store.RotateTarget(w.ctx, everything, a.ID, "second", time.Hour); err != nil {
		t.Fatal(err)
	}
	w.notify("acme", "custom.a")
	w.fanOut(1)
	if got := w.claim(claimAll, 1)[0].Secrets; !slices.Equal(got, []string{"second", "kept secret"}) {
		t.Errorf("signed with %d secrets", len(got))
	}
	w.exec("UPDATE fenceline.notify_targets SET old_secret_until = clock_timestamp() - interval '1 second' WHERE old_secret_until IS NOT NULL")
	w.lapse()
	if got := w.claim(claimAll, 1)[0].Secrets; !slices.Equal(got, []string{"second"}) {
		t.Errorf("a secret signs after its time: %d", len(got))
	}
	w.must(w.store.RemoveTarget(w.ctx, everything, a.ID))
	if list := w.deliveries(everything); len(list) != 0 {
		t.Errorf("left: %+v", list)
	}
}

func TestPruneOutbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.target("acme", "all", "*")
	w.published("orders")
	w.notify("acme", "custom.a")
	w.notify("acme", "custom.b")
	w.fanOut(3)
	for _, c := range w.claim(claimAll, 3) {
		o := storage.DeliveryOutcome{State: storage.DeliveryDelivered}
		if c.Topic == "custom.b" {
			o = storage.DeliveryOutcome{State: storage.DeliveryDead, Error: "no"}
		}
		w.record(c, o, true)
	}
	w.notify("acme", "custom.pending")
	if n, err := w.store.PruneOutbox(w.ctx, time.Hour); err != nil || n != 0 {
		t.Errorf("%d young deliveries pruned: %v", n, err)
	}
	if n, err := w.store.PruneOutbox(w.ctx, -time.Hour); err != nil || n != 2 {
		t.Errorf("%d deliveries pruned, want 2: %v", n, err)
	}
	rows, err := w.conn().Query(w.ctx, "SELECT topic FROM fenceline.outbox ORDER BY id")
	w.must(err)
	var topics []string
	for rows.Next() {
		var topic string
		w.must(rows.Scan(&topic))
		topics = append(topics, topic)
	}
	if want := []string{"export.published", "custom.b", "custom.pending"}; !slices.Equal(topics, want) {
		t.Errorf("left: %q, want %q", topics, want)
	}
}

// A plain job that fails for good is told of as well, without an export.
func TestFailedPlainJobsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.target("acme", "failed", "job.failed")
	n := newJob("")
	n.Kind, n.Title = "count-stock", "Count the stock"
	job := w.insert(n)
	worker, run := storage.Worker{ID: uuid.New(), Name: "w-1", Host: "h", PID: 1, Version: "v", Queues: json.RawMessage(`{"default":1}`), Concurrency: 1}, uuid.New()
	w.must(w.store.RegisterWorker(w.ctx, worker))
	turned, err := w.store.Turn(w.ctx, worker.ID, nil, []storage.Want{{Queue: "default", Runs: []uuid.UUID{run}}})
	if err != nil || len(turned.Claimed) != 1 {
		t.Fatalf("claimed %+v, %v", turned, err)
	}
	_, err = w.store.Turn(w.ctx, worker.ID, []storage.Finish{{Job: job.ID, Run: run, Outcome: "failed", Reason: "error", Error: "no shelf", Final: true}}, nil)
	w.must(err)
	w.fanOut(1)
	d, err := w.store.Delivery(w.ctx, everything, w.deliveries(everything)[0].ID)
	w.must(err)
	var got storage.Notice
	w.must(json.Unmarshal(d.Body, &got))
	if got.JobID != job.ID.String() || got.JobKind != "count-stock" || got.JobTitle != "Count the stock" || got.JobError != "no shelf" || got.Attempts != 1 || got.ExportID != "" || len(got.Files) != 0 {
		t.Errorf("told: %s", d.Body)
	}
}

// Every statement must work without prepared statements; see TestEveryStatementWorksBehindAPooler.
func TestTheOutboxWorksBehindAPooler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store = openStore(t, pooled(w.url))
	target := w.target("acme", "all", "*")
	_, err := w.store.AddTarget(w.ctx, storage.Target{Tenant: "acme", Name: "mail", Kind: storage.TargetMail, Addresses: []string{"a@example.com", "b@example.com"}, Topics: []string{"*"}, JobKinds: []string{"report"}}, "")
	w.must(err)
	_, err = w.store.RotateTarget(w.ctx, everything, target.ID, "second", time.Hour)
	w.must(err)
	w.published("orders")
	w.notify("acme", "custom.a")
	w.fanOut(2)
	busy := claimAll
	busy.Busy = map[string]int{target.ID.String(): 1}
	for i, c := range w.claim(busy, 4) {
		o := storage.DeliveryOutcome{State: storage.DeliveryDead, Error: "no", Status: 500, Answer: "a", Disable: "gone"}
		if i > 0 {
			o = storage.DeliveryOutcome{State: storage.DeliveryDelivered}
		}
		w.record(c, o, true)
	}
	dead, err := w.store.Deliveries(w.ctx, storage.Scope{Tenant: "acme"}, storage.DeliveryFilter{State: storage.DeliveryDead, Limit: 1})
	if err != nil || len(dead.Items) != 1 {
		t.Fatalf("%+v, %v", dead, err)
	}
	_, err = w.store.EnableTarget(w.ctx, everything, dead.Items[0].TargetID)
	w.must(err)
	if n, err := w.store.CountDead(w.ctx, everything, dead.Items[0].TargetID); err != nil || n != 1 {
		t.Errorf("%d dead, %v", n, err)
	}
	if n, err := w.store.ReplayDead(w.ctx, everything, uuid.Nil); err != nil || n != 1 {
		t.Errorf("%d replayed, %v", n, err)
	}
	_, err = w.store.ReplayDelivery(w.ctx, everything, dead.Items[0].ID)
	w.must(err)
	if c, err := w.store.CountOutbox(w.ctx); err != nil || c.Pending != 1 || c.OldestPending == nil {
		t.Errorf("counted %+v, %v", c, err)
	}
	_, err = w.store.AddTest(w.ctx, target, "{}")
	w.must(err)
	if n, err := w.store.PruneOutbox(w.ctx, -time.Hour); err != nil || n != 3 {
		t.Errorf("%d pruned, %v", n, err)
	}
	if list, err := w.store.Targets(w.ctx, storage.Scope{Tenant: "acme"}); err != nil || len(list) != 2 || len(list[1].Topics) != 1 {
		t.Errorf("targets %+v, %v", list, err)
	}
	_, err = w.store.TargetNamed(w.ctx, "acme", "mail")
	w.must(err)
	w.must(w.store.RemoveTarget(w.ctx, everything, target.ID))
}

// What a delivery says is kept from whoever writes to the table.
func TestDeliveriesAreGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.target("acme", "all", "*")
	w.notify("acme", "custom.a")
	w.fanOut(1)
	w.claim(claimAll, 1)
	for _, sql := range []string{
		"UPDATE fenceline.deliveries SET body = '{}'",
		"UPDATE fenceline.deliveries SET id = gen_random_uuid()",
		"UPDATE fenceline.deliveries SET attempts = 0",
		"UPDATE fenceline.deliveries SET state = 'delivered'",
		"INSERT INTO fenceline.deliveries (id, outbox_id, target_id, tenant, topic, body) SELECT gen_random_uuid(), outbox_id, target_id, tenant, topic, body FROM fenceline.deliveries",
		"INSERT INTO fenceline.outbox (topic) VALUES ('custom.a')",
		"INSERT INTO fenceline.outbox (topic, tenant) VALUES ('Custom a', 'acme')",
		"INSERT INTO fenceline.outbox (topic, tenant) VALUES ('export.published', 'acme')",
	} {
		if err := w.tryExec(sql); err == nil {
			t.Errorf("the database let through: %s", sql)
		}
	}
}

// Deliverers are woken when a notice is committed and nothing older waits: publications
// at full load do not wait for each other's messages.
func TestNoticesAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()
	heard, ready := make(chan string, 10), make(chan struct{})
	go func() {
		_ = w.store.Listen(ctx, storage.ChannelOutbox, func() { close(ready) }, func(m string) { heard <- m })
	}()
	<-ready
	told := func() {
		t.Helper()
		select {
		case <-heard:
		case <-ctx.Done():
			t.Fatal("nothing was told")
		}
	}
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		for i := range 3 {
			if err := w.store.Notify(w.ctx, tx, "acme", fmt.Sprintf("custom.n%d", i), nil); err != nil {
				return err
			}
		}
		return nil
	}))
	told() // once for the transaction
	w.published("orders")
	_, err := w.store.FanOut(w.ctx, 100, freeze)
	w.must(err)
	w.published("more")
	told()
	if len(heard) > 0 {
		t.Errorf("told %d times more", len(heard))
	}
}
