package oidc

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// issuer is a provider that says whatever a test wants, true or not.
type issuer struct {
	*httptest.Server
	t    *testing.T
	key  *rsa.PrivateKey
	down atomic.Bool

	mu    sync.Mutex
	flows map[string]url.Values // by code: what the browser was sent with
	asked int                   // for a token
	// change makes the claims of the next ID tokens other ones.
	change func(map[string]any)
	// sign makes the next ID tokens.
	sign func(claims map[string]any) string
	info map[string]any // what the user info says
}

func encoded(v any) string {
	text, ok := v.([]byte)
	if !ok {
		text, _ = json.Marshal(v)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key, flows: map[string]url.Values{}}
	i.sign = func(claims map[string]any) string { return i.rs256(i.key, claims) }
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if i.down.Load() {
			answer(w, 502, "away")
			return
		}
		answer(w, 200, map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"userinfo_endpoint": i.URL + "/info", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "k", "use": "sig",
			"n": encoded(i.key.N.Bytes()), "e": encoded(big.NewInt(int64(i.key.E)).Bytes())}}})
	})
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, i.info) })
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.asked++
		flow, known := i.flows[r.FormValue("code")]
		delete(i.flows, r.FormValue("code"))
		proof := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if !known || encoded(proof[:]) != flow.Get("code_challenge") {
			answer(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		claims := map[string]any{"iss": i.URL, "aud": clientID, "sub": "s-1", "nonce": flow.Get("nonce"), "preferred_username": "nadia",
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "groups": []string{"staff"}, "org": "acme"}
		if i.change != nil {
			i.change(claims)
		}
		maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
		answer(w, 200, map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 60, "id_token": i.sign(claims)})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) rs256(key *rsa.PrivateKey, claims map[string]any) string {
	text := encoded(map[string]any{"alg": "RS256", "kid": "k"}) + "." + encoded(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		i.t.Error(err)
	}
	return text + "." + encoded(signature)
}

// hs256 signs with what everybody knows of the key.
func (i *issuer) hs256(claims map[string]any) string {
	der, err := x509.MarshalPKIXPublicKey(&i.key.PublicKey)
	if err != nil {
		i.t.Error(err)
	}
	text := encoded(map[string]any{"alg": "HS256", "kid": "k"}) + "." + encoded(claims)
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write([]byte(text))
	return text + "." + encoded(mac.Sum(nil))
}

const clientID = "fenceline"

func (i *issuer) config() Config {
	return Config{Issuer: i.URL, ClientID: clientID, ClientSecret: "not-a-secret-0123456789", Name: "Example",
		RoleClaim: "groups", Roles: map[string]storage.Role{"staff": storage.RoleViewer, "heads": storage.RoleOperator}, TenantClaim: "org"}
}

func (i *issuer) provider(change ...func(*Config)) *Provider {
	c := i.config()
	for _, f := range change {
		f(&c)
	}
	return New(c, "https://exports.example.com/signin/callback")
}

// begin goes to the issuer and comes back with a code.
func (i *issuer) begin(p *Provider) (cookie string, back url.Values) {
	i.t.Helper()
	address, cookie, err := p.Begin(i.t.Context())
	if err != nil {
		i.t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		i.t.Fatal(err)
	}
	sent := u.Query()
	i.mu.Lock()
	defer i.mu.Unlock()
	code := fmt.Sprint("code-", len(i.flows), "-", sent.Get("state"))
	i.flows[code] = sent
	return cookie, url.Values{"code": {code}, "state": {sent.Get("state")}}
}
