package people

import (
	"strings"
	"testing"
	"time"
)

func TestUser(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, role, tenant, password, says string }{
		{"রহিমা", "viewer", "", "", ""},
		{" Zoe\u0308 ", "admin", "acme", "correct horse battery", ""},
		{"", "viewer", "", "", "name"},
		{strings.Repeat("ß", 101), "viewer", "", "", "at most 100"},
		{"a\u202egpj", "viewer", "", "", "control"},
		{"token ci", "viewer", "", "", "for programs"},
		{"Schedule s1", "viewer", "", "", "for programs"},
		{"CLI", "viewer", "", "", "for programs"},
		{"Cliff", "viewer", "", "", ""},
		{"Ada", "owner", "", "", "viewer, requester, operator, admin"},
		{"Ada", "viewer", "a b", "", "tenant"},
		{"Ada", "viewer", "", "short", "at least 12"},
	} {
		n, err := User(c.name, c.role, c.tenant, c.password)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q %s %q: %v", c.name, c.role, c.tenant, err)
		}
		if c.role == "admin" && n.Name != "Zo\u00eb" {
			t.Errorf("the name is kept as %q", n.Name)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"": "", "never": "", "90d": "2026-08-04T12:00:00Z", "12h": "2026-05-07T00:00:00Z", "2026-05-06": "2026-05-07T00:00:00Z",
		"2026-05-05": "bad", "-1d": "bad", "0d": "bad", "99999d": "bad", "2099-01-01": "bad", "soon": "bad", "d": "bad",
	} {
		got, err := Expiry(text, now)
		shown := ""
		if err != nil {
			shown = "bad"
		} else if got != nil {
			shown = got.Format(time.RFC3339)
		}
		if shown != want {
			t.Errorf("%q is %q, want %q", text, shown, want)
		}
	}
	spec, err := Token(" ci ", "acme", []string{"view", " request", "view"}, "90d", now)
	if err != nil || spec.Name != "ci" || len(spec.Verbs) != 2 || spec.Tenant != "acme" || spec.ExpiresAt == nil {
		t.Errorf("%+v, %v", spec, err)
	}
	_, err = Token("", "a b", []string{"rule"}, "soon", now)
	for _, field := range []string{"name", "tenant", "verbs", "expires"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no word about %s: %v", field, err)
		}
	}
	if _, err := Token("ci", "", nil, "", now); err == nil {
		t.Error("a token that may do nothing")
	}
}
