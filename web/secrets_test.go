package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// withSecrets gives a server a kind whose field token is secret.
func withSecrets(t *testing.T, log *syncBuffer) func(*Config) {
	t.Helper()
	kind := jobs.Kind{Name: "vault", Version: 1, Secret: []string{"token"}, Decode: func(in jobs.Payload) (jobs.Task, error) {
		var p struct{ Key, Token string }
		if err := json.Unmarshal(in.Body, &p); err != nil {
			return jobs.Task{}, err
		}
		if strings.HasPrefix(p.Token, "bad") {
			return jobs.Task{}, invalid.New("token", p.Token, "must not begin with bad: %s", p.Token)
		}
		return jobs.Task{Key: p.Key, Title: p.Key}, nil
	}}
	entry := must(secret.NewEntry("k1"))(t)
	keys := must(secret.Parse(entry))(t)
	registry := must(jobs.NewRegistry(kind))(t)
	return func(c *Config) {
		c.Dispatcher = jobs.NewDispatcher(c.Store, registry.WithKeys(keys))
		c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// No answer and no page holds a secret, sealed or not, and the copied command says where one was.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	log := &syncBuffer{}
	w := newWorld(t, withSecrets(t, log))
	who, all := w.person("ada", ""), w.token("")
	hush := "hush-" + uuid.NewString()
	body := fmt.Sprintf(`{"kind":"vault","payload":{"key":"a","token":%q}}`, hush)
	hidden := []string{hush, "v1.k1."}

	made := w.call("/api/v1/jobs", all, body, "Idempotency-Key", `"one"`).want(t, 202, `"$sealed":true`)
	made.without(t, hidden...)
	id := decode[struct{ ID, Export_ID string }](t, made) //nolint:revive,staticcheck // the name in JSON
	w.call("/api/v1/jobs", all, body, "Idempotency-Key", `"one"`).want(t, 202, `"reused":true`, `"$sealed":true`).without(t, hidden...)
	w.call("/api/v1/jobs", all, strings.Replace(body, hush, hush+"x", 1), "Idempotency-Key", `"one"`).want(t, 422, "idempotency-key-reused").without(t, hidden...)
	w.call("/api/v1/jobs", all, strings.Replace(body, hush, "bad"+hush, 1)).want(t, 422, `"token"`, "must not begin with bad").without(t, hidden...)
	w.call("/api/v1/jobs", all, `{"kind":"vault","payload":{"key":"a","token":{"$sealed":true}}}`).want(t, 422, "reserved name").without(t, hidden...)

	for _, path := range []string{"/api/v1/jobs/" + id.ID, "/api/v1/jobs", "/api/v1/exports", "/api/v1/exports/" + id.Export_ID} {
		w.get(path, all).want(t, 200).without(t, hidden...)
	}
	w.get("/jobs/"+id.ID, who).want(t, 200, "$sealed", "curl ").without(t, hidden...)
	for _, path := range []string{"/", "/exports/" + id.Export_ID} {
		w.get(path, who).want(t, 200).without(t, hidden...)
	}
	w.send("POST", "/api/v1/jobs/"+id.ID+"/cancel", all, nil).want(t, 200).without(t, hidden...)
	if text := log.String(); text == "" || strings.Contains(text, hush) {
		t.Errorf("the log: %s", text)
	}

	// What was stored is the sealed value, and it is in the page's reach.
	var stored string
	err := w.store.Transaction(context.WithoutCancel(w.ctx), func(tx storage.Tx) error {
		return tx.Raw("SELECT payload::text FROM fenceline.jobs WHERE id = ?", id.ID).Row().Scan(&stored)
	})
	if err != nil || !strings.Contains(stored, `"$sealed": "v1.k1.`) || strings.Contains(stored, hush) {
		t.Errorf("stored %s, %v", stored, err)
	}
}
