package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/notify"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// hooks is a server that webhooks are sent to.
type hooks struct {
	*httptest.Server
	mu  sync.Mutex
	got []hook
}

type hook struct {
	http.Header
	body string
}

// newHooks calls during with each request, counted from 1, before it answers.
func newHooks(t *testing.T, during func(n int, w http.ResponseWriter)) *hooks {
	t.Helper()
	h := &hooks{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.got = append(h.got, hook{r.Header.Clone(), string(body)})
		n := len(h.got)
		h.mu.Unlock()
		if during != nil {
			during(n, w)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) calls() []hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]hook{}, h.got...)
}

// targetAnswer is what `notify add` and the like print.
type targetAnswer struct {
	Target storage.Target
	Secret string
}

// A published export calls a webhook with a signature that holds.
func TestUpTellsWhatWasPublished(t *testing.T) {
	t.Parallel()
	s := newPrivateSite(t)
	s.env["WEBHOOK_ALLOW"] = "127.0.0.1"
	h := newHooks(t, nil)
	s.report("one", "-- title: One row\nSELECT 1 AS id ORDER BY 1\n")
	s.start("up").says("Stop with Ctrl-C")
	added := asJSON[targetAnswer](s, "notify", "add", "webhook", "shop", h.URL)
	s.ok("dispatch", "report", "one", "--wait")
	until(t, "the webhook is called", func() bool { return len(h.calls()) == 1 })
	got := h.calls()[0]
	if err := notify.Verify(added.Secret, got.Header, []byte(got.body), time.Now()); err != nil {
		t.Error(err)
	}
	var e notify.Event
	s.must(json.Unmarshal([]byte(got.body), &e))
	if e.Type != "export.published" || e.Data.Export.Title != "One row" || *e.Data.Export.Rows != 1 || !strings.HasPrefix(e.Data.Export.URL, "http://127.0.0.1:") {
		t.Errorf("told: %s", got.body)
	}
	if out := s.ok("notify", "test", "shop"); !strings.Contains(out, "delivered") {
		t.Errorf("the test: %s", out)
	}
}

// A deliverer that is killed after it has sent and before it has recorded that:
// another sends the same again, under the same id.
func TestADelivererIsKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.env["WEBHOOK_ALLOW"] = "127.0.0.1"
	var worker *process
	h := newHooks(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			_ = worker.Process.Kill()
			<-worker.exited
		}
	})
	added := asJSON[targetAnswer](s, "notify", "add", "webhook", "shop", h.URL, "--topic", "custom.*")
	worker = s.start("notify", "work")
	store, err := storage.Open(t.Context(), s.env["DATABASE_URL"], storage.Options{MaxConns: 2})
	s.must(err)
	defer store.Close()
	s.must(store.Transaction(t.Context(), func(tx storage.Tx) error {
		return store.Notify(t.Context(), tx, "default", "custom.stock.low", map[string]int{"left": 3})
	}))
	select {
	case <-worker.exited:
	case <-time.After(time.Minute):
		t.Fatal("it was not called")
	}
	page := asJSON[storage.Page[storage.Delivery]](s, "notify", "deliveries", "--state", "pending", "--target", "shop")
	if len(page.Items) != 1 || page.Items[0].Attempts != 1 {
		t.Fatalf("after the kill: %+v", page.Items)
	}
	s.start("notify", "work")
	s.sql("UPDATE fenceline.deliveries SET next_at = clock_timestamp()", "NOTIFY fenceline_outbox") // the lease is over
	until(t, "it is delivered", func() bool {
		return strings.Contains(s.ok("notify", "delivery", page.Items[0].ID.String()), "delivered")
	})
	calls := h.calls()
	if len(calls) != 2 || calls[0].body != calls[1].body || calls[0].Get("webhook-id") != calls[1].Get("webhook-id") || calls[0].Get("webhook-id") != page.Items[0].ID.String() {
		t.Errorf("sent: %+v", calls)
	}
	for _, c := range calls {
		if err := notify.Verify(added.Secret, c.Header, []byte(c.body), time.Now()); err != nil {
			t.Error(err)
		}
	}
}

func TestNotifyCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	h := newHooks(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusGone) })
	s.env["WEBHOOK_ALLOW"] = "127.0.0.1"
	added := asJSON[targetAnswer](s, "notify", "add", "webhook", "shop", h.URL, "--tenant", "acme", "--topic", "job.failed,custom.*", "--job-kind", "report")
	if !strings.HasPrefix(added.Secret, "whsec_") || len(added.Target.Topics) != 2 || added.Target.Tenant != "acme" {
		t.Errorf("added %+v", added.Target)
	}
	s.ok("notify", "add", "mail", "office", "ann@example.com", "bob@example.com")
	for _, args := range [][]string{{"list"}, {"show", "shop", "--tenant", "acme"}, {"show", added.Target.ID.String()}} {
		out, raw := s.ok(append([]string{"notify"}, args...)...), s.ok(append([]string{"notify", "--json"}, args...)...)
		if !strings.Contains(out, h.URL) || strings.Contains(out+raw, "whsec_") || strings.Contains(out+raw, strings.TrimPrefix(added.Secret, "whsec_")) {
			t.Errorf("%q:\n%s\n%s", args, out, raw)
		}
	}
	if out := s.ok("notify", "list", "--tenant", "default"); !strings.Contains(out, "ann@example.com, bob@example.com") || strings.Contains(out, "shop") {
		t.Errorf("of the default tenant:\n%s", out)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "takes NAME and URL", []string{"add", "webhook", "x"}},
		{exitUsage, "https://", []string{"add", "webhook", "x", "http://example.com"}},
		{exitUsage, "WEBHOOK_ALLOW", []string{"add", "webhook", "x", "https://10.0.0.1/"}},
		{exitUsage, "takes NAME and one ADDRESS", []string{"add", "mail", "x"}},
		{exitUsage, "addresses", []string{"add", "mail", "x", "nobody"}},
		{exitUsage, "topics", []string{"add", "mail", "x", "a@example.com", "--topic", "Nonsense"}},
		{exitRefused, "target of this name", []string{"add", "mail", "office", "a@example.com"}},
		{exitNotFound, "shop", []string{"show", "shop"}},
		{exitUsage, "--yes", []string{"remove", "office"}},
		{exitUsage, "no secret", []string{"rotate", "office"}},
		{exitUsage, "--state", []string{"deliveries", "--state", "lost"}},
		{exitUsage, "must be a number from 1 to 200", []string{"deliveries", "--limit", "-1"}},
		{exitUsage, "must be a number from 1 to 200", []string{"deliveries", "--limit", "201"}},
		{exitUsage, "must be a number from 1 to 200", []string{"deliveries", "--limit", "many"}},
		{exitUsage, "takes [DELIVERY]", []string{"replay", "x", "y"}},
		{exitUsage, "DELIVERY", []string{"replay"}},
		{exitUsage, "DELIVERY", []string{"replay", "x"}},
		{exitUsage, "give one DELIVERY", []string{"replay", "--dead", "x"}},
		{exitNotFound, "not found", []string{"replay", added.Target.ID.String()}},
		{exitBusy, "nobody has sent", []string{"test", "shop", "--tenant", "acme", "--wait", "100ms"}},
	} {
		if got := s.run(append([]string{"notify"}, c.args...)...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("notify %q: exit %d, %s", c.args, got.code, got.err)
		}
	}
	worker := s.start("notify", "work")
	until(t, "the target is disabled", func() bool {
		return strings.Contains(s.ok("notify", "show", "shop", "--tenant", "acme"), "disabled since")
	})
	s.must(worker.stop())
	if out := s.ok("notify", "replay", "--dead", "--tenant", "acme", "--target", "shop"); !strings.Contains(out, "1 delivery was given up; add --yes") {
		t.Errorf("counted: %s", out)
	}
	if out := s.ok("notify", "replay", "--dead", "--tenant", "acme", "--yes"); !strings.Contains(out, "1 delivery is sent again\n") {
		t.Errorf("replayed: %s", out)
	}
	delivery := asJSON[storage.Page[storage.Delivery]](s, "notify", "deliveries").Items[0].ID.String()
	for _, args := range [][]string{{delivery}, {"--dead", "--tenant", "acme", "--target", "shop", "--yes"}} {
		if out := s.ok(append([]string{"notify", "replay"}, args...)...); !strings.Contains(out, "again when shop is enabled: `fenceline notify enable "+added.Target.ID.String()) {
			t.Errorf("to a target that is disabled: %s", out)
		}
	}
	s.ok("notify", "enable", "shop", "--tenant", "acme")
	s.ok("notify", "disable", "shop", "--tenant", "acme")
	if again := asJSON[targetAnswer](s, "notify", "rotate", "shop", "--tenant", "acme"); again.Secret == added.Secret || again.Target.OldSecretUntil == nil {
		t.Errorf("rotated: %+v", again.Target)
	}
	s.ok("notify", "remove", "shop", "--tenant", "acme", "--yes")
	if page := asJSON[storage.Page[storage.Delivery]](s, "notify", "deliveries"); len(page.Items) != 0 {
		t.Errorf("left: %+v", page.Items)
	}
}

func TestWhatCameOfATest(t *testing.T) {
	t.Parallel()
	for says, d := range map[string]storage.Delivery{
		"<nil>": {State: storage.DeliveryDelivered, Attempts: 1},
		"the test of shop did not arrive: answered 500": {State: storage.DeliveryPending, Attempts: 1, LastError: "answered 500"},
		"nobody has sent the test yet":                  {State: storage.DeliveryPending},
		"shop has not answered yet":                     {State: storage.DeliveryPending, Attempts: 1},
	} {
		if err := testOutcome(storage.Target{Name: "shop"}, d); !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%+v: %v, want %s", d, err, says)
		}
	}
}

func TestNotifySettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, says string }{
		{"SMTP_URL", "http://user:hunter2@host", "SMTP_URL"},
		{"SMTP_URL", "smtp://user:hunter2@host", "MAIL_FROM"},
		{"WEBHOOK_ALLOW", "hooks.internal,http://x", "WEBHOOK_ALLOW"},
		{"NOTIFY_KEEP", "-1h", "NOTIFY_KEEP"},
	} {
		s := &site{t: t, dir: t.TempDir(), env: map[string]string{c.name: c.value}}
		if got := s.run("version"); got.code != exitUsage || !strings.Contains(got.err, c.says) || strings.Contains(got.err, "hunter2") {
			t.Errorf("%s=%s: exit %d, %s", c.name, c.value, got.code, got.err)
		}
	}
}
