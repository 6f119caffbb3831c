package storage_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func TestSigninLinkWorksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret, err := w.store.NewSigninLink(w.ctx, uuid.Nil, time.Minute)
	w.must(err)
	if _, err := w.store.LinkUser(w.ctx, secret); err != nil {
		t.Fatalf("a fresh link: %v", err)
	}
	var mu sync.Mutex
	var sessions []string
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			_, session, err := w.store.UseSigninLink(w.ctx, secret, "Ada", storage.Visitor{})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				sessions = append(sessions, session)
			} else if !errors.Is(err, storage.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(sessions) != 1 {
		t.Fatalf("one link made %d sessions", len(sessions))
	}
	user, err := w.store.SessionUser(w.ctx, sessions[0])
	w.must(err)
	if user.Name != "Ada" || user.Scope() != everything {
		t.Errorf("user %+v", user)
	}
	w.must(w.store.EndSession(w.ctx, sessions[0]))
	if _, err := w.store.SessionUser(w.ctx, sessions[0]); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a session that was ended: %v", err)
	}
	bob, err := w.store.AddUser(w.ctx, storage.NewUser{Name: "Bob", Role: storage.RoleViewer})
	w.must(err)
	forDisabled, err := w.store.NewSigninLink(w.ctx, bob.ID, time.Minute)
	w.must(err)
	if name, err := w.store.LinkUser(w.ctx, forDisabled); err != nil || name != "Bob" {
		t.Errorf("a link of Bob's is %q, %v", name, err)
	}
	w.change(bob, storage.UserChange{Disabled: new(true)})
	if _, _, err := w.store.UseSigninLink(w.ctx, forDisabled, "Ada", storage.Visitor{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a disabled user: %v", err)
	}
	w.change(bob, storage.UserChange{Disabled: new(false)})
	if u, _, err := w.store.UseSigninLink(w.ctx, forDisabled, "Ada", storage.Visitor{}); err != nil || u.Name != "Bob" || u.Role != storage.RoleViewer {
		t.Errorf("the link was used up for nothing: %+v, %v", u, err)
	}
	expired, err := w.store.NewSigninLink(w.ctx, uuid.Nil, -time.Minute)
	w.must(err)
	if _, _, err := w.store.UseSigninLink(w.ctx, expired, "Ada", storage.Visitor{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an expired link: %v", err)
	}
}

func TestSecretsAreKeptHashed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link, err := w.store.NewSigninLink(w.ctx, uuid.Nil, time.Minute)
	w.must(err)
	token, secret, err := w.store.NewToken(w.ctx, "ci", "acme")
	w.must(err)
	_, session, err := w.store.UseSigninLink(w.ctx, link, "Ada", storage.Visitor{})
	w.must(err)
	if !strings.HasPrefix(secret, "fl_") {
		t.Errorf("a token that nobody would recognise: %.3s", secret)
	}
	for _, table := range []string{"signin_links", "sessions", "api_tokens", "users"} {
		var all string
		w.must(w.query("SELECT coalesce(string_agg(x::text || encode(to_json(x)::text::bytea, 'escape'), ' '), '') FROM fenceline." + table + " x").Scan(&all))
		for _, s := range []string{link, secret, session} {
			if strings.Contains(all, s) {
				t.Errorf("%s holds a secret in the clear", table)
			}
		}
	}
	got, err := w.store.TokenBySecret(w.ctx, secret)
	w.must(err)
	if got.ID != token.ID || got.Scope() != (storage.Scope{Tenant: "acme"}) {
		t.Errorf("token %+v", got)
	}
	for _, wrong := range []string{"", "fl_", secret + "x", strings.ToUpper(secret)} {
		if _, err := w.store.TokenBySecret(w.ctx, wrong); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("secret %q: %v", wrong, err)
		}
	}
	w.must(w.store.RevokeToken(w.ctx, everything, token.ID))
	if _, err := w.store.TokenBySecret(w.ctx, secret); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a revoked token: %v", err)
	}
}
