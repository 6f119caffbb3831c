package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// vaultJob dispatches a job with a secret field, with the keys of the site.
func (s *site) vaultJob(key, token string) storage.Job {
	s.t.Helper()
	kind := jobs.Kind{Name: "vault", Version: 1, Secret: []string{"token"}, Decode: func(jobs.Payload) (jobs.Task, error) {
		return jobs.Task{Key: key, Title: key}, nil
	}}
	store, err := storage.Open(s.t.Context(), s.env["DATABASE_URL"], storage.Options{MaxConns: 1})
	s.must(err)
	defer store.Close()
	registry, err := jobs.NewRegistry(kind)
	s.must(err)
	keys, err := secret.Parse(s.env["FENCELINE_KEYS"])
	s.must(err)
	raw, err := json.Marshal(map[string]string{"token": token})
	s.must(err)
	r, err := jobs.NewDispatcher(store, registry.WithKeys(keys)).Dispatch(s.t.Context(), nil, jobs.Request{Kind: "vault", Payload: raw})
	s.must(err)
	return r.Job
}

type keysAnswer struct {
	Keys []keyStatus `json:"keys"`
}

// The four steps of changing keys, as the help says them.
func TestKeysAreChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	one := strings.TrimSpace(s.ok("keys", "new", "k1"))
	s.env["FENCELINE_KEYS"] = one
	hush := "hush-" + uuid.NewString()
	job := s.vaultJob("a", hush)
	two := asJSON[map[string]string](s, "keys", "new", "k2")["entry"]
	s.env["FENCELINE_KEYS"] = two + "," + one
	if got := asJSON[keysAnswer](s, "keys", "status"); len(got.Keys) != 2 || got.Keys[0].Name != "k2" || !got.Keys[0].Seals || got.Keys[1].Live != 1 || !strings.Contains(got.Keys[1].Advice, "keys rotate") {
		t.Errorf("before: %+v", got)
	}
	s.env["FENCELINE_KEYS"] = "" // a webhook of a machine without keys
	s.ok("notify", "add", "webhook", "shop", "https://example.com/")
	s.env["FENCELINE_KEYS"] = two + "," + one
	if out := s.ok("keys", "status"); !strings.Contains(out, "1 secret of webhooks is not sealed") {
		t.Error(out)
	}
	if out := s.ok("keys", "rotate"); !strings.Contains(out, "sealed 1 value of 1 job again with key k2; 0 jobs are left") || !strings.Contains(out, "sealed 1 secret of webhooks") {
		t.Error(out)
	}
	if got := asJSON[jobs.Rotation](s, "keys", "rotate"); got.Jobs != 0 || got.Left != 0 {
		t.Errorf("again: %+v", got)
	}
	log := asJSON[storage.Page[storage.AuditEntry]](s, "audit", "--action", "keys.rotated")
	if len(log.Items) != 2 || log.Items[1].ObjectID != "k2" || !strings.Contains(string(log.Items[1].Details), `"webhooks": 1`) && !strings.Contains(string(log.Items[1].Details), `"webhooks":1`) {
		t.Errorf("the audit log tells of %+v", log.Items)
	}
	if out := s.ok("keys", "status"); !strings.Contains(out, "can be removed") || !strings.Contains(out, "seals new values") || strings.Contains(out, "not sealed") {
		t.Error(out)
	}
	if got := asJSON[keysAnswer](s, "keys", "status"); got.Keys[0].Live != 1 || got.Keys[0].Webhooks != 1 {
		t.Errorf("after: %+v", got)
	}
	s.env["FENCELINE_KEYS"] = one
	for _, args := range [][]string{{"keys", "status"}, {"keys", "rotate"}, {"keys", "status", "--all", "--json"}} {
		if r := s.run(args...); r.code != exitPartly || !strings.Contains(r.out+r.err, "k2") {
			t.Errorf("%v without the key: exit %d, %s%s", args, r.code, r.out, r.err)
		}
	}
	s.env["FENCELINE_KEYS"] = ""
	s.env["FENCELINE_KEYS_FILE"] = filepath.Join(s.dir, "keys")
	s.must(os.WriteFile(s.env["FENCELINE_KEYS_FILE"], []byte("# now\n"+two+"\n"), 0o600))
	s.ok("keys", "status")

	// Nothing that the command line prints holds the value, sealed or not.
	s.env["LOG_LEVEL"] = "debug"
	for _, args := range [][]string{
		{"job", "list"}, {"job", "show", job.ID.String()}, {"export", "list"}, {"export", "show", job.ExportID.String()}, {"keys", "status"}, {"keys", "rotate"},
		{"config"}, {"verify"}, {"job", "retry", "--all"}, {"job", "cancel", job.ID.String()}, {"__complete", "job", "show", ""},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			r := s.run(append(args, more...)...)
			if text := r.out + r.err; strings.Contains(text, hush) || strings.Contains(text, "v1.k") || strings.Contains(text, two[4:20]) {
				t.Errorf("%v: %s", args, text)
			}
		}
	}
	if out := s.ok("job", "show", job.ID.String(), "--json"); !strings.Contains(out, `"$sealed": true`) {
		t.Error(out)
	}
}

func TestKeysAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	good := strings.TrimSpace(s.ok("keys", "new"))
	name, key, _ := strings.Cut(good, ":")
	if len(name) != 9 || len(key) != 44 {
		t.Errorf("a new key is %q", good)
	}
	for _, c := range []struct {
		keys, file string
		code       int
		says       string
		args       []string
	}{
		{"", "", exitUsage, "set FENCELINE_KEYS", []string{"keys", "rotate"}},
		{"k1:" + key[:20], "", exitUsage, "FENCELINE_KEYS: entry 1", []string{"keys", "status"}},
		{key, "", exitUsage, "NAME:KEY", []string{"dispatch", "report", "stock"}},
		{good, "/none", exitUsage, "together", []string{"keys", "status"}},
		{"", "/none/keys", exitFailed, "FENCELINE_KEYS_FILE", []string{"keys", "status"}},
		{"", os.DevNull, exitUsage, "holds no key", []string{"keys", "status"}},
		{"", "", exitUsage, "is not a name for a key", []string{"keys", "new", "K 1"}},
	} {
		s.env["FENCELINE_KEYS"], s.env["FENCELINE_KEYS_FILE"] = c.keys, c.file
		if r := s.run(c.args...); r.code != c.code || !strings.Contains(r.err, c.says) || strings.Contains(r.err, key[4:16]) {
			t.Errorf("%v with %q: exit %d, %s", c.args, c.keys, r.code, r.err)
		}
	}
	var out bytes.Buffer
	if code := run(context.Background(), []string{"keys", "new", "a", "b"}, func(string) string { return "" }, &out, &out, extras{}); code != exitUsage || !strings.Contains(out.String(), "`fenceline keys new` takes [NAME]") {
		t.Errorf("two names: exit %d, %s", code, out.String())
	}
}
