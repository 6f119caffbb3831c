package storage

import (
	"fmt"
	"slices"
)

// Verb is a kind of deed that a route or a command asks for.
type Verb string

// What somebody may be allowed to do, from the harmless to the grave.
const (
	VerbView       Verb = "view"       // look, and download
	VerbRequest    Verb = "request"    // ask for exports and invoices, and cancel what one asked for
	VerbOperate    Verb = "operate"    // cancel, retry, pause, schedule: anybody's
	VerbAdminister Verb = "administer" // users, tokens, targets, clean-up, deleting
)

// Verbs are all there are.
func Verbs() []Verb { return []Verb{VerbView, VerbRequest, VerbOperate, VerbAdminister} }

// Role is what a user may do; each may do what those before it may.
type Role string

// The roles, in the order of what they may do.
const (
	RoleViewer    Role = "viewer"
	RoleRequester Role = "requester"
	RoleOperator  Role = "operator"
	RoleAdmin     Role = "admin"
)

// Roles are all there are.
func Roles() []Role { return []Role{RoleViewer, RoleRequester, RoleOperator, RoleAdmin} }

// Verbs are what a role may do; an unknown role may do nothing.
func (r Role) Verbs() []Verb {
	i := slices.Index(Roles(), r)
	return Verbs()[:i+1]
}

// VerbList is read as text, as [Tags] are.
type VerbList []Verb

// Scan reads PostgreSQL's text[].
func (l *VerbList) Scan(src any) error {
	var words Tags
	if err := words.Scan(src); err != nil {
		return fmt.Errorf("read verbs: %w", err)
	}
	*l = nil
	for _, w := range words {
		*l = append(*l, Verb(w))
	}
	return nil
}
