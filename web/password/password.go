// Package password hashes passwords with argon2id (RFC 9106) and checks them.
//
// A hash is kept in the PHC string format, which names what it was made with, so that
// what is asked of new hashes may grow: [Hasher.Check] says when an old one is to be
// made again. Each takes 19 MiB and tens of milliseconds on purpose; a [Hasher] bounds
// how many are made at once, and how many wait.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

// ErrBusy means that too many wait to have a password hashed.
var ErrBusy = errors.New("too many passwords are being checked")

// Bounds of a password. Shorter ones are guessed; NIST and OWASP ask for nothing else,
// such as digits, because that makes people choose what is easier to guess. Longer ones
// would let a stranger make the server read and hash as much as it takes.
const (
	MinChars = 12
	MaxBytes = 1024
)

// Check answers what is wrong with a new password of somebody, as a phrase that goes on
// after “the password”, or empty.
func Check(text, name string) string {
	text = normal(text)
	switch {
	case !utf8.ValidString(text):
		return "must be text"
	case utf8.RuneCountInString(text) < MinChars:
		return fmt.Sprintf("must have at least %d characters; several words are easy to remember", MinChars)
	case len(text) > MaxBytes:
		return fmt.Sprintf("must have at most %d bytes", MaxBytes)
	case name != "" && strings.EqualFold(text, name):
		return "must not be the name"
	case strings.Trim(text, text[:1]) == "":
		return "must not repeat one character"
	}
	return ""
}

// normal is the one of several spellings in Unicode that all keyboards agree on:
// macOS composes an ö from two characters, others have one.
func normal(text string) string { return norm.NFC.String(text) }

// params are what a hash is made with: what OWASP asks for at least.
type params struct {
	memory  uint32 // in KiB
	times   uint32
	threads uint8
}

// Bounds of what is accepted from the database: a row that somebody has damaged must not stop the server.
const (
	maxMemory  = 256 << 10
	maxTimes   = 16
	maxThreads = 8
	saltBytes  = 16
	hashBytes  = 32
)

// Hasher makes and checks hashes. It is safe for concurrent use.
type Hasher struct {
	params  params
	slots   chan struct{} // hashes that are made right now
	waiting chan struct{} // and those who wait besides
	decoy   string        // of no password
}

// New makes a hasher that works on at most so many hashes at once, 19 MiB each.
func New(parallel int) *Hasher { return newHasher(params{19 << 10, 2, 1}, parallel, 16*parallel) }

func newHasher(p params, parallel, waiting int) *Hasher {
	h := &Hasher{params: p, slots: make(chan struct{}, parallel), waiting: make(chan struct{}, parallel+waiting)}
	salt, hash := make([]byte, saltBytes), make([]byte, hashBytes)
	_, _ = rand.Read(salt) // never fails
	_, _ = rand.Read(hash) // so nothing hashes to it, but by a chance of 2^-256
	h.decoy = encode(p, salt, hash)
	return h
}

// Hash makes a hash. [ErrBusy] when too many wait; otherwise it fails only when ctx ends.
func (h *Hasher) Hash(ctx context.Context, text string) (string, error) {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	hash, err := h.derive(ctx, h.params, text, salt, hashBytes)
	if err != nil {
		return "", err
	}
	return encode(h.params, salt, hash), nil
}

// Verify reports whether a hash is that of a password, and whether it should be made
// again because it was made with less than is asked for now. For an empty hash, of
// somebody who has none, it takes as long and is false.
func (h *Hasher) Verify(ctx context.Context, phc, text string) (ok, stale bool, err error) {
	known := phc != ""
	if !known {
		phc = h.decoy
	}
	p, salt, want, err := decode(phc)
	if err != nil {
		return false, false, err
	}
	if len(text) > MaxBytes { // it cannot be one
		text, known = "", false
	}
	got, err := h.derive(ctx, p, text, salt, uint32(len(want))) //nolint:gosec // decode bounds it
	if err != nil {
		return false, false, err
	}
	ok = subtle.ConstantTimeCompare(got, want) == 1 && known
	return ok, p != h.params || len(salt) != saltBytes || len(want) != hashBytes, nil
}

func (h *Hasher) derive(ctx context.Context, p params, text string, salt []byte, size uint32) ([]byte, error) {
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		return nil, ErrBusy
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return argon2.IDKey([]byte(normal(text)), salt, p.times, p.memory, p.threads, size), nil
}

func encode(p params, salt, hash []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.memory, p.times, p.threads, b64(salt), b64(hash))
}

var errHash = errors.New("the hash of a password cannot be read")

// decode reads a hash, within bounds.
func decode(phc string) (p params, salt, hash []byte, err error) {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, nil, nil, errHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.times, &p.threads); err != nil {
		return p, nil, nil, errHash
	}
	if p.memory < 8*uint32(p.threads) || p.memory > maxMemory || p.times < 1 || p.times > maxTimes || p.threads < 1 || p.threads > maxThreads {
		return p, nil, nil, errHash
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	hash, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(salt) < 8 || len(salt) > 64 || len(hash) < 16 || len(hash) > 64 {
		return p, nil, nil, errHash
	}
	return p, salt, hash, nil
}

// Generate makes a password for somebody: 100 random bits in five groups, in letters
// and digits that are not taken for each other.
func Generate() string {
	const letters = "abcdefghijkmnpqrstuvwxyz23456789" // 32: five bits each
	raw := make([]byte, 20)
	_, _ = rand.Read(raw) // never fails
	var b strings.Builder
	for i, x := range raw {
		if i > 0 && i%4 == 0 {
			b.WriteByte('-')
		}
		b.WriteByte(letters[x%32])
	}
	return b.String()
}
