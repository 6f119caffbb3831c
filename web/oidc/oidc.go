// Package oidc signs people in by an OpenID provider: the authorization code flow with
// PKCE (RFC 7636), state and nonce.
//
// What a sign-in that has begun must remember is in a sealed cookie of the browser that
// began it, so that any process may finish it and nothing grows with those who never do.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/fenceline/fenceline/storage"
)

// Config is a provider and what its claims mean; [Parse] makes it.
type Config struct {
	Issuer, ClientID, ClientSecret string
	Name                           string // of the provider, for people
	Scopes                         []string
	RoleClaim                      string // empty: everybody gets DefaultRole at first, and keeps what was given since
	Roles                          map[string]storage.Role
	DefaultRole                    storage.Role // empty: refused
	TenantClaim                    string       // empty: all tenants at first
}

const (
	// Patience is how long somebody may take to sign in at the provider.
	Patience = 10 * time.Minute
	// RetryAfter is how long a provider that does not answer is left alone.
	RetryAfter = 5 * time.Second
	// skew is how far the provider's clock may be from ours.
	skew = time.Minute
	// requestTime bounds each request to the provider.
	requestTime = 10 * time.Second
	maxAnswer   = 1 << 20 // bytes
	maxParam    = 4 << 10 // of the callback, bytes
)

// ErrUnavailable means that the provider does not answer, or not as a provider would.
var ErrUnavailable = errors.New("the OpenID provider does not answer")

// Refused is a sign-in that is not to be trusted, or a person who is not let in.
type Refused struct {
	// Reason is for the log and the audit log, without secrets.
	Reason string
	// Known is who it is, when the provider has vouched for it and only its claims do not suffice.
	Known storage.Identity
}

// Error is the reason.
func (r *Refused) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refused{Reason: fmt.Sprintf(format, args...)} }

// Provider signs people in. It is safe for concurrent use; nothing is asked of the provider
// before the first sign-in.
type Provider struct {
	conf     Config
	redirect string
	client   *http.Client
	now      func() time.Time
	seal     sealer
	spent    *spent

	turn  chan struct{} // held by who discovers
	known *endpoints    // nil until it was discovered
	again time.Time     // when it may be tried again
}

// endpoints is what discovery says.
type endpoints struct {
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
	oauth    oauth2.Config
}

// New prepares a provider that sends people back to an address, such as
// https://exports.example.com/signin/callback.
func New(c Config, redirect string) *Provider {
	return &Provider{conf: c, redirect: redirect, now: time.Now, seal: newSealer(c), spent: newSpent(), turn: make(chan struct{}, 1),
		client: &http.Client{Timeout: requestTime, Transport: bounded{http.DefaultTransport}}}
}

// Name is what people call the provider.
func (p *Provider) Name() string { return p.conf.Name }

// bounded cuts off answers that no provider would give.
type bounded struct{ http.RoundTripper }

// RoundTrip bounds the body of the answer.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// discover asks the provider once for what it is; after a failure not before [RetryAfter].
func (p *Provider) discover(ctx context.Context) (*endpoints, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.turn }()
	if p.known != nil {
		return p.known, nil
	}
	if p.now().Before(p.again) {
		return nil, ErrUnavailable
	}
	found, err := oidc.NewProvider(p.with(ctx), p.conf.Issuer)
	if err != nil {
		if ctx.Err() == nil { // it was not that nobody waits any more
			p.again = p.now().Add(RetryAfter)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	p.known = &endpoints{
		provider: found,
		verifier: found.Verifier(&oidc.Config{ClientID: p.conf.ClientID, SkipExpiryCheck: true, // see checkTimes
			SupportedSigningAlgs: []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}}),
		oauth: oauth2.Config{ClientID: p.conf.ClientID, ClientSecret: p.conf.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: p.redirect,
			Scopes: append([]string{oidc.ScopeOpenID, "profile"}, p.conf.Scopes...)},
	}
	return p.known, nil
}

func (p *Provider) with(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

// Begin answers where to send a browser, and the cookie that it must come back with.
func (p *Provider) Begin(ctx context.Context) (address, cookie string, err error) {
	at, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	b := begun{State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), Until: p.now().Add(Patience)}
	if cookie, err = p.seal.close(b); err != nil {
		return "", "", err
	}
	return at.oauth.AuthCodeURL(b.State, oidc.Nonce(b.Nonce), oauth2.S256ChallengeOption(b.Verifier)), cookie, nil
}

func random() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

// same compares in a time that does not tell where the texts differ.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// Finish checks what a browser came back with, and answers who signs in. The error is a
// [*Refused], [ErrUnavailable], or the context's.
func (p *Provider) Finish(ctx context.Context, cookie string, query url.Values) (storage.ProviderSignin, error) {
	var nobody storage.ProviderSignin
	code, b, err := p.check(cookie, query)
	if err != nil {
		return nobody, err
	}
	at, err := p.discover(ctx)
	if err != nil {
		return nobody, err
	}
	ctx = p.with(ctx)
	token, err := at.oauth.Exchange(ctx, code, oauth2.VerifierOption(b.Verifier))
	if err != nil {
		return nobody, failedExchange(err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return nobody, refuse("the provider sent no ID token")
	}
	id, err := at.verifier.Verify(ctx, raw)
	if err != nil {
		if strings.Contains(err.Error(), "fetching keys ") { // the library does not wrap it
			return nobody, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return nobody, refuse("the ID token does not hold: %v", err)
	}
	claims, err := p.checkToken(id, token, b.Nonce)
	if err != nil {
		return nobody, err
	}
	if err := p.complete(ctx, at, token, id.Subject, claims); err != nil {
		return nobody, err
	}
	return p.person(storage.Identity{Issuer: p.conf.Issuer, Subject: id.Subject}, claims)
}

// check answers the code, when the browser is the one that began, lately, and for the first time.
func (p *Provider) check(cookie string, query url.Values) (code string, b begun, err error) {
	for _, values := range query {
		if len(values) > 1 || len(values[0]) > maxParam {
			return "", b, refuse("a parameter came twice or is too long")
		}
	}
	b, ok := p.seal.open(cookie)
	switch {
	case !ok:
		return "", b, refuse("no sign-in was begun in this browser")
	case !p.now().Before(b.Until):
		return "", b, refuse("the sign-in took longer than %s", Patience)
	case !same(query.Get("state"), b.State):
		return "", b, refuse("the state is not the one that was sent")
	case query.Has("iss") && query.Get("iss") != p.conf.Issuer: // RFC 9207
		return "", b, refuse("the answer is of another issuer")
	case !p.spent.take(b.State, b.Until, p.now()):
		return "", b, refuse("the answer was used before")
	case query.Has("error"):
		return "", b, refuse("the provider says %.100q", query.Get("error"))
	case query.Get("code") == "":
		return "", b, refuse("the answer has no code")
	}
	return query.Get("code"), b, nil
}

func failedExchange(err error) error {
	var answer *oauth2.RetrieveError
	if errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode < 500 {
		return refuse("the provider does not take the code: %d %.100s", answer.Response.StatusCode, answer.ErrorCode)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
