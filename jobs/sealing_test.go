package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// vaultPayload has secret fields.
type vaultPayload struct {
	Key   string            `json:"key"`
	Token string            `json:"token"`
	Items []vaultItem       `json:"items,omitempty"`
	Extra map[string]string `json:"extra,omitempty"`
	How   string            `json:"how,omitempty"`
}

type vaultItem struct {
	Name string `json:"name"`
	Pass string `json:"pass"`
}

// vaultKind publishes a digest of what it was given, and goes wrong on demand.
func vaultKind() jobs.Kind {
	return jobs.Kind{
		Name: "vault", Version: 1, Secret: []string{"token", "items.*.pass", "extra.*"},
		Decode: func(in jobs.Payload) (jobs.Task, error) {
			var p vaultPayload
			if err := json.Unmarshal(in.Body, &p); err != nil {
				return jobs.Task{}, err
			}
			switch p.How {
			case "invalid":
				return jobs.Task{}, invalid.New("token", p.Token, "must not be %q", p.Token)
			case "wrong":
				return jobs.Task{}, fmt.Errorf("token %s is wrong", p.Token)
			case "tells":
				return jobs.Task{Key: p.Key, Title: "of " + p.Token}, nil
			}
			check := func(context.Context) error { return nil }
			if p.How == "checked" {
				check = func(context.Context) error { return invalid.New("token", p.Token, "is not known") }
			}
			return jobs.Task{Key: p.Key, Title: p.Key, Check: check, Render: func(_ context.Context, r *jobs.Run) error { return p.render(r) }}, nil
		},
	}
}

func (p vaultPayload) render(r *jobs.Run) error {
	switch p.How {
	case "fails":
		return jobs.Permanent(fmt.Errorf("log in with %q at https://%s@host: %w", p.Token, p.Items[0].Pass, io.ErrUnexpectedEOF))
	case "panics":
		panic("the token " + p.Token)
	}
	return writeFile(r, fmt.Sprintf("%d %d %d", len(p.Token), len(p.Items), len(p.Extra)))
}

