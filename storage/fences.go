package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// NameError is a name that no fence can have.
type NameError struct {
	Field   string // tenant, resource or holder
	Value   string
	Message string // what would be right
}

// Error names the field, the value and what would be right.
func (e *NameError) Error() string { return fmt.Sprintf("%s: %q %s", e.Field, e.Value, e.Message) }

// Most bytes of the names of a fence. The table has the same bounds.
const (
	maxFenceTenant   = 63
	maxFenceResource = 500
	maxFenceHolder   = 200
)

// CheckFence refuses names that no fence can have, with a [*NameError].
func CheckFence(tenant, resource, holder string) error {
	for _, n := range []struct {
		field, value string
		least, most  int
	}{{"tenant", tenant, 1, maxFenceTenant}, {"resource", resource, 1, maxFenceResource}, {"holder", holder, 0, maxFenceHolder}} {
		if len(n.value) < n.least || len(n.value) > n.most || !utf8.ValidString(n.value) || strings.ContainsFunc(n.value, unicode.IsControl) {
			return &NameError{n.field, n.value, fmt.Sprintf("must be %d to %d bytes of UTF-8 without control characters", n.least, n.most)}
		}
	}
	return nil
}

// FenceState is what is known of the fence of a resource.
type FenceState struct {
	Tenant      string     `json:"tenant"`
	Resource    string     `json:"resource"`
	IssuedToken int64      `json:"issued_token"` // the newest that was drawn
	Holder      string     `json:"holder"`       // who drew it
	IssuedAt    time.Time  `json:"issued_at"`
	LastToken   int64      `json:"last_token"` // that has written; 0 for none
	LastOp      int64      `json:"last_op"`    // 0 for one write; else the operation
	WrittenAt   *time.Time `json:"written_at,omitempty"`
}

// TableName names the table for gorm.
func (FenceState) TableName() string { return "fenceline.fences" }

// FenceState reads the fence of a resource; [ErrNotFound] also when the scope
// does not see the tenant.
func (s *Store) FenceState(ctx context.Context, scope Scope, tenant, resource string) (FenceState, error) {
	if err := CheckFence(tenant, resource, ""); err != nil {
		return FenceState{}, err
	}
	var found []FenceState
	err := scope.where(s.db.WithContext(ctx), "tenant").Where("tenant = ? AND resource = ?", tenant, resource).Find(&found).Error
	if err != nil {
		return FenceState{}, fmt.Errorf("read the fence of %q: %w", resource, err)
	}
	if len(found) == 0 {
		return FenceState{}, fmt.Errorf("fence of %q of tenant %s: %w", resource, tenant, ErrNotFound)
	}
	return found[0], nil
}

// FenceFilter selects fences. The zero value selects all that a scope sees.
type FenceFilter struct {
	Prefix string // of the resource; cheap in the scope of one tenant
	After  string // a [Page]'s Next
	Limit  int    // 0 is 50; at most 200
}

// Fences lists fences by tenant and resource. There is no order by time: an index
// for it would make every write dearer.
func (s *Store) Fences(ctx context.Context, scope Scope, f FenceFilter) (Page[FenceState], error) {
	page := Page[FenceState]{Items: []FenceState{}}
	q := scope.where(s.db.WithContext(ctx), "tenant").Order("tenant, resource")
	if f.Prefix != "" {
		q = q.Where("resource LIKE ?", likeEscaper.Replace(f.Prefix)+"%")
	}
	if f.After != "" {
		at, err := parseFenceCursor(f.After)
		if err != nil {
			return page, err
		}
		q = q.Where("(tenant, resource) > (?, ?)", at[0], at[1])
	}
	limit := pageSize(f.Limit)
	if err := q.Limit(limit + 1).Find(&page.Items).Error; err != nil {
		return page, fmt.Errorf("list fences: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = makeFenceCursor(page.Items[limit-1])
	}
	return page, nil
}

func makeFenceCursor(f FenceState) string {
	raw, _ := json.Marshal([]string{f.Tenant, f.Resource}) // text is always JSON
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseFenceCursor(s string) (at []string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(raw, &at)
	}
	if err != nil || len(at) != 2 || CheckFence(at[0], at[1], "") != nil {
		return nil, ErrCursor
	}
	return at, nil
}

// forgetPart is how many rows one statement looks at: no long transaction.
const forgetPart = 1000

// ForgetFences deletes the rows of fences that nobody drew a token of nor wrote
// under for that long, by the database's clock, and answers how many. It is safe
// at any age: a token of a deleted row is refused for ever, with the reason
// "forgotten"; so the time should be longer than any honest writer needs.
func (s *Store) ForgetFences(ctx context.Context, scope Scope, unused time.Duration) (n int64, err error) {
	tenant, resource := "", ""
	for {
		var last []struct {
			Tenant, Resource string
			Deleted          int64
		}
		err := s.db.WithContext(ctx).Raw(`WITH part AS MATERIALIZED (
				SELECT tenant, resource FROM fenceline.fences WHERE (tenant, resource) > (?, ?) AND (? OR tenant = ?) ORDER BY tenant, resource LIMIT ?
			), idle AS (
				SELECT f.tenant, f.resource FROM fenceline.fences f JOIN part USING (tenant, resource)
				WHERE greatest(f.issued_at, f.written_at) < clock_timestamp() - make_interval(secs => ?) FOR UPDATE OF f SKIP LOCKED
			), gone AS (
				DELETE FROM fenceline.fences f USING idle WHERE f.tenant = idle.tenant AND f.resource = idle.resource RETURNING 1
			) SELECT tenant, resource, (SELECT count(*) FROM gone) AS deleted FROM part ORDER BY tenant DESC, resource DESC LIMIT 1`,
			tenant, resource, scope.All, scope.Tenant, forgetPart, unused.Seconds()).Scan(&last).Error
		if err != nil {
			return n, fmt.Errorf("forget fences: %w", err)
		}
		if len(last) == 0 {
			return n, nil
		}
		n += last[0].Deleted
		tenant, resource = last[0].Tenant, last[0].Resource
	}
}
