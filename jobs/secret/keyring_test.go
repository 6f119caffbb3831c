package secret_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/secret"
)

func entry(t *testing.T, name string) string {
	t.Helper()
	e, err := secret.NewEntry(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ring(t *testing.T, entries ...string) *secret.Keyring {
	t.Helper()
	k, err := secret.Parse(strings.Join(entries, ","))
	if err != nil || k == nil {
		t.Fatal(k, err)
	}
	return k
}

func TestTheFirstKeySealsAndAllOpen(t *testing.T) {
	t.Parallel()
	one, two := entry(t, "k1"), entry(t, "k2")
	old, both := ring(t, one), ring(t, two, one)
	sealed := old.Seal("a webhook", "whsec_1")
	if got, err := both.Open("a webhook", sealed); err != nil || string(got) != "whsec_1" {
		t.Errorf("opened %q, %v", got, err)
	}
	fresh := both.Seal("a webhook", "whsec_1")
	if name, err := secret.KeyOf(fresh); name != "k2" || err != nil {
		t.Errorf("sealed with %q, %v", name, err)
	}
	var missing *secret.KeyError
	if _, err := old.Open("a webhook", fresh); !errors.As(err, &missing) || missing.Name != "k2" || missing.Known {
		t.Errorf("without the key: %v", err)
	}
	other := ring(t, entry(t, "k2"))
	if _, err := other.Open("a webhook", fresh); !errors.As(err, &missing) || !missing.Known {
		t.Errorf("with another key of the same name: %v", err)
	}
	if _, err := both.Open("another webhook", fresh); !errors.As(err, &missing) || !missing.Known {
		t.Errorf("in another place: %v", err)
	}
	if both.Seal("a", "b") == both.Seal("a", "b") {
		t.Error("the same value is sealed the same way twice: it can be recognised")
	}
	if got, err := both.Open("empty", both.Seal("empty", "")); err != nil || len(got) != 0 {
		t.Errorf("an empty text: %q, %v", got, err)
	}
}

// Whatever character of a sealed value changes, and wherever it is cut, it does not open.
func TestASealedValueIsNotChanged(t *testing.T) {
	t.Parallel()
	k := ring(t, entry(t, "k1"), entry(t, "k2"))
	sealed := k.Seal("here", "hunter2")
	for i := range len(sealed) {
		for _, c := range []byte("Aa0-_.v12=\n") {
			if c == sealed[i] {
				continue
			}
			changed := sealed[:i] + string(c) + sealed[i+1:]
			if got, err := k.Open("here", changed); err == nil {
				t.Fatalf("character %d as %q: opened as %q", i, c, got)
			}
		}
		if _, err := k.Open("here", sealed[:i]+"\n"+sealed[i:]); err == nil {
			t.Fatalf("with a line break at %d: opened", i)
		}
		if _, err := k.Open("here", sealed[:i]); err == nil {
			t.Fatalf("cut at %d: opened", i)
		}
		if _, err := k.Open("here", sealed+sealed[i:i+1]); err == nil {
			t.Fatalf("with a character more: opened")
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(sealed, ".")[2])
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(raw) {
		raw[bit/8] ^= 1 << (bit % 8)
		if _, err := k.Open("here", "v1.k1."+base64.RawURLEncoding.EncodeToString(raw)); err == nil {
			t.Fatalf("bit %d: opened", bit)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for _, text := range []string{"", "v1", "v1.k1", "v1.k1.", "v2" + sealed[2:], "v1.K1." + strings.Split(sealed, ".")[2], "hunter2"} {
		if _, err := k.Open("here", text); !errors.Is(err, secret.ErrForm) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAKeyringIsRefused(t *testing.T) {
	t.Parallel()
	good := entry(t, "k1")
	_, key, _ := strings.Cut(good, ":")
	for name, text := range map[string]string{
		"no name": key, "empty name": ":" + key, "capitals": "K1:" + key, "long name": strings.Repeat("k", 21) + ":" + key,
		"short": "k1:" + key[:40], "long": "k1:AAAA" + key, "not base64": "k1:!!" + key[2:], "twice": good + "," + good,
		"a good one and a bad one": good + "\nk2:" + key[:20], "key and name changed over": key + ":k1",
	} {
		k, err := secret.Parse(text)
		if err == nil || k != nil {
			t.Errorf("%s was accepted", name)
			continue
		}
		if strings.Contains(err.Error(), key[4:12]) {
			t.Errorf("%s: the error shows the key: %s", name, err)
		}
	}
	for _, text := range []string{"", " ,\n,", "# nothing\n"} {
		if k, err := secret.Parse(text); k != nil || err != nil || !errors.Is(k.Ready(), secret.ErrNoKeys) {
			t.Errorf("%q: %v, %v", text, k, err)
		}
	}
	if _, err := secret.NewEntry("Key 1"); err == nil {
		t.Error("a bad name was accepted")
	}
	if _, err := (*secret.Keyring)(nil).Open("", "v1.k1.AAAA"); err == nil {
		t.Error("opened without keys")
	}
}

func TestAKeyringIsReadAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	one, two := entry(t, "k1"), entry(t, "k2")
	sealed := ring(t, one).Seal("", "x")
	url := strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(one)
	for _, text := range []string{one, " " + one + " ,", two + "," + url, "# the new one\n" + two + "\n\n# the old one\r\n" + one + "\r\n"} {
		k, err := secret.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Open("", sealed); err != nil {
			t.Error(err)
		}
	}
}

func TestAKeyringIsNotPrinted(t *testing.T) {
	t.Parallel()
	e := entry(t, "k1")
	k := ring(t, e)
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(e, "k1:"))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{k, struct{ Keys *secret.Keyring }{k}, struct{ keys *secret.Keyring }{k}, []*secret.Keyring{k}} {
			got := fmt.Sprintf(verb, v)
			for _, form := range []string{string(raw[:4]), fmt.Sprintf("%x", raw[:4]), fmt.Sprint(raw[0], " ", raw[1], " ", raw[2]), e[5:12]} {
				if strings.Contains(got, form) {
					t.Errorf("%s of %T shows the key", verb, v)
				}
			}
		}
	}
	if got := fmt.Sprint(k); got != "keys[k1]" {
		t.Error(got)
	}
}
