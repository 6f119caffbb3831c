package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

func refusedFor(t *testing.T, what string, err error, reason string) {
	t.Helper()
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, reason) {
		t.Errorf("%s: %v, want it refused for %q", what, err, reason)
	}
}

func TestSignin(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := i.provider(func(c *Config) { c.Scopes = []string{"groups"} })
	address, _, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := sent.Query()
	for name, want := range map[string]string{"response_type": "code", "client_id": clientID, "code_challenge_method": "S256", "scope": "openid profile groups",
		"redirect_uri": "https://exports.example.com/signin/callback"} {
		if q.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, q.Get(name), want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(q.Get(name)) != 43 {
			t.Errorf("%s is %q: not 256 random bits", name, q.Get(name))
		}
	}
	if strings.Contains(address, i.config().ClientSecret) {
		t.Error("the secret is in the address")
	}
	cookie, back := i.begin(p)
	// Another process with the same settings may finish it.
	in, err := i.provider().Finish(t.Context(), cookie, back)
	if err != nil {
		t.Fatal(err)
	}
	if in.Issuer != i.URL || in.Subject != "s-1" || in.Names[0] != "nadia" || in.Role != storage.RoleViewer || in.Tenant != "acme" || in.KeepRole || in.KeepTenant {
		t.Errorf("signed in %+v", in)
	}
}

// Each of these answers is one that somebody else could have made.
func TestCallbacksThatDoNotHold(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := i.provider()
	_, others := i.begin(p)
	foreign, _ := i.begin(i.provider(func(c *Config) { c.ClientSecret = "another-secret-0123456789" }))
	for name, c := range map[string]struct {
		change func(cookie *string, back url.Values)
		reason string
	}{
		"wrong state":       {func(_ *string, back url.Values) { back.Set("state", others.Get("state")) }, "state"},
		"no state":          {func(_ *string, back url.Values) { back.Del("state") }, "state"},
		"no cookie":         {func(cookie *string, _ url.Values) { *cookie = "" }, "no sign-in was begun"},
		"changed cookie":    {func(cookie *string, _ url.Values) { *cookie = "A" + (*cookie)[1:] + "AAAA" }, "no sign-in was begun"},
		"foreign cookie":    {func(cookie *string, _ url.Values) { *cookie = foreign }, "no sign-in was begun"},
		"another's code":    {func(_ *string, back url.Values) { back.Set("code", others.Get("code")) }, "does not take the code: 400 invalid_grant"}, // PKCE
		"no code":           {func(_ *string, back url.Values) { back.Del("code") }, "no code"},
		"another issuer":    {func(_ *string, back url.Values) { back.Set("iss", "https://evil.example.com") }, "another issuer"},
		"two states":        {func(_ *string, back url.Values) { back.Add("state", "x") }, "came twice"},
		"the provider's no": {func(_ *string, back url.Values) { back.Set("error", "access_denied") }, "access_denied"},
	} {
		cookie, back := i.begin(p)
		c.change(&cookie, back)
		_, err := p.Finish(t.Context(), cookie, back)
		refusedFor(t, name, err, c.reason)
	}
	late := i.provider()
	cookie, back := i.begin(late)
	late.now = func() time.Time { return time.Now().Add(Patience) }
	_, err := late.Finish(t.Context(), cookie, back)
	refusedFor(t, "too late", err, "longer than")
}

// The verifier never leaves the browser and us: without it the code is worth nothing.
func TestTheVerifierIsNeeded(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := i.provider()
	cookie, back := i.begin(p)
	b, ok := p.seal.open(cookie)
	if !ok || strings.Contains(cookie, b.Verifier) {
		t.Fatalf("the cookie is %s", cookie)
	}
	b.Verifier = ""
	without, err := p.seal.close(b)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Finish(t.Context(), without, back)
	refusedFor(t, "no verifier", err, "no sign-in was begun")
	b.Verifier = random()
	other, err := p.seal.close(b)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Finish(t.Context(), other, back)
	refusedFor(t, "another verifier", err, "does not take the code")
}

