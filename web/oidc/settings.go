package oidc

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// Settings are those of a provider as they are written down, each under the name of its
// variable in complaints.
type Settings struct {
	Issuer, ClientID, ClientSecret, Name string
	Scopes                               []string // besides openid and profile
	RoleClaim                            string
	Roles                                []string // value=role
	TenantClaim                          string
	DefaultRole                          string // or [Refuse]
	PublicURL                            string
}

const (
	// Refuse is the default role that lets nobody in whom no other role was given.
	Refuse = "refuse"
	// AllTenants is the value of the tenant's claim that means all of them.
	AllTenants = "*"
	// shortestSecret: the seal of the cookie hangs on the secret.
	shortestSecret = 16
)

// Parse checks settings; nil without an error means that there is no provider.
func Parse(s Settings) (*Config, error) {
	var refused invalid.Error
	if s.Issuer == "" {
		for _, half := range [][2]string{{"OIDC_CLIENT_ID", s.ClientID}, {"OIDC_CLIENT_SECRET", s.ClientSecret}, {"OIDC_ROLE_CLAIM", s.RoleClaim},
			{"OIDC_ROLES", strings.Join(s.Roles, ",")}, {"OIDC_TENANT_CLAIM", s.TenantClaim}} {
			if half[1] != "" {
				refused.Add(half[0], "", "is set, but OIDC_ISSUER is not: set both, or neither")
			}
		}
		return nil, refused.OrNil()
	}
	c := &Config{Issuer: s.Issuer, ClientID: s.ClientID, ClientSecret: s.ClientSecret, Name: s.Name, Scopes: s.Scopes,
		RoleClaim: s.RoleClaim, TenantClaim: s.TenantClaim, Roles: map[string]storage.Role{}}
	checkIssuer(&refused, s.Issuer)
	if s.ClientID == "" {
		refused.Add("OIDC_CLIENT_ID", "", "is needed with OIDC_ISSUER: the provider gives it out")
	}
	if len(s.ClientSecret) < shortestSecret {
		refused.Add("OIDC_CLIENT_SECRET", "", "is needed with OIDC_ISSUER, with at least %d characters", shortestSecret)
	}
	if s.PublicURL == "" {
		refused.Add("PUBLIC_URL", "", "is needed with OIDC_ISSUER: the provider sends people back to it")
	}
	if s.Name == "" || utf8.RuneCountInString(s.Name) > 60 {
		refused.Add("OIDC_NAME", s.Name, "must have 1 to 60 characters")
	}
	for _, pair := range s.Roles {
		at := strings.LastIndexByte(pair, '=') // values may hold =, roles do not
		if at < 1 || !slices.Contains(storage.Roles(), storage.Role(pair[at+1:])) {
			refused.Add("OIDC_ROLES", pair, "must be values of the claim with roles, such as staff=viewer,heads=admin")
			continue
		}
		c.Roles[pair[:at]] = storage.Role(pair[at+1:])
	}
	c.DefaultRole = defaultRole(&refused, s)
	if err := refused.OrNil(); err != nil {
		return nil, err
	}
	return c, nil
}

func defaultRole(refused *invalid.Error, s Settings) storage.Role {
	role := storage.Role(s.DefaultRole)
	switch {
	case (s.RoleClaim == "") != (len(s.Roles) == 0):
		refused.Add("OIDC_ROLES", strings.Join(s.Roles, ","), "and OIDC_ROLE_CLAIM go together: set both, or neither")
	case s.DefaultRole == Refuse && s.RoleClaim == "":
		refused.Add("OIDC_DEFAULT_ROLE", s.DefaultRole, "lets nobody in: set OIDC_ROLE_CLAIM and OIDC_ROLES, or a role here")
	case s.DefaultRole == Refuse:
		return ""
	case role == storage.RoleAdmin || !slices.Contains(storage.Roles(), role):
		refused.Add("OIDC_DEFAULT_ROLE", s.DefaultRole, "must be viewer, requester, operator or refuse")
	}
	return role
}

// checkIssuer wants TLS: who answers for the issuer says who everybody is.
func checkIssuer(refused *invalid.Error, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || len(text) > 500:
		refused.Add("OIDC_ISSUER", "", "must be an https URL without a query")
	case u.User != nil:
		refused.Add("OIDC_ISSUER", "", "must not hold a name or password")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		refused.Add("OIDC_ISSUER", text, "must be an https URL; http is for this machine only")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
