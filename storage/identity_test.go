package storage_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

const issuer = "https://id.example.com"

func (w *world) byProvider(p storage.ProviderSignin) storage.ProviderResult {
	w.t.Helper()
	done, err := w.store.SigninByProvider(w.ctx, p, storage.Visitor{})
	w.must(err)
	return done
}

func (w *world) notByProvider(p storage.ProviderSignin, want error) {
	w.t.Helper()
	if _, err := w.store.SigninByProvider(w.ctx, p, storage.Visitor{}); !errors.Is(err, want) {
		w.t.Errorf("%s signs in with %v, want %v", p.Subject, err, want)
	}
}

func claims(subject string, role storage.Role, tenant string, names ...string) storage.ProviderSignin {
	return storage.ProviderSignin{Identity: storage.Identity{Issuer: issuer, Subject: subject}, Role: role, Tenant: tenant, Names: names}
}

// Only issuer and subject say who somebody is: no name leads into the account of another.
func TestProvidersTakeNobodyOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.notByProvider(claims("1", storage.RoleViewer, "", "Eve"), storage.ErrNoAdmin)
	local := w.user("Nadia", "", storage.RoleAdmin)
	eve := w.byProvider(claims("1", storage.RoleViewer, "acme", "nadia", "Nadia", "Nadia (2)"))
	if !eve.Made || eve.User.ID == local.ID || eve.User.Name != "Nadia (2)" || eve.User.Issuer != issuer || eve.User.TenantName() != "acme" {
		t.Errorf("made %+v", eve)
	}
	again := w.byProvider(claims("1", storage.RoleViewer, "acme", "Somebody else"))
	if again.Made || again.Changed || again.User.ID != eve.User.ID || again.User.Name != "Nadia (2)" {
		t.Errorf("the second time it is %+v", again)
	}
	other := claims("1", storage.RoleViewer, "acme", "Nadia (3)")
	other.Issuer = "https://other.example.com"
	if u := w.byProvider(other).User; u.ID == eve.User.ID {
		t.Error("the same subject at another issuer is the same user")
	}
	w.notByProvider(claims("2", storage.RoleViewer, "", "NADIA"), storage.ErrUserExists)
}

// What the provider says of role and tenant holds from the next sign-in, and ends what was
// begun with another; a disabled user stays out, and the last admin stays one.
func TestProvidersChangeUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.byProvider(claims("ada", storage.RoleAdmin, "", "Ada"))
	w.notByProvider(claims("ada", storage.RoleViewer, "", "Ada"), storage.ErrLastAdmin)
	if !w.works(ada.Session) {
		t.Error("a sign-in that was refused has ended a session")
	}
	w.user("Bob", "", storage.RoleAdmin)
	same := w.byProvider(claims("ada", storage.RoleAdmin, "", "Ada"))
	if same.Changed || !w.works(ada.Session) {
		t.Error("an unchanged sign-in ends other sessions")
	}
	less := w.byProvider(claims("ada", storage.RoleViewer, "acme", "Ada"))
	if !less.Changed || less.User.Role != storage.RoleViewer || less.User.TenantName() != "acme" || w.works(ada.Session) || w.works(same.Session) || !w.works(less.Session) {
		t.Errorf("the change gives %+v", less)
	}
	keep := claims("ada", storage.RoleAdmin, "", "Ada")
	keep.KeepRole, keep.KeepTenant = true, true
	if kept := w.byProvider(keep); kept.Changed || kept.User.Role != storage.RoleViewer || kept.User.TenantName() != "acme" {
		t.Errorf("kept %+v", kept.User)
	}
	w.change(less.User, storage.UserChange{Disabled: new(true)})
	w.notByProvider(claims("ada", storage.RoleAdmin, "", "Ada"), storage.ErrNotFound)
	u, err := w.store.User(w.ctx, everything, ada.User.ID)
	w.must(err)
	if u.Role != storage.RoleViewer || u.DisabledAt == nil {
		t.Errorf("who was refused is now %+v", u)
	}
}

func TestEndSessionsAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.byProvider(claims("ada", storage.RoleAdmin, "", "Ada")), w.byProvider(claims("bob", storage.RoleViewer, "", "Bob"))
	n, err := w.store.EndSessionsAt(w.ctx, storage.Identity{Issuer: issuer, Subject: "bob"})
	w.must(err)
	if n != 1 || w.works(bob.Session) || !w.works(ada.Session) {
		t.Errorf("%d sessions ended", n)
	}
}

// Who signs in for the first time twice at once is one user.
func TestFirstSigninsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	results := make([]storage.ProviderResult, 8)
	errs := make([]error, len(results))
	for i := range results {
		wg.Go(func() {
			results[i], errs[i] = w.store.SigninByProvider(w.ctx, claims("ada", storage.RoleAdmin, "", "Ada"), storage.Visitor{})
		})
	}
	wg.Wait()
	made := 0
	for i, r := range results {
		w.must(errs[i])
		if r.Made {
			made++
		}
		if r.User.ID != results[0].User.ID {
			t.Error("there are two users")
		}
	}
	if made != 1 {
		t.Errorf("%d were made", made)
	}
}
