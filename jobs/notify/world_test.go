package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func TestMain(m *testing.M) { os.Exit(storagetest.Main(m)) }

var everything = storage.Scope{All: true}

// world is a database of its own, with what the tests do to it.
type world struct {
	t       *testing.T
	ctx     context.Context
	url     string
	store   *storage.Store
	targets *Targets
	log     *syncBuffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), log: &syncBuffer{}}
	w.url = storagetest.Database(t, func(ctx context.Context, url string) error {
		_, err := storage.Migrate(ctx, url)
		return err
	})
	var err error
	w.store, err = storage.Open(w.ctx, w.url, storage.Options{})
	w.must(err)
	t.Cleanup(w.store.Close)
	w.targets = NewTargets(w.store, newGuard(t, "127.0.0.1"), nil)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the deliverers:\n%s", w.log)
		}
	})
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	conn, err := pgx.Connect(w.ctx, w.url)
	w.must(err)
	defer func() { _ = conn.Close(context.WithoutCancel(w.ctx)) }()
	_, err = conn.Exec(w.ctx, sql, args...)
	w.must(err)
}

// lapse lets every lease and every wait be over.
func (w *world) lapse() {
	w.t.Helper()
	w.exec("UPDATE fenceline.deliveries SET next_at = clock_timestamp() - interval '1 second', last_error = NULL WHERE state = 'pending'")
	w.exec("NOTIFY fenceline_outbox")
}

// deliver starts a deliverer; stop stops it and waits for it.
func (w *world) deliver(change ...func(*Config)) (stop func()) {
	w.t.Helper()
	conf := Config{Store: w.store, Log: slog.New(slog.NewTextHandler(w.log, nil)), Guard: newGuard(w.t, "127.0.0.1"), PublicURL: "https://exports.example.com/"}
	for _, c := range change {
		c(&conf)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	ended := make(chan error, 1)
	go func() { ended <- NewDeliverer(conf).Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the deliverer: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// until polls a condition.
func (w *world) until(what string, yes func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-deadline.C:
			w.t.Fatalf("it never came to this: %s", what)
		case <-tick.C:
		}
	}
}

func (w *world) insert(tenant, key, title string) storage.Job {
	w.t.Helper()
	var job storage.Job
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) (err error) {
		job, _, err = w.store.InsertJob(w.ctx, tx, storage.NewJob{
			Tenant: tenant, Kind: "report", Key: key, Title: title, Queue: "default", Payload: json.RawMessage(`{"password":"hunter2"}`), PayloadVersion: 1,
			MaxAttempts: 3, MaxCrashes: 3, Timeout: time.Minute, RequestHash: []byte("hash"),
		})
		return err
	}))
	return job
}

func (w *world) begin(job storage.Job) storage.Begun {
	w.t.Helper()
	b, err := w.store.BeginAttempt(w.ctx, job.ID, "w-1")
	w.must(err)
	return b
}

func (w *world) seal(b storage.Begun) {
	w.t.Helper()
	w.must(w.store.Seal(w.ctx, b.ID, storage.Sealed{Rows: 1204, Files: []storage.File{{
		Name: "orders.csv", Object: files.ObjectName(1, "orders.csv"), Format: "csv", MediaType: "text/csv", Size: 56300, SHA256: make([]byte, 32), Rows: 1204,
	}}}))
}

// published is a job whose export was published.
func (w *world) published(tenant, key, title string) (storage.Job, storage.Begun) {
	w.t.Helper()
	job := w.insert(tenant, key, title)
	b := w.begin(job)
	w.seal(b)
	w.must(w.store.Publish(w.ctx, b.ID))
	return job, b
}

// failed is a job that failed for good.
func (w *world) failed(tenant, key, title, reason string) storage.Job {
	w.t.Helper()
	job := w.insert(tenant, key, title)
	_, err := w.store.EndAttempt(w.ctx, w.begin(job).ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: reason, Counts: true, Final: true})
	w.must(err)
	return job
}

func (w *world) custom(tenant, topic string, payload any) {
	w.t.Helper()
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error { return w.store.Notify(w.ctx, tx, tenant, topic, payload) }))
}

func (w *world) delivery(id uuid.UUID) storage.Delivery {
	w.t.Helper()
	d, err := w.store.Delivery(w.ctx, everything, id)
	w.must(err)
	return d
}

func (w *world) deliveries() []storage.Delivery {
	w.t.Helper()
	page, err := w.store.Deliveries(w.ctx, everything, storage.DeliveryFilter{})
	w.must(err)
	return page.Items
}

// becomes waits until the only delivery is in a state.
func (w *world) becomes(state storage.DeliveryState) (d storage.Delivery) {
	w.t.Helper()
	w.until(fmt.Sprintf("the delivery is %s", state), func() bool {
		list := w.deliveries()
		if len(list) == 1 {
			d = list[0]
		}
		return d.State == state
	})
	return d
}

// tried waits until the only delivery has an error of so many attempts.
func (w *world) tried(attempts int) (d storage.Delivery) {
	w.t.Helper()
	w.until(fmt.Sprintf("attempt %d has failed", attempts), func() bool {
		list := w.deliveries()
		if len(list) == 1 {
			d = list[0]
		}
		return d.Attempts == attempts && d.LastError != ""
	})
	return d
}

// receiver is a server that webhooks are sent to.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []call
	with func(n int, rw http.ResponseWriter, r *http.Request) // n counts from 1; nil answers 200
}

// call is a request that a receiver got.
type call struct {
	http.Header
	path string
	body string
}

func newReceiver(t *testing.T, with func(n int, rw http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{with: with}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.got = append(r.got, call{req.Header.Clone(), req.URL.Path, string(body)})
	n := len(r.got)
	r.mu.Unlock()
	if r.with != nil {
		r.with(n, rw, req)
	}
}

func (r *receiver) calls() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call{}, r.got...)
}

// hook adds a webhook and answers its secret.
func (w *world) hook(tenant, name, url string, topics ...string) (storage.Target, string) {
	w.t.Helper()
	t, secret, err := w.targets.Add(w.ctx, Request{Tenant: tenant, Name: name, Kind: "webhook", URL: url, Topics: topics})
	w.must(err)
	return t, secret
}

// syncBuffer is a log that many write to.
type syncBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
