package oidc

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/people"
)

func (i *issuer) signsIn(p *Provider, change func(map[string]any)) (storage.ProviderSignin, error) {
	i.t.Helper()
	i.change = change
	cookie, back := i.begin(p)
	return p.Finish(i.t.Context(), cookie, back)
}

func TestRolesAndTenants(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := i.provider()
	in, err := i.signsIn(p, func(c map[string]any) { c["groups"], c["org"] = []string{"staff", "heads", "x"}, "*" })
	if err != nil || in.Role != storage.RoleOperator || in.Tenant != "" {
		t.Errorf("the highest of two: %+v, %v", in, err)
	}
	for reason, change := range map[string]func(map[string]any){
		"the claim groups":                      func(c map[string]any) { c["groups"] = []string{"x"} },
		"the claim org does not name one":       func(c map[string]any) { c["org"] = []string{"a", "b"} },
		"the claim org does not name one tenan": func(c map[string]any) { c["org"] = "a/b" },
		"org does not name one tenant":          func(c map[string]any) { c["org"] = "" },
	} {
		_, err := i.signsIn(p, change)
		refusedFor(t, reason, err, reason)
		var refused *Refused
		if errors.As(err, &refused) && refused.Known.Subject != "s-1" {
			t.Errorf("%s: it is not said who was refused", reason)
		}
	}
	deep := i.provider(func(c *Config) { c.RoleClaim, c.TenantClaim = "realm_access.roles", "" })
	in, err = i.signsIn(deep, func(c map[string]any) {
		c["realm_access"] = map[string]any{"roles": []string{"heads"}}
	})
	if err != nil || in.Role != storage.RoleOperator || in.Tenant != "" || !in.KeepTenant || in.KeepRole {
		t.Errorf("a role in an object: %+v, %v", in, err)
	}
	plain := i.provider(func(c *Config) { c.RoleClaim, c.DefaultRole = "", storage.RoleRequester })
	if in, err = i.signsIn(plain, nil); err != nil || in.Role != storage.RoleRequester || !in.KeepRole {
		t.Errorf("the default role: %+v, %v", in, err)
	}
}

// What the ID token leaves out is asked for, and is believed only of the same person.
func TestUserInfo(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := i.provider()
	short := func(c map[string]any) { c["groups"] = nil }
	i.info = map[string]any{"sub": "s-1", "groups": []string{"heads"}, "org": "other"}
	in, err := i.signsIn(p, short)
	if err != nil || in.Role != storage.RoleOperator || in.Tenant != "acme" {
		t.Errorf("what is signed counts first: %+v, %v", in, err)
	}
	i.info["sub"] = "s-2"
	_, err = i.signsIn(p, short)
	refusedFor(t, "somebody else", err, "somebody else")
}

func TestNames(t *testing.T) {
	t.Parallel()
	who := storage.Identity{Issuer: "i", Subject: "s"}
	for _, c := range []struct{ preferred, full, first string }{
		{"nadia", "Nadia R.", "nadia"},
		{"", "Nadia R.", "Nadia R."},
		{"token x", "Nadia", "Nadia"}, // of programs
		{"a\u202eb\x00", "", "ab"},
		{strings.Repeat("ß", 300), "", strings.Repeat("ß", 80)},
		{"cli", "", "user "},
	} {
		list := names(who, map[string]any{"preferred_username": c.preferred, "name": c.full})
		if !strings.HasPrefix(list[0], c.first) || !strings.HasPrefix(list[len(list)-1], "user ") {
			t.Errorf("%q and %q give %q", c.preferred, c.full, list)
		}
		for n, name := range list {
			if people.CheckName(name) != "" || utf8.RuneCountInString(name) > people.MaxName || slices.Contains(list[:n], name) {
				t.Errorf("%q is no name, or twice", name)
			}
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	good := Settings{Issuer: "https://id.example.com", ClientID: "c", ClientSecret: "0123456789abcdef", Name: "n", DefaultRole: Refuse, PublicURL: "https://x.example.com",
		RoleClaim: "groups", Roles: []string{"cn=staff=viewer", "b=admin"}}
	c, err := Parse(good)
	if err != nil || c.Roles["cn=staff"] != storage.RoleViewer || c.Roles["b"] != storage.RoleAdmin || c.DefaultRole != "" {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, err := Parse(Settings{Name: "n", DefaultRole: Refuse}); c != nil || err != nil {
		t.Errorf("no settings give %+v, %v", c, err)
	}
	for field, change := range map[string]func(*Settings){
		"OIDC_CLIENT_ID":     func(s *Settings) { s.ClientID = "" },
		"OIDC_CLIENT_SECRET": func(s *Settings) { s.ClientSecret = "short" },
		"PUBLIC_URL":         func(s *Settings) { s.PublicURL = "" },
		"OIDC_NAME":          func(s *Settings) { s.Name = "" },
		"OIDC_ISSUER":        func(s *Settings) { s.Issuer = "http://id.example.com" },
		"OIDC_ROLES":         func(s *Settings) { s.Roles = []string{"a=king"} },
		"OIDC_DEFAULT_ROLE":  func(s *Settings) { s.DefaultRole = "admin" },
		"OIDC_TENANT_CLAIM":  func(s *Settings) { *s = Settings{TenantClaim: "org"} },
	} {
		s := good
		change(&s)
		_, err := Parse(s)
		var bad *invalid.Error
		if !errors.As(err, &bad) || len(bad.Problems) != 1 || bad.Problems[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
		if err != nil && strings.Contains(err.Error(), "short") {
			t.Error("a secret is shown")
		}
	}
	for _, change := range []func(*Settings){func(s *Settings) { s.Roles = nil }, func(s *Settings) { s.RoleClaim = "" }, func(s *Settings) { s.RoleClaim, s.Roles = "", nil },
		func(s *Settings) { s.Issuer = "https://a:b@id.example.com" }, func(s *Settings) { s.Issuer = "id.example.com" }} {
		s := good
		change(&s)
		if _, err := Parse(s); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
