// Package secret seals values that must not be read by whoever reads the
// database: the marked fields of payloads, and texts such as the keys of
// webhooks. The keys come from the environment and can be changed while
// everything runs: the first of a [Keyring] seals, all of them open.
//
// A value is sealed with XChaCha20-Poly1305 (an extension of RFC 8439, see
// draft-irtf-cfrg-xchacha) under a random nonce of 192 bits. With AES-256-GCM a
// random nonce has 96 bits only, and NIST SP 800-38D ends the life of a key at
// 2^32 values, which many workers that seal without knowing of each other could
// neither count nor notice. With 192 bits the chance that any two of 2^80 values
// share a nonce is below 2^-32: a key wears out by its age, never by its use.
//
// Each value is bound to where it belongs. Opened anywhere else, or changed by a
// bit, it is refused. What stays visible: that a value is sealed, its length, the
// name of its key, and whether a field is there at all.
//
// The package knows no tables and no jobs, and imports nothing of Fenceline but
// its error for bad input.
package secret

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
)

// maxKeys bounds a keyring; with more a rotation was forgotten.
const maxKeys = 32

// version is what sealed texts begin with: it names cipher, nonce and binding.
const version = "v1"

// ErrNoKeys means that something must be sealed or opened and there is no key at all.
var ErrNoKeys = errors.New("there is no key to seal secrets with: set FENCELINE_KEYS (or FENCELINE_KEYS_FILE); `fenceline keys new` prints an entry")

// ErrForm means that a text is no sealed value of a form that this program knows.
var ErrForm = errors.New("it is not a sealed value that this program knows; it was cut, or a newer Fenceline wrote it")

// KeyError means that a sealed value could not be opened with the keys at hand.
// It holds names of keys, never keys.
type KeyError struct {
	Name  string // of the key that the value was sealed with
	Known bool   // there is a key of this name, and it does not open the value
}

// Error says which key is missing, or that the key of this name is another one.
func (e *KeyError) Error() string {
	if e.Known {
		return fmt.Sprintf("a secret does not open with key %q: that is another key than the one it was sealed with, or the value was changed or moved; compare FENCELINE_KEYS with the other machines", e.Name)
	}
	return fmt.Sprintf("a secret was sealed with key %q, which FENCELINE_KEYS does not have here: add it, or let `fenceline keys rotate` run where it is", e.Name)
}

type key struct {
	name string
	aead cipher.AEAD
}

// Keyring holds keys by their names. It is safe for concurrent use. A nil Keyring
// has no keys: it opens nothing, and [Keyring.Ready] says so.
type Keyring struct{ keys []key }

// Parse reads a keyring as FENCELINE_KEYS has it: NAME:KEY with commas or lines
// between the entries, where KEY is 32 bytes in base64. Lines that begin with #
// are comments. Without any entry the answer is nil. No error shows what a key
// looks like, not even a wrong one.
func Parse(text string) (*Keyring, error) {
	ring := &Keyring{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		for entry := range strings.SplitSeq(line, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			if err := ring.add(entry); err != nil {
				return nil, fmt.Errorf("entry %d: %w", len(ring.keys)+1, err)
			}
		}
	}
	if len(ring.keys) == 0 {
		return nil, nil
	}
	return ring, nil
}

func (k *Keyring) add(entry string) error {
	name, text, found := strings.Cut(entry, ":")
	if !found || !validName(name) { // what stands there instead may be a key: it is not shown
		return errors.New("must be NAME:KEY, with a name of 1 to 20 small letters, digits and hyphens")
	}
	raw, err := decodeKey(text)
	switch {
	case err != nil || len(raw) != chacha20poly1305.KeySize:
		return fmt.Errorf("the key %q must be %d bytes in base64; `fenceline keys new` prints one", name, chacha20poly1305.KeySize)
	case len(k.keys) == maxKeys:
		return fmt.Errorf("there are more than %d keys; rotate, and remove those that open nothing", maxKeys)
	case slices.ContainsFunc(k.keys, func(have key) bool { return have.name == name }):
		return fmt.Errorf("the key %q is there twice", name)
	}
	aead, err := chacha20poly1305.NewX(raw)
	if err != nil {
		return fmt.Errorf("key %q: %w", name, err)
	}
	k.keys = append(k.keys, key{name, aead})
	return nil
}

