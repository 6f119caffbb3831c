package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/people"
)

// checkToken checks what the library leaves to us, and answers the claims.
func (p *Provider) checkToken(id *oidc.IDToken, token *oauth2.Token, nonce string) (map[string]any, error) {
	var known struct {
		Party     string   `json:"azp"`
		NotBefore *float64 `json:"nbf"`
	}
	claims := map[string]any{}
	if id.Claims(&known) != nil || id.Claims(&claims) != nil {
		return nil, refuse("the claims of the ID token cannot be read")
	}
	now := p.now()
	switch {
	case !same(id.Nonce, nonce):
		return nil, refuse("the nonce is not the one that was sent")
	case id.Issuer != p.conf.Issuer:
		return nil, refuse("the ID token is of another issuer")
	case known.Party != "" && known.Party != p.conf.ClientID, known.Party == "" && len(id.Audience) > 1:
		return nil, refuse("the ID token was made for another client")
	case !now.Before(id.Expiry.Add(skew)):
		return nil, refuse("the ID token has expired")
	case id.IssuedAt.IsZero(), id.IssuedAt.After(now.Add(skew)), known.NotBefore != nil && time.Unix(int64(*known.NotBefore), 0).After(now.Add(skew)):
		return nil, refuse("the ID token is from the future")
	case id.Subject == "", len(id.Subject) > 255, !utf8.ValidString(id.Subject), strings.ContainsRune(id.Subject, 0):
		return nil, refuse("the ID token names nobody")
	}
	if id.AccessTokenHash != "" && id.VerifyAccessToken(token.AccessToken) != nil {
		return nil, refuse("the access token is not that of the ID token")
	}
	return claims, nil
}

// complete asks the provider for what the ID token does not say.
func (p *Provider) complete(ctx context.Context, at *endpoints, token *oauth2.Token, subject string, claims map[string]any) error {
	missing := p.conf.RoleClaim != "" && find(claims, p.conf.RoleClaim) == nil || p.conf.TenantClaim != "" && find(claims, p.conf.TenantClaim) == nil ||
		claims["preferred_username"] == nil && claims["name"] == nil
	if !missing || at.provider.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := at.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return fmt.Errorf("%w: ask who somebody is: %w", ErrUnavailable, err)
	}
	if info.Subject != subject { // OpenID Connect Core, section 5.3.2
		return refuse("the provider tells of somebody else")
	}
	var more map[string]any
	if err := info.Claims(&more); err != nil {
		return refuse("what the provider tells of somebody cannot be read")
	}
	for name, value := range more {
		if _, signed := claims[name]; !signed {
			claims[name] = value
		}
	}
	return nil
}

// find answers a claim by its name, or by its way, as in realm_access.roles; nil when there is none.
func find(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	first, rest, more := strings.Cut(name, ".")
	inner, is := claims[first].(map[string]any)
	if !more || !is {
		return nil
	}
	return find(inner, rest)
}

// texts are the texts of a claim that may be one or a list.
func texts(value any) (list []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case json.Number:
		return []string{v.String()}
	case []any:
		for _, one := range v {
			if text, is := one.(string); is {
				list = append(list, text)
			}
		}
	}
	return list
}

// person is who signs in, with the role and the tenant that the claims give.
func (p *Provider) person(who storage.Identity, claims map[string]any) (storage.ProviderSignin, error) {
	in := storage.ProviderSignin{Identity: who, Names: names(who, claims), Role: p.conf.DefaultRole, KeepRole: p.conf.RoleClaim == "", KeepTenant: p.conf.TenantClaim == ""}
	best := -1
	for _, value := range texts(find(claims, p.conf.RoleClaim)) {
		if role, given := p.conf.Roles[value]; given && p.conf.RoleClaim != "" {
			best = max(best, slices.Index(storage.Roles(), role))
		}
	}
	if best >= 0 {
		in.Role = storage.Roles()[best]
	}
	if in.Role == "" {
		return in, &Refused{Reason: "no role is given to what the claim " + p.conf.RoleClaim + " says", Known: who}
	}
	if p.conf.TenantClaim == "" {
		return in, nil
	}
	tenants := texts(find(claims, p.conf.TenantClaim))
	switch {
	case len(tenants) != 1 || tenants[0] != AllTenants && jobs.CheckName("tenant", tenants[0]) != nil:
		return in, &Refused{Reason: "the claim " + p.conf.TenantClaim + " does not name one tenant", Known: who}
	case tenants[0] != AllTenants:
		in.Tenant = tenants[0]
	}
	return in, nil
}

// names are what somebody may be called here, the best first, the last in any case of nobody else.
func names(who storage.Identity, claims map[string]any) (list []string) {
	sum := sha256.Sum256([]byte(who.Issuer + "\x00" + who.Subject))
	mark := hex.EncodeToString(sum[:8])
	add := func(name string) {
		if people.CheckName(name) == "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	var given []string
	for _, claim := range []string{"preferred_username", "name"} {
		text, _ := claims[claim].(string)
		if name := clean(text); people.CheckName(name) == "" {
			given = append(given, name)
			add(name)
		}
	}
	for _, name := range given[:min(len(given), 1)] {
		for n := 2; n < 10; n++ {
			add(fmt.Sprintf("%s (%d)", name, n))
		}
		add(name + " " + mark)
	}
	add("user " + mark)
	return list
}

// clean is a name without what is not seen, and short enough for a mark behind it.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if runes := []rune(people.Name(text)); len(runes) > people.MaxName-20 {
		text = string(runes[:people.MaxName-20])
	}
	return people.Name(text)
}
