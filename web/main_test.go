package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func TestMain(m *testing.M) { os.Exit(storagetest.Main(m)) }

// world is a running server with a database and files of its own.
type world struct {
	t          testing.TB
	ctx        context.Context
	store      *storage.Store
	files      *files.Local
	registry   *jobs.Registry
	dispatcher *jobs.Dispatcher
	server     *Server
	base       string // its address
	address    string // of its database
	log        *syncBuffer
	stop       func() error
}

var testReports = fstest.MapFS{
	"orders.sql": {Data: []byte("-- title: Orders\n-- tenant: shared\n-- description: Every order.\n-- param: from date required \"First day\"\n" +
		"-- param: status enum(new,paid) \"Only this status\"\n-- param: least decimal default 0 \"At least\"\n-- filename: orders\n" +
		"SELECT 1 AS id WHERE :from IS NOT NULL AND :least >= 0 AND (:status IS NULL OR true)\n")},
	"slow.sql":   {Data: []byte("-- title: Slow\n-- tenant: shared\n-- param: rows integer required \"Rows\"\nSELECT n, pg_sleep(0.002)::text AS nothing FROM generate_series(1, :rows::int) n ORDER BY n\n")},
	"house.sql":  {Data: []byte("-- title: Of the house\nSELECT 1 AS id ORDER BY 1\n")},
	"broken.sql": {Data: []byte("-- titel: Broken\nSELECT 1 AS id\n")},
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	return newWorldAt(t, storagetest.Database(t, func(ctx context.Context, address string) error {
		_, err := storage.Migrate(ctx, address)
		return err
	}), change...)
}

// newWorldAt is newWorld on a migrated database.
func newWorldAt(t testing.TB, address string, change ...func(*Config)) *world {
	t.Helper()
	ctx := t.Context()
	w := &world{t: t, ctx: ctx, address: address, log: &syncBuffer{}}
	w.store = must(storage.Open(ctx, address, storage.Options{MaxConns: 6}))(t)
	t.Cleanup(w.store.Close)
	w.files = must(files.OpenLocal(t.TempDir(), must(w.store.Installation(ctx))(t)))(t)
	t.Cleanup(func() { _ = w.files.Close() })
	catalog := report.NewCatalog(testReports)
	reports := must(jobs.NewReports(jobs.ReportConfig{Catalog: catalog, Store: w.store}))(t)
	renderers := must(jobs.NewInvoiceRenderers(invoice.Options{}))(t)
	w.registry = must(jobs.NewRegistry(reports.Kind(), jobs.InvoiceKind(renderers), noteKind(), jobs.BatchZIPKind(w.store)))(t)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	w.base = "http://" + ln.Addr().String()
	conf := Config{
		Store: w.store, Files: w.files, Dispatcher: w.dispatcher, Reports: reports, Invoices: renderers, PublicURL: w.base,
		Targets: notify.NewTargets(w.store, must(notify.NewGuard([]string{"hooks.internal"}))(t), nil),
		Log:     slog.New(slog.NewTextHandler(w.log, nil)), Lease: 30 * time.Second,
		Metrics: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "fenceline_up 1\n") }),
	}
	for _, c := range change {
		c(&conf)
	}
	w.server = New(conf)
	w.run(ln)
	return w
}

func (w *world) run(ln net.Listener) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	ended := make(chan error, 1)
	go func() { ended <- w.server.Run(ctx, ln) }()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	w.t.Cleanup(func() {
		if err := w.stop(); err != nil {
			w.t.Errorf("stop the server: %v", err)
		}
		if w.t.Failed() {
			w.t.Logf("log of the server:\n%s", w.log)
		}
	})
}

// noteKind is a kind of plain jobs; no worker runs here.
func noteKind() jobs.Kind {
	return jobs.Handle("note", func(context.Context, *jobs.Work, struct {
		Text string `json:"text"`
	}) (any, error) {
		return nil, nil
	})
}

// must gives a value, or ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// syncBuffer is a buffer that several goroutines may write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// creds are how a request says who makes it: a Cookie or an Authorization header.
type creds struct{ name, value string }

var nobody = creds{}

