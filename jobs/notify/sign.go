package notify

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// secretPrefix marks the secrets of webhooks; what follows is base64.
const secretPrefix = "whsec_"

// The length that Standard Webhooks asks of a secret, in bytes.
const (
	leastSecret = 24
	mostSecret  = 64
)

// ErrSignature means that a webhook was not signed with the secret, or too long ago.
var ErrSignature = errors.New("the signature of the webhook does not hold")

// NewSecret makes a secret of 256 random bits to sign webhooks with.
func NewSecret() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the program instead
	return secretPrefix + base64.StdEncoding.EncodeToString(raw)
}

// keyOf is the key in a secret. Its errors do not repeat it.
func keyOf(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < leastSecret || len(key) > mostSecret {
		return nil, fmt.Errorf("the secret of a webhook must be %s and the base64 of %d to %d bytes", secretPrefix, leastSecret, mostSecret)
	}
	return key, nil
}

// Sign is the value of the header webhook-signature for one secret: HMAC-SHA256
// over id, time and body.
func Sign(secret, id string, at time.Time, body []byte) (string, error) {
	key, err := keyOf(secret)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// signAll is the header for all secrets that are valid, with spaces between.
func signAll(secrets []string, id string, at time.Time, body []byte) (string, error) {
	if len(secrets) == 0 {
		return "", errors.New("the webhook has no secret")
	}
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		var err error
		if signatures[i], err = Sign(secret, id, at, body); err != nil {
			return "", err
		}
	}
	return strings.Join(signatures, " "), nil
}

// tolerance is how far the clock of a sender may be from that of a receiver.
const tolerance = 5 * time.Minute

// Verify is for receivers in Go: it reports by [ErrSignature] a request that was
// not signed with the secret, was signed more than five minutes from now, or
// whose body (as it was received, unparsed) is another. A receiver also drops ids that it has seen.
func Verify(secret string, h http.Header, body []byte, now time.Time) error {
	seconds, err := strconv.ParseInt(h.Get(HeaderTimestamp), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s is no time", ErrSignature, HeaderTimestamp)
	}
	at := time.Unix(seconds, 0)
	if now.Sub(at).Abs() > tolerance {
		return fmt.Errorf("%w: it was made more than %s from now", ErrSignature, tolerance)
	}
	want, err := Sign(secret, h.Get(HeaderID), at, body)
	if err != nil {
		return err
	}
	for signature := range strings.FieldsSeq(h.Get(HeaderSignature)) {
		if hmac.Equal([]byte(signature), []byte(want)) {
			return nil
		}
	}
	return ErrSignature
}
