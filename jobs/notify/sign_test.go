package notify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The example of the specification; its signature was also made with openssl.
const (
	exampleSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleBody      = `{"test": 2432232314}`
	exampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var exampleTime = time.Unix(1614265330, 0)

func TestSignAsInTheSpecification(t *testing.T) {
	t.Parallel()
	got, err := Sign(exampleSecret, exampleID, exampleTime, []byte(exampleBody))
	if err != nil || got != exampleSignature {
		t.Errorf("signed %q, want %q: %v", got, exampleSignature, err)
	}
}

// openssl makes the same of a secret of ours and of text beyond ASCII.
func TestSignAsOpenSSL(t *testing.T) {
	t.Parallel()
	secret, id, at, body := NewSecret(), "0190f1d2", time.Unix(1767225600, 999), `{"title":"Bestellungen „März“ ৳"}`
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) != 32 {
		t.Fatalf("the secret has %d bytes: %v", len(key), err)
	}
	cmd := exec.CommandContext(t.Context(), "openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", fmt.Sprintf("hexkey:%x", key), "-binary")
	cmd.Stdin = strings.NewReader(id + ".1767225600." + body)
	sum, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Sign(secret, id, at, []byte(body))
	if want := "v1," + base64.StdEncoding.EncodeToString(sum); err != nil || got != want {
		t.Errorf("signed %q, openssl %q: %v", got, want, err)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	other := NewSecret()
	header := func(signature string) http.Header {
		h := http.Header{}
		h.Set("Webhook-Id", exampleID)
		h.Set("Webhook-Timestamp", "1614265330")
		h.Set("Webhook-Signature", signature)
		return h
	}
	both, err := signAll([]string{other, exampleSecret}, exampleID, exampleTime, []byte(exampleBody))
	if err != nil || strings.Count(both, " ") != 1 {
		t.Fatalf("signed with two secrets: %q, %v", both, err)
	}
	for _, c := range []struct {
		what, secret string
		h            http.Header
		body         string
		now          time.Time
		ok           bool
	}{
		{"right", exampleSecret, header(exampleSignature), exampleBody, exampleTime, true},
		{"one of two, the first", other, header(both), exampleBody, exampleTime.Add(4 * time.Minute), true},
		{"one of two, the second", exampleSecret, header(both), exampleBody, exampleTime.Add(-4 * time.Minute), true},
		{"another secret", NewSecret(), header(both), exampleBody, exampleTime, false},
		{"another body", exampleSecret, header(both), exampleBody + " ", exampleTime, false},
		{"old", exampleSecret, header(both), exampleBody, exampleTime.Add(6 * time.Minute), false},
		{"from the future", exampleSecret, header(both), exampleBody, exampleTime.Add(-6 * time.Minute), false},
		{"no signature", exampleSecret, header(""), exampleBody, exampleTime, false},
		{"nothing", exampleSecret, http.Header{}, exampleBody, exampleTime, false},
	} {
		if err := Verify(c.secret, c.h, []byte(c.body), c.now); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestSecretsHaveTheirLength(t *testing.T) {
	t.Parallel()
	of := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for secret, ok := range map[string]bool{of(24): true, of(64): true, of(23): false, of(65): false, of(32)[6:]: false, "whsec_%%%": false, "": false} {
		_, err := Sign(secret, "a", exampleTime, nil)
		if (err == nil) != ok {
			t.Errorf("%q: %v", secret, err)
		}
		if err != nil && len(secret) > 10 && strings.Contains(err.Error(), secret[6:]) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
	if _, err := signAll(nil, "a", exampleTime, nil); err == nil {
		t.Error("signed without a secret")
	}
}
