package notify

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

func TestTargetsAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := Request{Tenant: "acme", Name: "shop", Kind: "webhook", URL: "https://example.com/"}
	mail := Request{Tenant: "acme", Name: "office", Kind: "mail", Addresses: []string{"a@example.com"}}
	for field, change := range map[string]func(*Request){
		"name":        func(r *Request) { r.Name = "Shop" },
		"name ":       func(r *Request) { r.Name = "01a22b04-31c8-754f-b63d-fbf62f91df3c" },
		"name  ":      func(r *Request) { r.Name = strings.Repeat("a", 64) },
		"tenant":      func(r *Request) { r.Tenant = "a b" },
		"kind":        func(r *Request) { r.Kind = "pigeon" },
		"url":         func(r *Request) { r.URL = "http://example.com/" },
		"url ":        func(r *Request) { r.URL = "https://169.254.169.254/" },
		"topics":      func(r *Request) { r.Topics = []string{"Export"} },
		"topics ":     func(r *Request) { r.Topics = []string{"cust*"} },
		"topics  ":    func(r *Request) { r.Topics = make([]string, 21) },
		"topics   ":   func(r *Request) { r.Topics = []string{"job.faild"} },
		"topics    ":  func(r *Request) { r.Topics = []string{"stock.low"} },
		"topics     ": func(r *Request) { r.Topics = []string{"custom"} },
		"job_kinds":   func(r *Request) { r.JobKinds = []string{"a b"} },
		"addresses":   func(r *Request) { r.Addresses = []string{"a@example.com"} },
	} {
		r := good
		change(&r)
		refuses(t, w, r, strings.TrimSpace(field))
	}
	for _, address := range []string{"", "a", "a@", "Ann <a@example.com>", "a@example.com\r\nBcc: b@example.com", "a@example.com, b@example.com", `"a b"@example.com`, "<a@example.com>"} {
		r := mail
		r.Addresses = []string{address}
		refuses(t, w, r, "addresses")
	}
	none, twice, many, both := mail, mail, mail, mail
	none.Addresses, twice.Addresses, many.Addresses, both.URL = nil, []string{"a@example.com", "a@example.com"}, make([]string, 21), "https://example.com/"
	refuses(t, w, none, "addresses")
	refuses(t, w, twice, "addresses")
	refuses(t, w, many, "addresses")
	refuses(t, w, both, "url")

	added, secret, err := w.targets.Add(w.ctx, good)
	if err != nil || !strings.HasPrefix(secret, "whsec_") || strings.Join(added.Topics, " ") != "export.published job.failed" {
		t.Errorf("added %+v: %v", added, err)
	}
	if _, _, err := w.targets.Add(w.ctx, good); !errors.Is(err, storage.ErrTargetExists) {
		t.Errorf("again: %v", err)
	}
	letter, secret, err := w.targets.Add(w.ctx, mail)
	if err != nil || secret != "" {
		t.Errorf("mail has a secret: %v", err)
	}
	if _, _, err := w.targets.Rotate(w.ctx, everything, letter.ID); err == nil {
		t.Error("mail was rotated")
	}
	ours, theirs := storage.Scope{Tenant: "acme"}, storage.Scope{Tenant: "globex"}
	for _, called := range []string{"shop", added.ID.String()} {
		if got, err := w.targets.Find(w.ctx, ours, "acme", called); err != nil || got.ID != added.ID {
			t.Errorf("%s: found %+v, %v", called, got, err)
		}
		if _, err := w.targets.Find(w.ctx, theirs, "acme", called); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: found by another tenant: %v", called, err)
		}
	}
}

func TestTenantsHaveSoManyTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO fenceline.notify_targets (id, tenant, name, kind, addresses, topics)
		SELECT gen_random_uuid(), 'acme', 't' || n, 'mail', '{a@example.com}', '{*}' FROM generate_series(1, 99) n`)
	r := Request{Tenant: "acme", Name: "last", Kind: "mail", Addresses: []string{"a@example.com"}}
	if _, _, err := w.targets.Add(w.ctx, r); err != nil {
		t.Error(err)
	}
	r.Name = "too-many"
	refuses(t, w, r, "tenant")
	r.Tenant = "globex"
	if _, _, err := w.targets.Add(w.ctx, r); err != nil {
		t.Error(err)
	}
}

func refuses(t *testing.T, w *world, r Request, field string) {
	t.Helper()
	_, _, err := w.targets.Add(w.ctx, r)
	var bad *invalid.Error
	if !errors.As(err, &bad) || bad.Problems[0].Field != field {
		t.Errorf("%+v: %v, want %s to be refused", r, err, field)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	var sum time.Duration
	for tries := 1; tries <= len(waits); tries++ {
		wait := waits[tries-1]
		sum += wait
		for range 100 {
			o := result{err: "no"}.outcome(tries)
			if o.State != storage.DeliveryPending || o.Retry < wait*4/5 || o.Retry > wait*6/5 {
				t.Fatalf("after attempt %d: %+v, want about %s", tries, o, wait)
			}
		}
	}
	if sum < 20*time.Hour || sum > 28*time.Hour {
		t.Errorf("given up after %s, want about a day", sum)
	}
	for _, c := range []struct {
		what  string
		r     result
		tries int
		want  storage.DeliveryState
	}{
		{"the last attempt", result{err: "no"}, len(waits) + 1, storage.DeliveryDead},
		{"stopped at the last attempt", result{err: "stopped", blameless: true}, len(waits) + 1, storage.DeliveryPending},
		{"of no use", result{err: "no", permanent: true}, 1, storage.DeliveryDead},
		{"gone", result{err: "no", gone: true}, 1, storage.DeliveryDead},
		{"the last attempt arrived", result{ok: true}, len(waits) + 1, storage.DeliveryDelivered},
	} {
		if o := c.r.outcome(c.tries); o.State != c.want || (o.Disable != "") != c.r.gone {
			t.Errorf("%s: %+v", c.what, o)
		}
	}
	if o := (result{err: "no", after: 100 * time.Hour}).outcome(1); o.Retry != longestWait {
		t.Errorf("asked to be left alone for ever: %s", o.Retry)
	}
	if o := (result{err: "no", after: time.Second}).outcome(5); o.Retry < 24*time.Minute {
		t.Errorf("asked to come at once: %s", o.Retry)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "120": 2 * time.Minute, "99999999": longestWait, "99999999999999999999999": 0, "soon": 0, "1.5": 0,
		"Sun, 01 Mar 2026 12:05:00 GMT": 5 * time.Minute, "Sun, 01 Mar 2026 11:00:00 GMT": 0, "Fri, 01 Jan 2100 00:00:00 GMT": longestWait,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
