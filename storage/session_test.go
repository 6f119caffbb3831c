package storage_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// change changes a user, who must let it.
func (w *world) change(u storage.User, c storage.UserChange) storage.User {
	w.t.Helper()
	u, err := w.store.ChangeUser(w.ctx, everything, u.ID, c)
	w.must(err)
	return u
}

func (w *world) user(name, tenant string, role storage.Role) storage.User {
	w.t.Helper()
	u, err := w.store.AddUser(w.ctx, storage.NewUser{Name: name, Tenant: tenant, Role: role, Password: "$argon2id$one"})
	w.must(err)
	return u
}

func (w *world) session(u storage.User) string {
	w.t.Helper()
	_, secret, err := w.store.BeginSession(w.ctx, u.ID, storage.ViaPassword, "$argon2id$one", storage.Visitor{Address: "192.0.2.7", Browser: "Firefox"})
	w.must(err)
	return secret
}

func (w *world) works(session string) bool {
	w.t.Helper()
	_, err := w.store.SessionUser(w.ctx, session)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		w.t.Fatal(err)
	}
	return err == nil
}

// Somebody must be able to let others in, whatever is tried, and however many try at once.
func TestTheLastAdminStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := storage.RoleViewer
	ada, bob := w.user("Ada", "", storage.RoleAdmin), w.user("Bob", "", storage.RoleAdmin)
	w.user("Cem", "acme", storage.RoleAdmin) // of one tenant only
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, u := range []storage.User{ada, bob} {
		wg.Go(func() { _, errs[i] = w.store.ChangeUser(w.ctx, everything, u.ID, storage.UserChange{Role: &viewer}) })
	}
	wg.Wait()
	last := ada
	if errs[0] == nil {
		last = bob
	}
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), storage.ErrLastAdmin) {
		t.Fatalf("two admins who demote each other: %v", errs)
	}
	for _, c := range []storage.UserChange{{Role: &viewer}, {Tenant: new("acme")}, {Disabled: new(true)}} {
		if _, err := w.store.ChangeUser(w.ctx, everything, last.ID, c); !errors.Is(err, storage.ErrLastAdmin) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := w.store.RemoveUser(w.ctx, everything, last.ID); !errors.Is(err, storage.ErrLastAdmin) {
		t.Errorf("to remove the last admin: %v", err)
	}
	if err := w.tryExec("UPDATE fenceline.users SET role = 'viewer'"); err == nil {
		t.Error("all were demoted in one statement")
	}
	w.change(last, storage.UserChange{Password: new("$argon2id$two")}) // what leaves it an admin is nobody's business
}

// A change of what a user may do, or of how it is recognised, ends what was begun before.
func TestAChangeEndsSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("Root", "", storage.RoleAdmin)
	for _, c := range []storage.UserChange{
		{Role: new(storage.RoleOperator)}, {Tenant: new("globex")}, {Disabled: new(true)}, {Password: new("$argon2id$two")}, {Password: new("")},
	} {
		u := w.user(uuid.NewString(), "acme", storage.RoleRequester)
		own, other := w.session(u), w.session(u)
		c.Keep = own
		w.change(u, c)
		if c.Disabled != nil && w.works(own) {
			t.Error("a disabled user's own session goes on")
		}
		if c.Disabled == nil && !w.works(own) || w.works(other) {
			t.Errorf("after %+v the own session works: %t, the other: %t", c, w.works(own), w.works(other))
		}
	}
	u := w.user("Nadia", "acme", storage.RoleViewer)
	if _, err := w.store.ChangeUser(w.ctx, storage.Scope{Tenant: "globex"}, u.ID, storage.UserChange{Disabled: new(true)}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant's user: %v", err)
	}
	if err := w.store.RemoveUser(w.ctx, storage.Scope{Tenant: "globex"}, u.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant's user: %v", err)
	}
	session := w.session(u)
	w.must(w.store.RemoveUser(w.ctx, storage.Scope{Tenant: "acme"}, u.ID))
	if w.works(session) {
		t.Error("the session of a removed user goes on")
	}
}

