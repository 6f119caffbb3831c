package oidc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// begun is a sign-in that has not come back yet.
type begun struct {
	State, Nonce, Verifier string
	Until                  time.Time
}

// sealer keeps a cookie from being read and changed. All processes with the same settings
// have the same key, which is worth nothing elsewhere.
type sealer struct{ secret, about string }

func newSealer(c Config) sealer {
	return sealer{c.ClientSecret, "fenceline sign-in\x00" + c.Issuer + "\x00" + c.ClientID}
}

func (s sealer) aead() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(s.secret), nil, s.about, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of the sign-in cookie: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("derive the key of the sign-in cookie: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (s sealer) close(b begun) (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("encode the sign-in cookie: %w", err)
	}
	aead, err := s.aead()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, text, nil)), nil
}

func (s sealer) open(cookie string) (b begun, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return b, false
	}
	aead, err := s.aead()
	if err != nil {
		return b, false
	}
	text, err := aead.Open(nil, nil, raw, nil)
	if err != nil || json.Unmarshal(text, &b) != nil {
		return begun{}, false
	}
	return b, b.State != "" && b.Nonce != "" && b.Verifier != ""
}

// maxSpent bounds how many sign-ins that came back are remembered.
const maxSpent = 8192

// spent remembers which sign-ins came back, until they are too old anyway. The provider
// takes a code once only; this refuses before it is asked.
type spent struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func newSpent() *spent { return &spent{until: map[string]time.Time{}} }

// take reports whether a sign-in comes back for the first time.
func (s *spent) take(state string, until, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, used := s.until[state]; used {
		return false
	}
	if len(s.until) >= maxSpent {
		for old, end := range s.until {
			if !now.Before(end) {
				delete(s.until, old)
			}
		}
		if len(s.until) >= maxSpent {
			clear(s.until)
		}
	}
	s.until[state] = until
	return true
}