func TestReplay(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := i.provider()
	cookie, back := i.begin(p)
	if _, err := p.Finish(t.Context(), cookie, back); err != nil {
		t.Fatal(err)
	}
	_, err := p.Finish(t.Context(), cookie, back)
	refusedFor(t, "again", err, "used before")
	if i.asked != 1 {
		t.Errorf("the provider was asked %d times", i.asked)
	}
	_, err = i.provider().Finish(t.Context(), cookie, back) // a process that has not seen it
	refusedFor(t, "again elsewhere", err, "does not take the code")
}

func TestTokensThatDoNotHold(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := i.provider()
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	set := func(name string, v any) func(map[string]any) { return func(c map[string]any) { c[name] = v } }
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	signed := i.sign
	for name, c := range map[string]struct {
		change func(map[string]any)
		sign   func(map[string]any) string
		reason string
	}{
		"wrong nonce":        {set("nonce", "x"), nil, "nonce"},
		"no nonce":           {set("nonce", nil), nil, "nonce"},
		"wrong audience":     {set("aud", "other"), nil, "audience"},
		"wrong issuer":       {set("iss", "https://evil.example.com"), nil, "different provider"},
		"expired":            {set("exp", in(-2*time.Minute)), nil, "expired"},
		"without an end":     {set("exp", nil), nil, "expired"},
		"of the future":      {set("iat", in(2*time.Minute)), nil, "future"},
		"not yet":            {set("nbf", in(2*time.Minute)), nil, "future"},
		"for another client": {set("azp", "other"), nil, "another client"},
		"for two":            {set("aud", []string{clientID, "other"}), nil, "another client"},
		"of nobody":          {set("sub", ""), nil, "names nobody"},
		"too long":           {set("sub", strings.Repeat("x", 256)), nil, "names nobody"},
		"alg none": {nil, func(c map[string]any) string {
			return encoded(map[string]any{"alg": "none"}) + "." + encoded(c) + "."
		}, "does not hold"},
		"HS256 with the public key": {nil, i.hs256, "does not hold"},
		"another key":               {nil, func(c map[string]any) string { return i.rs256(stranger, c) }, "does not hold"},
		"changed": {nil, func(c map[string]any) string {
			head, rest, _ := strings.Cut(signed(c), ".")
			_, tail, _ := strings.Cut(rest, ".")
			c["sub"] = "s-2"
			return head + "." + encoded(c) + "." + tail
		}, "does not hold"},
		"none at all": {nil, func(map[string]any) string { return "" }, "no ID token"},
	} {
		i.change, i.sign = c.change, signed
		if c.sign != nil {
			i.sign = c.sign
		}
		cookie, back := i.begin(p)
		_, err := p.Finish(t.Context(), cookie, back)
		refusedFor(t, name, err, c.reason)
	}
	i.sign = signed
	for _, clock := range []func(map[string]any){set("exp", in(-30*time.Second)), set("iat", in(30*time.Second)), set("azp", clientID)} {
		i.change = clock
		cookie, back := i.begin(p)
		if _, err := p.Finish(t.Context(), cookie, back); err != nil {
			t.Errorf("half a minute is too much: %v", err)
		}
	}
}

func TestDeadProvider(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p, now := i.provider(), time.Now()
	p.now = func() time.Time { return now }
	i.down.Store(true)
	for range 2 {
		if _, _, err := p.Begin(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a dead provider gives %v", err)
		}
	}
	i.down.Store(false)
	if _, _, err := p.Begin(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("it is not left alone: %v", err)
	}
	now = now.Add(RetryAfter)
	cookie, back := i.begin(p)
	i.Close()
	if _, err := p.Finish(t.Context(), cookie, back); !errors.Is(err, ErrUnavailable) {
		t.Errorf("one that died meanwhile gives %v", err)
	}
}

func TestSpentIsBounded(t *testing.T) {
	t.Parallel()
	s, now := newSpent(), time.Now()
	for range 2*maxSpent + 1 {
		if !s.take(random(), now.Add(time.Minute), now) {
			t.Fatal("a new one counts as used")
		}
	}
	if len(s.until) > maxSpent {
		t.Errorf("%d are remembered", len(s.until))
	}
}