// A password that is changed between its check and the session opens nothing.
func TestASessionNeedsThePasswordThatWasChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.user("Nadia", "acme", storage.RoleViewer)
	w.change(u, storage.UserChange{Password: new("$argon2id$two")})
	if _, _, err := w.store.BeginSession(w.ctx, u.ID, storage.ViaPassword, "$argon2id$one", storage.Visitor{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the old password: %v", err)
	}
	w.change(u, storage.UserChange{Disabled: new(true)})
	if _, hash, err := w.store.PasswordOf(w.ctx, "Nadia"); err != nil || hash != "" {
		t.Errorf("a disabled user's password: %q, %v", hash, err)
	}
	if _, _, err := w.store.BeginSession(w.ctx, u.ID, storage.ViaLink, "", storage.Visitor{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a disabled user: %v", err)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u, other := w.user("Nadia", "acme", storage.RoleViewer), w.user("Omar", "acme", storage.RoleViewer)
	own, idle, old, third := w.session(u), w.session(u), w.session(u), w.session(u)
	w.exec("UPDATE fenceline.sessions SET seen_at = now() - interval '25 hours' WHERE secret_hash = sha256($1::text::bytea)", idle)
	w.exec("UPDATE fenceline.sessions SET expires_at = now() - interval '1 second' WHERE secret_hash = sha256($1::text::bytea)", old)
	if w.works(idle) || w.works(old) || !w.works(third) {
		t.Errorf("idle works: %t, old works: %t, fresh works: %t", w.works(idle), w.works(old), w.works(third))
	}
	list, err := w.store.Sessions(w.ctx, u.ID, own)
	w.must(err)
	current := 0
	for _, s := range list {
		if s.Current {
			current++
		} else if err := w.store.EndSessionOf(w.ctx, other.ID, s.ID); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("somebody else's session: %v", err)
		} else {
			w.must(w.store.EndSessionOf(w.ctx, u.ID, s.ID))
		}
		if s.Address != "192.0.2.7" || s.Browser != "Firefox" || s.Via != storage.ViaPassword {
			t.Errorf("the list has %+v", s)
		}
	}
	if len(list) != 2 || current != 1 || w.works(third) || !w.works(own) {
		t.Errorf("%d sessions, %d of them current; the ended one works: %t", len(list), current, w.works(third))
	}
	w.session(u)
	if n, err := w.store.EndSessionsOf(w.ctx, u.ID, own); err != nil || n != 3 || !w.works(own) { // with those that had ended by themselves
		t.Errorf("%d others ended, %v", n, err)
	}
}

// The use of a session is noted at most once a minute, so that pages do not write.
func TestSeenIsNotedOnceAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(w.user("Nadia", "acme", storage.RoleViewer))
	version := func() (xmin string) {
		w.must(w.query("SELECT xmin::text FROM fenceline.sessions").Scan(&xmin))
		return xmin
	}
	fresh := version()
	if w.works(session); version() != fresh {
		t.Error("a session that was used this minute was written")
	}
	w.exec("UPDATE fenceline.sessions SET seen_at = now() - interval '2 minutes'")
	var ago float64
	w.works(session)
	w.must(w.query("SELECT extract(epoch FROM clock_timestamp() - seen_at)::float FROM fenceline.sessions").Scan(&ago))
	if ago > 60 {
		t.Errorf("the session was seen %.0f s ago", ago)
	}
}

func TestUsersAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"c", "a", "e", "b", "d"} {
		w.user(name, "acme", storage.RoleViewer)
	}
	w.user("z", "globex", storage.RoleViewer)
	var names []string
	after := ""
	for {
		page, more, err := w.store.Users(w.ctx, storage.Scope{Tenant: "acme"}, after, 2)
		w.must(err)
		for _, u := range page {
			names = append(names, u.Name)
			after = u.Name
		}
		if !more {
			break
		}
	}
	if got := strings.Join(names, ""); got != "abcde" {
		t.Errorf("pages have %s", got)
	}
	if _, err := w.store.AddUser(w.ctx, storage.NewUser{Name: "a", Role: storage.RoleAdmin}); !errors.Is(err, storage.ErrUserExists) {
		t.Errorf("a name twice: %v", err)
	}
	if _, err := w.store.UserByName(w.ctx, storage.Scope{Tenant: "acme"}, "z"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant's user: %v", err)
	}
}

func TestTenantsAreKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insert(newJob("e")) // of acme
	w.user("z", "globex", storage.RoleViewer)
	_, _, err := w.store.AddToken(w.ctx, storage.TokenSpec{Name: "ci", Tenant: "initech", ExpiresAt: new(time.Now().Add(-time.Hour))})
	w.must(err)
	list, more, err := w.store.Tenants(w.ctx, everything, "", 2)
	w.must(err)
	if len(list) != 2 || !more || list[0] != (storage.TenantUse{Name: "acme", Exports: 1}) || list[1] != (storage.TenantUse{Name: "globex", Users: 1}) {
		t.Errorf("tenants %+v, more %t", list, more)
	}
	list, more, err = w.store.Tenants(w.ctx, everything, "globex", 2)
	w.must(err)
	if len(list) != 1 || more || list[0] != (storage.TenantUse{Name: "initech"}) {
		t.Errorf("tenants %+v, more %t", list, more)
	}
	list, _, err = w.store.Tenants(w.ctx, storage.Scope{Tenant: "globex"}, "", 2)
	w.must(err)
	if len(list) != 1 || list[0].Name != "globex" {
		t.Errorf("the tenants of a tenant are %+v", list)
	}
}

func TestTokensExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	_, works, err := w.store.AddToken(w.ctx, storage.TokenSpec{Name: "a", Tenant: "acme", Verbs: []storage.Verb{storage.VerbView}, ExpiresAt: &soon, CreatedBy: "Ada"})
	w.must(err)
	expired, ended, err := w.store.AddToken(w.ctx, storage.TokenSpec{Name: "b", Tenant: "globex", ExpiresAt: &past})
	w.must(err)
	got, err := w.store.TokenBySecret(w.ctx, works)
	if err != nil || len(got.Verbs) != 1 || got.CreatedBy != "Ada" || got.ExpiresAt == nil || !got.Works(time.Now()) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.store.TokenBySecret(w.ctx, ended); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an expired token: %v", err)
	}
	if err := w.store.RevokeToken(w.ctx, storage.Scope{Tenant: "acme"}, expired.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant's token: %v", err)
	}
	first, more, err := w.store.TokenPage(w.ctx, everything, uuid.Nil, 1)
	w.must(err)
	rest, last, err := w.store.TokenPage(w.ctx, everything, first[0].ID, 1)
	w.must(err)
	if !more || last || len(rest) != 1 || first[0].Name != "b" || rest[0].Name != "a" {
		t.Errorf("pages %+v and %+v", first, rest)
	}
	mine, _, err := w.store.TokenPage(w.ctx, storage.Scope{Tenant: "acme"}, uuid.Nil, 10)
	w.must(err)
	if len(mine) != 1 || mine[0].Name != "a" {
		t.Errorf("the tokens of a tenant are %+v", mine)
	}
}
