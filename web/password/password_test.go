package password

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// A hash of the reference implementation: echo -n "password" | argon2 somesalt -id -t 2 -k 65536 -p 1.
const reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"

func TestVerify(t *testing.T) {
	t.Parallel()
	h := New(2)
	own, err := h.Hash(t.Context(), "correct horse battery")
	if err != nil || !strings.HasPrefix(own, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("%s, %v", own, err)
	}
	composed, err := h.Hash(t.Context(), "zw\u00f6lf K\u00e4tzchen")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hash, text string
		ok, stale  bool
	}{
		{own, "correct horse battery", true, false},
		{own, "correct horse batterz", false, false},
		{own, "", false, false},
		{own, strings.Repeat("x", MaxBytes+1), false, false},
		{reference, "password", true, true},
		{reference, "Password", false, true},
		{composed, "zwo\u0308lf Ka\u0308tzchen", true, false}, // as macOS types it
		{"", "", false, false},
		{"", "correct horse battery", false, false},
	} {
		ok, stale, err := h.Verify(t.Context(), c.hash, c.text)
		if err != nil || ok != c.ok || stale != c.stale {
			t.Errorf("%.20q of %q: %t, stale %t, %v", c.text, c.hash, ok, stale, err)
		}
	}
	again, err := h.Hash(t.Context(), "correct horse battery")
	if err != nil || again == own {
		t.Errorf("two hashes of one password are the same: %v", err)
	}
}

// What is not ours, or would take all memory, is refused before it is tried.
func TestVerifyRefusesOtherHashes(t *testing.T) {
	t.Parallel()
	h := New(1)
	for _, hash := range []string{
		"x", "$2b$10$abc", strings.Replace(reference, "argon2id", "argon2i", 1), strings.Replace(reference, "v=19", "v=16", 1),
		strings.Replace(reference, "m=65536", "m=4000000000", 1), strings.Replace(reference, "t=2", "t=1000", 1),
		strings.Replace(reference, "p=1", "p=0", 1), strings.Replace(reference, "p=1", "p=255", 1),
		strings.Replace(reference, "t=2", "t=0", 1), strings.Replace(reference, "c29tZXNhbHQ", "!", 1), reference + "$x", reference[:len(reference)-30],
	} {
		if ok, _, err := h.Verify(t.Context(), hash, "password"); ok || !errors.Is(err, errHash) {
			t.Errorf("%s: %t, %v", hash, ok, err)
		}
	}
}

// A flood waits, and what is more than may wait is turned away.
func TestFlood(t *testing.T) {
	t.Parallel()
	h := newHasher(params{8, 1, 1}, 1, 2)
	h.slots <- struct{}{} // one is at work
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	results := make(chan error, 50)
	for range 50 {
		wg.Go(func() {
			_, err := h.Hash(ctx, "x")
			results <- err
		})
	}
	busy := 0
	for range 47 { // three may wait for the slot
		if err := <-results; !errors.Is(err, ErrBusy) {
			t.Fatalf("one of a flood: %v", err)
		}
		busy++
	}
	<-h.slots
	wg.Wait()
	close(results)
	for err := range results {
		if err != nil {
			t.Errorf("one who waited: %v", err)
		}
	}
	h.slots <- struct{}{}
	gone, leave := context.WithCancel(ctx)
	leave()
	if _, err := h.Hash(gone, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("one who went away: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"short":                   "at least 12",
		strings.Repeat("ab", 600): "at most 1024",
		"aaaaaaaaaaaaaaaa":        "repeat",
		"Nadia Rahman Khan":       "the name",
		"correct horse battery":   "",
		"উড়োজাহাজ আকাশে":                          "",
		"\xff\xfe\xfd\xfc\xff\xff\xff\xff\xff1234": "text",
	} {
		got := Check(text, "nadia rahman khan")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.20q: %q, want %q", text, got, want)
		}
	}
	if a, b := Generate(), Generate(); a == b || Check(a, "") != "" || len(a) != 24 {
		t.Errorf("generated %s and %s", a, b)
	}
}