func keyEntry(t *testing.T, name string) string {
	t.Helper()
	e, err := secret.NewEntry(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func keyring(t *testing.T, entries ...string) *secret.Keyring {
	t.Helper()
	k, err := secret.Parse(strings.Join(entries, ","))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// vault gives a world the kind with secrets, and keys.
func (w *world) vault(keys *secret.Keyring) *jobs.Registry {
	w.t.Helper()
	r, err := jobs.NewRegistry(vaultKind(), w.testKind())
	w.must(err)
	w.registry = r.WithKeys(keys)
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	return w.registry
}

func (p vaultPayload) request(tenant string) jobs.Request {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return jobs.Request{Kind: "vault", Tenant: tenant, Payload: raw}
}

func (w *world) store1(p vaultPayload, options ...jobs.Option) storage.Job {
	w.t.Helper()
	r, err := w.dispatcher.Dispatch(w.ctx, nil, p.request(""), options...)
	w.must(err)
	return r.Job
}

// aSecret is a text that is nowhere else.
func aSecret() string { return "hush-" + uuid.NewString() }

// Whatever becomes of a job, its secrets are readable nowhere but in its handler.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	w := newWorld(t, server)
	var logs logBuffer
	w.log = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.vault(keyring(t, keyEntry(t, "k1")))
	heard := w.listen("fenceline_jobs")
	w.worker()

	var secrets []string
	hush := func() string { secrets = append(secrets, aSecret()); return secrets[len(secrets)-1] }
	full := func(key, how string) vaultPayload {
		return vaultPayload{Key: key, How: how, Token: hush(), Items: []vaultItem{{"a", hush()}, {"b", hush()}}, Extra: map[string]string{"x": hush()}}
	}
	var said bytes.Buffer
	good := w.store1(full("good", ""), jobs.IdempotencyKey("once"))
	fails, panics := w.store1(full("fails", "fails")), w.store1(full("panics", "panics"), jobs.MaxAttempts(1))
	for _, how := range []string{"invalid", "wrong", "tells", "checked"} {
		if _, err := w.dispatcher.Dispatch(w.ctx, nil, full("k", how).request("")); err == nil {
			t.Errorf("%s was dispatched", how)
		} else {
			fmt.Fprintf(&said, "%v %+v\n", err, err)
			var bad *invalid.Error
			if errors.As(err, &bad) {
				w.must(json.NewEncoder(&said).Encode(bad.Problems))
			}
		}
	}
	w.ends(good, storage.JobDone)
	if got := w.current(good); got != "41 2 1" {
		t.Errorf("the handler saw %q", got)
	}
	for job, want := range map[uuid.UUID]string{fails.ID: "log in with \"•••\" at https://•••@host", panics.ID: "panic: the token •••"} {
		got := w.ends(w.job(job), storage.JobFailed)
		if !strings.Contains(deref(got.Error), want) {
			t.Errorf("error %q, want %q", deref(got.Error), want)
		}
	}
	for _, j := range []storage.Job{good, w.job(good.ID), fails} {
		w.must(json.NewEncoder(&said).Encode(j))
		if !bytes.Contains(j.Payload, []byte(`"$sealed": true`)) && !bytes.Contains(j.Payload, []byte(`"$sealed":true`)) {
			t.Errorf("not masked: %s", j.Payload)
		}
	}
	retried, err := w.store.RetryJob(w.ctx, everything, fails.ID)
	w.must(err)
	page, err := w.store.Jobs(w.ctx, everything, storage.JobFilter{})
	w.must(err)
	w.must(json.NewEncoder(&said).Encode([]any{retried, page, w.attempts(good), w.attempts(fails), w.attempts(panics)}))
	w.ends(retried, storage.JobFailed)

	dump, err := exec.CommandContext(w.ctx, "pg_dump", "--data-only", "--inserts", w.url).CombinedOutput()
	w.must(err)
	if !bytes.Contains(dump, []byte("v1.k1.")) || !bytes.Contains(dump, []byte(good.ID.String())) {
		t.Fatal("the dump has no jobs")
	}
	if n := bytes.Count(said.Bytes(), []byte("v1.k1.")); n > 0 {
		t.Errorf("%d sealed values are shown", n)
	}
	for what, text := range map[string]string{"the database": string(dump), "Redis": w.redisDump(), "the logs": logs.String(), "answers": said.String(), "notifications": heard()} {
		if text == "" {
			t.Errorf("%s: nothing to look at", what)
		}
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("a secret is in %s", what)
			}
		}
	}
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// listen keeps what PostgreSQL says to everybody; the answer ends it.
func (w *world) listen(channels ...string) (heard func() string) {
	w.t.Helper()
	conn, err := pgx.Connect(w.ctx, w.url)
	w.must(err)
	for _, c := range channels {
		_, err := conn.Exec(w.ctx, "LISTEN "+c)
		w.must(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan string, 1)
	go func() {
		var all strings.Builder
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				_ = conn.Close(context.WithoutCancel(ctx))
				done <- all.String()
				return
			}
			fmt.Fprintln(&all, n.Channel, n.Payload)
		}
	}()
	return func() string { cancel(); return <-done }
}

// redisDump is every key of this world with its value, as Redis would save it.
func (w *world) redisDump() string {
	w.t.Helper()
	var all strings.Builder
	iter := w.redis.Client.Scan(w.ctx, 0, "*", 1000).Iterator()
	for iter.Next(w.ctx) {
		raw, err := w.redis.Client.Dump(w.ctx, iter.Val()).Result()
		if err == nil { // it may be gone
			fmt.Fprintln(&all, iter.Val(), raw)
		}
	}
	w.must(iter.Err())
	return all.String()
}

