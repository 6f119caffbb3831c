package notify

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/secret"
)

func ring(t *testing.T, entries ...string) *secret.Keyring {
	t.Helper()
	k, err := secret.Parse(strings.Join(entries, ","))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func entry(t *testing.T, name string) string {
	t.Helper()
	e, err := secret.NewEntry(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Secrets of webhooks are sealed in the database, sign all the same, and rotate
// with the keys; one that is moved to another address does not open.
func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := entry(t, "k1"), entry(t, "k2")
	r := newReceiver(t, nil)
	_, open := w.hook("acme", "before", r.URL, "export.published") // from before there were keys
	w.targets = NewTargets(w.store, newGuard(t, "127.0.0.1"), ring(t, one))
	_, plain := w.hook("acme", "after", r.URL, "export.published")
	kept := func(want string, n int) {
		t.Helper()
		list, err := w.store.TargetSecrets(w.ctx)
		w.must(err)
		got := 0
		for _, k := range list {
			if strings.HasPrefix(k.Kept, want) {
				got++
			}
			if strings.Contains(k.Kept, strings.TrimPrefix(plain, secretPrefix)) {
				t.Error("the secret is in the database")
			}
		}
		if got != n {
			t.Errorf("%d secrets begin with %s, want %d", got, want, n)
		}
	}
	kept("v1.k1.", 1)
	n, err := ResealSecrets(w.ctx, w.store, ring(t, two, one))
	w.must(err)
	if kept("v1.k2.", 2); n != 2 {
		t.Errorf("%d were sealed again", n)
	}
	uses, _, err := w.store.SealedUses(w.ctx, 10)
	w.must(err)
	if uses["k2"].Webhooks != 2 || uses["k1"].Webhooks != 0 || uses[""].Webhooks != 0 || uses["k2"].Live != 0 {
		t.Errorf("uses %+v", uses)
	}
	for what, other := range map[string]string{"no key": one, "another key of the name": entry(t, "k2")} {
		if _, err := ResealSecrets(w.ctx, w.store, ring(t, other)); !errors.As(err, new(*secret.KeyError)) {
			t.Errorf("%s: of secrets that do not open it says %v", what, err)
		}
	}
	stop := w.deliver(func(c *Config) { c.Keys = ring(t, two) })
	w.published("acme", "orders", "Orders")
	w.until("both were told", func() bool { return len(r.calls()) == 2 })
	now, err := w.store.Now(w.ctx)
	w.must(err)
	signed := map[string]int{}
	for _, c := range r.calls() {
		for _, s := range []string{open, plain} {
			if Verify(s, c.Header, []byte(c.body), now) == nil {
				signed[s]++
			}
		}
	}
	if signed[open] != 1 || signed[plain] != 1 {
		t.Error("a call is not signed with its target's secret")
	}
	stop()
	w.exec("UPDATE fenceline.notify_targets SET url = url || 'elsewhere'")
	list, err := w.store.TargetSecrets(context.WithoutCancel(w.ctx))
	w.must(err)
	if got, err := openSecret(ring(t, two), list[0].URL, list[0].Kept); err == nil {
		t.Errorf("a secret opened for another address: %d characters", len(got))
	}
}