// decodeKey takes base64 as people paste it: of either alphabet, padded or not.
func decodeKey(text string) ([]byte, error) {
	text = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "="))
	return base64.RawURLEncoding.Strict().DecodeString(text)
}

var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,20}$`)

func validName(name string) bool { return namePattern.MatchString(name) }

// NewEntry makes a fresh key and answers it as an entry for FENCELINE_KEYS.
func NewEntry(name string) (string, error) {
	if !validName(name) {
		return "", fmt.Errorf("%q is not a name for a key: use 1 to 20 small letters, digits and hyphens", name)
	}
	raw := make([]byte, chacha20poly1305.KeySize)
	_, _ = rand.Read(raw) // ends the program rather than answer with less
	return name + ":" + base64.StdEncoding.EncodeToString(raw), nil
}

// Ready is nil when there is a key to seal with, and [ErrNoKeys] otherwise.
func (k *Keyring) Ready() error {
	if k == nil || len(k.keys) == 0 {
		return ErrNoKeys
	}
	return nil
}

// Names lists the names of the keys; the first one seals.
func (k *Keyring) Names() []string {
	if k == nil {
		return nil
	}
	names := make([]string, len(k.keys))
	for i, key := range k.keys {
		names[i] = key.name
	}
	return names
}

// First is the name of the key that seals; empty without keys.
func (k *Keyring) First() string {
	if k.Ready() != nil {
		return ""
	}
	return k.keys[0].name
}

// Seal seals a text with the first key and binds it to context, which says in
// full where the value belongs: the same context is needed to open it. Two
// contexts must never be the same text by chance, so build them from parts whose
// lengths are known (see [Context]). The answer is v1.NAME.BASE64URL, in ASCII. It
// panics without a key; ask [Keyring.Ready] before.
func (k *Keyring) Seal(context, plaintext string) string {
	if err := k.Ready(); err != nil {
		panic(err)
	}
	first := k.keys[0]
	nonce := make([]byte, first.aead.NonceSize(), first.aead.NonceSize()+len(plaintext)+first.aead.Overhead())
	_, _ = rand.Read(nonce) // ends the program rather than answer with less
	sealed := first.aead.Seal(nonce, nonce, []byte(plaintext), binding(first.name, context))
	return version + "." + first.name + "." + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open opens what [Keyring.Seal] made, with whichever key it names. The error is
// a [*KeyError] when that key is missing or refuses the value, and [ErrForm] when
// the text is no sealed value.
func (k *Keyring) Open(context, sealed string) ([]byte, error) {
	name, err := KeyOf(sealed)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, &KeyError{Name: name}
	}
	i := slices.IndexFunc(k.keys, func(have key) bool { return have.name == name })
	if i < 0 {
		return nil, &KeyError{Name: name}
	}
	aead := k.keys[i].aead
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed[len(version)+len(name)+2:])
	if err != nil || strings.ContainsAny(sealed, "\r\n") || len(raw) < aead.NonceSize()+aead.Overhead() {
		return nil, ErrForm
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], binding(name, context))
	if err != nil {
		return nil, &KeyError{Name: name, Known: true}
	}
	return plain, nil
}

// KeyOf is the name of the key that a sealed text says it was sealed with, or
// [ErrForm]. Nothing is opened.
func KeyOf(sealed string) (string, error) {
	v, rest, ok1 := strings.Cut(sealed, ".")
	name, _, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || v != version || !validName(name) {
		return "", ErrForm
	}
	return name, nil
}

// binding is what a value is authenticated with beside itself. The name of the
// key has no NUL, so that it ends where the context begins.
func binding(name, context string) []byte {
	return []byte("fenceline " + version + "\x00" + name + "\x00" + context)
}

// Format writes the names of the keys for every verb, so that a keyring that gets
// into a log by mistake shows no key.
func (k *Keyring) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "keys["+strings.Join(k.Names(), " ")+"]")
}