// A repeated request is the same request only with the same secrets, whatever key
// they were sealed with, and nothing that is stored lets them be guessed.
func TestSecretsBelongToTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	one, two := keyEntry(t, "k1"), keyEntry(t, "k2")
	w.vault(keyring(t, one))
	p := vaultPayload{Key: "a", Token: aSecret(), Items: []vaultItem{{"n", aSecret()}}}
	first := w.store1(p, jobs.IdempotencyKey("once"))
	again := func() (jobs.Receipt, error) {
		return w.dispatcher.Dispatch(w.ctx, nil, p.request(""), jobs.IdempotencyKey("once"))
	}
	same := func(when string) {
		t.Helper()
		if r, err := again(); err != nil || !r.Reused || r.Job.ID != first.ID || bytes.Contains(r.Job.Payload, []byte("v1.")) {
			t.Errorf("%s: %+v, %v", when, r, err)
		}
	}
	same("at once")
	other := p
	other.Token = aSecret()
	for what, q := range map[string]vaultPayload{"another token": other, "another item": {Key: "a", Token: p.Token, Items: []vaultItem{{"n", "x"}}}, "no item": {Key: "a", Token: p.Token}} {
		_, err := w.dispatcher.Dispatch(w.ctx, nil, q.request(""), jobs.IdempotencyKey("once"))
		if !errors.Is(err, storage.ErrKeyReused) || strings.Contains(err.Error(), p.Token) || strings.Contains(err.Error(), q.Token) {
			t.Errorf("%s: %v", what, err)
		}
	}
	twin := w.store1(other)
	var hashes int
	w.ask(&hashes, "SELECT count(DISTINCT request_hash) FROM fenceline.jobs")
	if hashes != 1 || twin.ID == first.ID {
		t.Errorf("%d hashes: the hash tells secrets apart", hashes)
	}
	w.vault(keyring(t, two, one))
	same("with a new first key")
	_, err := jobs.RotateKeys(w.ctx, w.store, keyring(t, two, one), false)
	w.must(err)
	w.vault(keyring(t, two))
	same("after the rotation")
	w.vault(keyring(t, one))
	if _, err := again(); err == nil || !strings.Contains(err.Error(), `"k2"`) || errors.Is(err, storage.ErrKeyReused) {
		t.Errorf("with the key gone: %v", err)
	}
}

// What a worker cannot open it leaves, at no cost for the job, and says why.
func TestUnreadableJobsAreLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys func(entry string) *secret.Keyring
		hurt string // with the job as $1 and another one as $2
		says string
	}{
		"no keys":        {func(string) *secret.Keyring { return nil }, "", `sealed with key "k1", which FENCELINE_KEYS does not have`},
		"another key":    {func(string) *secret.Keyring { return keyring(t, keyEntry(t, "k2")) }, "", `sealed with key "k1", which FENCELINE_KEYS does not have`},
		"wrong key":      {func(string) *secret.Keyring { return keyring(t, keyEntry(t, "k1")) }, "", `does not open with key "k1"`},
		"another tenant": {nil, "UPDATE fenceline.jobs SET payload = (SELECT payload FROM fenceline.jobs WHERE id = $2) WHERE id = $1", `does not open with key "k1"`},
		"another path":   {nil, "UPDATE fenceline.jobs SET payload = jsonb_set(payload, '{items,0,pass}', payload -> 'token') WHERE id = $1 AND id <> $2", `does not open with key "k1"`},
		"cut":            {nil, `UPDATE fenceline.jobs SET payload = jsonb_set(payload, '{token,$sealed}', '"v1.k1.AAAA"') WHERE id = $1 AND id <> $2`, "not a sealed value"},
		"newer form":     {nil, `UPDATE fenceline.jobs SET payload = jsonb_set(payload, '{token,$sealed}', '"v2.k1.AAAA"') WHERE id = $1 AND id <> $2`, "a newer Fenceline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Shared(t))
			entry := keyEntry(t, "k1")
			good := w.vault(keyring(t, entry))
			p := vaultPayload{Key: "a", Token: aSecret(), Items: []vaultItem{{"n", aSecret()}}}
			job := w.store1(p, jobs.Delay(time.Hour))
			receipt, err := w.dispatcher.Dispatch(w.ctx, nil, p.request("other"), jobs.Delay(time.Hour))
			w.must(err)
			other := receipt.Job
			if c.hurt != "" {
				w.exec(c.hurt, job.ID, other.ID)
			}
			if c.keys != nil {
				w.vault(c.keys(entry))
			}
			stop := w.worker()
			w.due(job)
			w.until("the job was left", func() bool { return w.job(job.ID).Error != nil })
			stop()
			got := w.job(job.ID)
			if !strings.Contains(*got.Error, c.says) || got.State != storage.JobQueued || got.Failures+got.Crashes != 0 {
				t.Errorf("%s, %d attempts, %d failures, error %q", got.State, got.Attempts, got.Failures, *got.Error)
			}
			if c.hurt != "" {
				return
			}
			w.worker(func(conf *jobs.WorkerConfig) { conf.Registry = good })
			w.due(job)
			if got := w.ends(job, storage.JobDone); got.Error != nil {
				t.Errorf("the error stays: %s", *got.Error)
			}
		})
	}
}

func TestSecretsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	w.vault(nil)
	p := vaultPayload{Key: "a", Token: aSecret()}
	if _, err := w.dispatcher.Dispatch(w.ctx, nil, p.request("")); err == nil || !strings.Contains(err.Error(), "FENCELINE_KEYS") || !strings.Contains(err.Error(), "items.*.pass") {
		t.Errorf("without keys: %v", err)
	}
	w.vault(keyring(t, keyEntry(t, "k1")))
	for _, kind := range []string{"vault", "test"} {
		for _, raw := range []string{`{"key":"a","token":{"$sealed":"v1.k1.AAAA"}}`, `{"key":"a","x":[{"$sealed":true}]}`, `{"key":"a","x":{"\u0024sealed":1}}`} {
			var bad *invalid.Error
			if _, err := w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: kind, Payload: json.RawMessage(raw)}); !errors.As(err, &bad) || !strings.Contains(err.Error(), "reserved") {
				t.Errorf("%s %s: %v", kind, raw, err)
			}
		}
	}
	var n int
	w.ask(&n, "SELECT count(*) FROM fenceline.jobs")
	if n != 0 {
		t.Errorf("%d jobs were made", n)
	}
	k := vaultKind()
	k.Secret = []string{"a..b"}
	if _, err := jobs.NewRegistry(k); err == nil || !strings.Contains(err.Error(), "a..b") {
		t.Errorf("a bad path: %v", err)
	}
}

// Keys change while jobs are dispatched and run; none is lost, and afterwards the old key is needed for nothing.
func TestKeysRotateUnderWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	one, two := keyEntry(t, "k1"), keyEntry(t, "k2")
	both := keyring(t, two, one)
	w.vault(keyring(t, one, two)) // step 1: everybody knows both, the old one seals
	failed := w.store1(vaultPayload{Key: "failed", How: "fails", Token: aSecret(), Items: []vaultItem{{"n", aSecret()}}})
	stop := w.worker()
	w.ends(failed, storage.JobFailed)
	var all []storage.Job
	for i := range 40 {
		all = append(all, w.store1(vaultPayload{Key: fmt.Sprint(i), Token: aSecret(), Items: []vaultItem{{"n", aSecret()}}}))
		if i%8 == 7 {
			r, err := jobs.RotateKeys(w.ctx, w.store, both, false)
			w.must(err)
			if len(r.Unopened) > 0 {
				t.Errorf("%+v", r)
			}
		}
	}
	for _, j := range all {
		w.ends(j, storage.JobDone)
		if got := w.current(j); got != "41 1 0" {
			t.Errorf("job %s saw %q", j.Title, got)
		}
	}
	stop()
	waiting := w.store1(vaultPayload{Key: "waiting", Token: aSecret()}) // still sealed with the old one
	_, err := jobs.RotateKeys(w.ctx, w.store, keyring(t, two), false)
	w.must(err)
	uses, looked, err := w.store.SealedUses(w.ctx, 1000)
	w.must(err)
	if uses["k1"].Live != 1 || uses["k2"].Failed != 2 || looked != 40 || uses["k1"].Finished+uses["k2"].Finished != 80 {
		t.Errorf("%+v of %d", uses, looked)
	}
	r, err := jobs.RotateKeys(w.ctx, w.store, both, false)
	w.must(err)
	if r.Jobs != 1 || r.Values != 1 || r.Left != 0 || r.Key != "k2" {
		t.Errorf("%+v", r)
	}
	if r, err = jobs.RotateKeys(w.ctx, w.store, both, false); err != nil || r.Jobs != 0 || r.Left != 0 {
		t.Errorf("once more: %+v, %v", r, err)
	}
	w.vault(keyring(t, two)) // step 4: the old one is gone
	w.worker()
	w.ends(waiting, storage.JobDone)
	failed, err = w.store.RetryJob(w.ctx, everything, failed.ID)
	w.must(err)
	if got := w.ends(failed, storage.JobFailed); !strings.Contains(deref(got.Error), "log in with") {
		t.Errorf("error %q", deref(got.Error))
	}
	if _, err := jobs.RotateKeys(w.ctx, w.store, both, true); err != nil {
		t.Error(err)
	}
	if uses, _, err := w.store.SealedUses(w.ctx, -1); err != nil || len(uses) != 1 || uses["k2"].Finished != 81 {
		t.Errorf("after --all: %+v, %v", uses, err)
	}
}