// token makes an API token for a tenant, or for all when tenant is empty.
func (w *world) token(tenant string) creds {
	w.t.Helper()
	_, secret, err := w.store.NewToken(w.ctx, "test", tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	return creds{"Authorization", "Bearer " + secret}
}

// person makes an admin of a tenant, or of all when tenant is empty, and a session.
func (w *world) person(name, tenant string) creds {
	w.t.Helper()
	return w.personAs(name, tenant, storage.RoleAdmin)
}

// personAs makes a user with a role, unless there is one of the name, and a session.
func (w *world) personAs(name, tenant string, role storage.Role) creds {
	w.t.Helper()
	u, err := w.store.AddUser(w.ctx, storage.NewUser{Name: name, Tenant: tenant, Role: role})
	if errors.Is(err, storage.ErrUserExists) {
		u, err = w.store.UserByName(w.ctx, storage.Scope{All: true}, name)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	_, secret, err := w.store.BeginSession(w.ctx, u.ID, storage.ViaLink, "", storage.Visitor{})
	if err != nil {
		w.t.Fatal(err)
	}
	return creds{"Cookie", "fenceline=" + secret}
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body string
}

func (w *world) send(method, path string, who creds, body io.Reader, header ...string) answer {
	w.t.Helper()
	r := must(http.NewRequestWithContext(w.ctx, method, w.base+path, body))(w.t)
	if who != nobody {
		r.Header.Set(who.name, who.value)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res := must(client.Do(r))(w.t)
	defer res.Body.Close()
	return answer{res, string(must(io.ReadAll(res.Body))(w.t))}
}

func (w *world) get(path string, who creds, header ...string) answer {
	w.t.Helper()
	return w.send("GET", path, who, nil, header...)
}

func (w *world) post(path string, who creds, form url.Values) answer {
	w.t.Helper()
	return w.send("POST", path, who, strings.NewReader(form.Encode()), "Content-Type", "application/x-www-form-urlencoded")
}

func (w *world) call(path string, who creds, body string, header ...string) answer {
	w.t.Helper()
	return w.send("POST", path, who, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, header...)...)
}

// want fails the test unless an answer has a status and holds all of some texts.
func (a answer) want(t testing.TB, status int, texts ...string) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s answered %d, want %d:\n%s", a.Request.Method, a.Request.URL, a.StatusCode, status, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Errorf("%s %s does not hold %q:\n%s", a.Request.Method, a.Request.URL, text, a.body)
		}
	}
	return a
}

// without fails the test when an answer holds one of some texts.
func (a answer) without(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			t.Errorf("%s %s holds %q:\n%s", a.Request.Method, a.Request.URL, text, a.body)
		}
	}
}

func decode[T any](t testing.TB, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%s is not JSON: %v", a.body, err)
	}
	return v
}

// job inserts a job for an export of a tenant.
func (w *world) job(tenant, key, title string) storage.Job {
	w.t.Helper()
	var job storage.Job
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		var err error
		job, _, err = w.store.InsertJob(w.ctx, tx, storage.NewJob{
			Tenant: tenant, Kind: "report", Key: key, Title: title, Queue: "default", PayloadVersion: 1, MaxAttempts: 2, MaxCrashes: 5,
			Payload:     json.RawMessage(`{"report":"orders","params":{"from":"2026-01-01"},"format":"csv"}`),
			RequestHash: []byte("x"), RequestedBy: "Nadia", Timeout: time.Hour,
		})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return job
}

func (w *world) begin(j storage.Job, worker string) storage.Begun {
	w.t.Helper()
	return must(w.store.BeginAttempt(w.ctx, j.ID, worker))(w.t)
}

// beginUnder is begin under a lease of a service that gave it an order.
func (w *world) beginUnder(j storage.Job, worker string, order int64) storage.Begun {
	w.t.Helper()
	return must(w.store.BeginUnder(w.ctx, j.ID, worker, storage.LeaseOrder{Name: "revision", Number: order}))(w.t)
}

// seal writes one file for an attempt and seals it.
func (w *world) seal(j storage.Job, b storage.Begun, name, content string) {
	w.t.Helper()
	object := files.ObjectName(1, name)
	out := must(w.files.Create(w.t.Context(), files.Place{Export: j.ExportID, Token: b.Token, Attempt: b.ID}, object))(w.t)
	must(out.Write([]byte(content)))(w.t)
	written := must(out.Commit())(w.t)
	rows := int64(strings.Count(content, "\n"))
	err := w.store.Seal(w.ctx, b.ID, storage.Sealed{Rows: rows, DataAsOf: time.Now(), Files: []storage.File{{
		Name: name, Object: object, Format: "csv", MediaType: "text/csv; charset=utf-8", Size: written.Size, SHA256: written.SHA256[:], Rows: rows,
	}}})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) publish(b storage.Begun) {
	w.t.Helper()
	if err := w.store.Publish(w.ctx, b.ID); err != nil {
		w.t.Fatal(err)
	}
}

// published makes an export with one published file.
func (w *world) published(tenant, key, title, name, content string) (storage.Job, storage.Begun) {
	w.t.Helper()
	j := w.job(tenant, key, title)
	b := w.begin(j, "w-1")
	w.seal(j, b, name, content)
	w.publish(b)
	return j, b
}

// fenced makes an export whose first attempt was frozen, overtaken and refused.
func (w *world) fenced(tenant, key, title string) (j storage.Job, stale, current storage.Begun) {
	w.t.Helper()
	j = w.job(tenant, key, title)
	stale = w.begin(j, "w-frozen")
	lost := must(w.store.HandOnLost(w.ctx, 0, 10))(w.t)
	if len(lost) != 1 {
		w.t.Fatalf("%d jobs were handed on, want 1", len(lost))
	}
	current = w.begin(j, "w-second")
	w.seal(j, current, "second.csv", "id\n2\n")
	w.publish(current)
	w.seal(j, stale, "first.csv", "id\n1\n")
	if err := w.store.Publish(w.ctx, stale.ID); err == nil {
		w.t.Fatal("the stale attempt was published")
	}
	return j, stale, current
}

func exportPath(id uuid.UUID) string { return "/exports/" + id.String() }

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	deadline := time.After(60 * time.Second)
	for !holds() {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
