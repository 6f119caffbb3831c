package storage_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func TestSigninLinkWorksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret, err := w.store.NewSigninLink(w.ctx, time.Minute)
	w.must(err)
	if ok, err := w.store.SigninLinkValid(w.ctx, secret); err != nil || !ok {
		t.Fatalf("a fresh link: %t, %v", ok, err)
	}
	var mu sync.Mutex
	var sessions []string
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			session, err := w.store.UseSigninLink(w.ctx, secret, "Ada", time.Hour)
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
	w.exec("UPDATE fenceline.users SET disabled_at = now()")
	forDisabled, err := w.store.NewSigninLink(w.ctx, time.Minute)
	w.must(err)
	if _, err := w.store.UseSigninLink(w.ctx, forDisabled, "Ada", time.Hour); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a disabled user: %v", err)
	}
	if ok, err := w.store.SigninLinkValid(w.ctx, forDisabled); err != nil || !ok {
		t.Errorf("the link was used up for nothing: %t, %v", ok, err)
	}
	expired, err := w.store.NewSigninLink(w.ctx, -time.Minute)
	w.must(err)
	if _, err := w.store.UseSigninLink(w.ctx, expired, "Ada", time.Hour); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an expired link: %v", err)
	}
}

func TestSecretsAreKeptHashed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link, err := w.store.NewSigninLink(w.ctx, time.Minute)
	w.must(err)
	token, secret, err := w.store.NewToken(w.ctx, "ci", "acme")
	w.must(err)
	session, err := w.store.UseSigninLink(w.ctx, link, "Ada", time.Hour)
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
	w.must(w.store.RevokeToken(w.ctx, token.ID))
	if _, err := w.store.TokenBySecret(w.ctx, secret); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a revoked token: %v", err)
	}
}