// A rotation waits for nobody: rows that are held are left for the next pass, and said to be.
func TestARotationPassesOverWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	one, two := keyEntry(t, "k1"), keyEntry(t, "k2")
	w.vault(keyring(t, one))
	held := w.store1(vaultPayload{Key: "a", Token: aSecret()})
	w.store1(vaultPayload{Key: "b", Token: aSecret()})
	w.must(w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		w.must(tx.Exec("SELECT FROM fenceline.jobs WHERE id = ? FOR UPDATE", held.ID).Error)
		r, err := jobs.RotateKeys(w.ctx, w.store, keyring(t, two, one), false)
		if r.Jobs != 1 || r.Left != 1 || len(r.Unopened) != 0 {
			t.Errorf("%+v", r)
		}
		return err
	}))
	r, err := jobs.RotateKeys(w.ctx, w.store, keyring(t, two), false)
	if err != nil || r.Left != 1 || r.Unopened["key k1 is missing"] != 1 {
		t.Errorf("without the old key: %+v, %v", r, err)
	}
	if r, err = jobs.RotateKeys(w.ctx, w.store, keyring(t, two, one), false); err != nil || r.Jobs != 1 || r.Left != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for i, mode := range []string{"exec", "simple_protocol"} { // as behind a pooler
		name := fmt.Sprint("m", i)
		store, err := storage.Open(w.ctx, withMode(t, w.url, mode), storage.Options{MaxConns: 2})
		w.must(err)
		r, err := jobs.RotateKeys(w.ctx, store, keyring(t, keyEntry(t, name), two, one), true)
		uses, _, usesErr := store.SealedUses(w.ctx, 10)
		if err != nil || usesErr != nil || uses["k2"].Live+uses["m0"].Live != 2 || len(r.Unopened) != i {
			t.Errorf("%s: %+v, %+v, %v, %v", mode, r, uses, err, usesErr)
		}
		store.Close()
	}
	if _, err := jobs.RotateKeys(w.ctx, w.store, nil, false); !errors.Is(err, secret.ErrNoKeys) {
		t.Errorf("without keys: %v", err)
	}
}

func withMode(t *testing.T, address, mode string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", mode)
	u.RawQuery = q.Encode()
	return u.String()
}

type typedSecret struct {
	Name  string `json:"name"`
	Token string `json:"token" fenceline:"secret"`
	Fail  bool   `json:"fail"`
}

// Typed handlers mark their fields with a tag; bulk, chains, unique and debounced requests keep secrets, too.
func TestSecretsOfPlainJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	kind := jobs.Handle("typed", func(_ context.Context, _ *jobs.Work, in typedSecret) (any, error) {
		if in.Fail {
			panic("no such token: " + in.Token)
		}
		return len(in.Token), nil
	})
	r, err := jobs.NewRegistry(kind)
	w.must(err)
	w.registry = r.WithKeys(keyring(t, keyEntry(t, "k1")))
	w.dispatcher = jobs.NewDispatcher(w.store, w.registry)
	hush := aSecret()
	item := func(name, token string, options ...jobs.Option) jobs.Item {
		raw, err := json.Marshal(typedSecret{Name: name, Token: token, Fail: name == "fail"})
		w.must(err)
		return jobs.Item{Request: jobs.Request{Kind: "typed", Payload: raw}, Options: options}
	}
	one := func(name, token string, options ...jobs.Option) (jobs.Receipt, error) {
		return w.dispatcher.Dispatch(w.ctx, nil, item(name, token).Request, options...)
	}
	var all []storage.Job
	add := func(r jobs.Receipt, err error) { w.t.Helper(); w.must(err); all = append(all, r.Job) }
	add(one("a", hush, jobs.UniqueWhilePending("")))
	if r, err := one("a", hush, jobs.UniqueWhilePending("")); err != nil || !r.Reused {
		t.Errorf("the same once more: %+v, %v", r, err)
	}
	if _, err := one("a", aSecret(), jobs.UniqueWhilePending("")); !errors.Is(err, storage.ErrKeyReused) {
		t.Errorf("with another secret: %v", err)
	}
	add(one("b", hush, jobs.UniqueWhilePending("mine")))
	if r, err := one("b", aSecret(), jobs.UniqueWhilePending("mine")); err != nil || !r.Reused {
		t.Errorf("the key decides: %+v, %v", r, err)
	}
	add(one("c", hush, jobs.Debounce(time.Millisecond, time.Hour, "quiet")))
	if _, err := one("c", hush+"!", jobs.Debounce(time.Millisecond, time.Hour, "quiet")); err != nil {
		t.Error(err)
	}
	bulk, err := w.dispatcher.DispatchAll(w.ctx, nil, []jobs.Item{item("d", hush, jobs.IdempotencyKey("d")), item("e", hush)})
	w.must(err)
	if _, err := w.dispatcher.DispatchAll(w.ctx, nil, []jobs.Item{item("f", hush), item("d", aSecret(), jobs.IdempotencyKey("d"))}); !errors.Is(err, storage.ErrKeyReused) {
		t.Errorf("in bulk, with another secret: %v", err)
	}
	if again, err := w.dispatcher.DispatchAll(w.ctx, nil, []jobs.Item{item("d", hush, jobs.IdempotencyKey("d"))}); err != nil || !again[0].Reused {
		t.Errorf("in bulk, the same: %+v, %v", again, err)
	}
	chain, err := w.dispatcher.Chain(w.ctx, nil, []jobs.Item{item("g", hush), item("h", hush)})
	w.must(err)
	for _, r := range append(bulk, chain...) {
		all = append(all, r.Job)
	}
	failing, err := one("fail", hush, jobs.MaxAttempts(1))
	w.must(err)
	w.worker()
	for i, j := range all {
		got := w.ends(j, storage.JobDone)
		if want := fmt.Sprint(len(hush)); i != 2 && string(got.Result) != want || i == 2 && string(got.Result) != fmt.Sprint(len(hush)+1) {
			t.Errorf("job %d answered %s", i, got.Result)
		}
	}
	if got := w.ends(failing.Job, storage.JobFailed); !strings.Contains(deref(got.Error), "no such token: •••") {
		t.Errorf("error %q", deref(got.Error))
	}
	dump, err := exec.CommandContext(w.ctx, "pg_dump", "--data-only", "--inserts", w.url).CombinedOutput()
	w.must(err)
	if bytes.Contains(dump, []byte(hush)) || !bytes.Contains(dump, []byte("v1.k1.")) {
		t.Error("the secret is in the database")
	}
}

// What a batch will ask for later holds secrets, too, and rotates.
func TestSecretsOfCallsRotate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Shared(t))
	one, two := keyEntry(t, "k1"), keyEntry(t, "k2")
	w.vault(keyring(t, one, two))
	item := func(key string) jobs.Item {
		raw, err := json.Marshal(vaultPayload{Key: key, Token: aSecret()})
		w.must(err)
		return jobs.Item{Request: jobs.Request{Kind: "vault", Payload: raw}}
	}
	call := item("called")
	b, receipts, err := w.dispatcher.Batch(w.ctx, nil, jobs.BatchRequest{Jobs: []jobs.Item{item("first")}, Then: &call})
	w.must(err)
	uses, _, err := w.store.SealedUses(w.ctx, 10)
	w.must(err)
	if uses["k1"].Live != 2 {
		t.Errorf("the call is not counted: %+v", uses)
	}
	r, err := jobs.RotateKeys(w.ctx, w.store, keyring(t, two, one), false)
	w.must(err)
	if r.Jobs != 2 || r.Values != 2 || r.Left != 0 {
		t.Errorf("%+v", r)
	}
	if uses, _, err = w.store.SealedUses(w.ctx, 10); err != nil || uses["k1"].Live != 0 || uses["k2"].Live != 2 {
		t.Errorf("after the rotation: %+v, %v", uses, err)
	}
	w.vault(keyring(t, two)) // the old one is gone
	w.worker()
	w.ends(receipts[0].Job, storage.JobDone)
	var calls []storage.BatchCall
	w.until("it was called", func() bool {
		calls, err = w.store.BatchCalls(w.ctx, b.ID)
		return err == nil && len(calls) == 1 && calls[0].JobID != nil
	})
	w.ends(w.job(*calls[0].JobID), storage.JobDone)
}
