package web

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/fenceline/fenceline/storage"
)

// paths lists what a navigation links.
func paths(groups []navGroup) (list []string) {
	for _, g := range groups {
		for _, it := range g.Items {
			list = append(list, it.Path)
		}
	}
	return list
}

func TestNavigation(t *testing.T) {
	t.Parallel()
	var table []route
	for _, p := range paths(navigation()) {
		table = append(table, route{method: "GET", path: p})
	}
	table[0].path = "/{$}"
	s := &Server{nav: linked(table)}
	everybody := func(role storage.Role, tenant string) principal {
		return principal{scope: storage.Scope{All: tenant == "", Tenant: tenant}, verbs: role.Verbs()}
	}
	if got := paths(s.navFor(everybody(storage.RoleAdmin, ""), "/")); !slices.Equal(got, paths(navigation())) {
		t.Errorf("an administrator of all tenants is linked %v", got)
	}
	got := paths(s.navFor(everybody(storage.RoleViewer, "acme"), "/"))
	for _, closed := range []string{"/new", "/invoices", "/queues", "/cleanup", "/targets", "/audit"} {
		if slices.Contains(got, closed) {
			t.Errorf("a viewer of one tenant is linked %s", closed)
		}
	}
	if !slices.Contains(got, "/jobs") {
		t.Errorf("a viewer is linked %v, want jobs among them", got)
	}
	for path, want := range map[string]string{"/jobs": "/jobs page", "/jobs/1": "/jobs true", "/": "/ page", "/jobsworth": ""} {
		marked := ""
		for _, g := range s.navFor(everybody(storage.RoleAdmin, ""), path) {
			for _, it := range g.Items {
				if it.Current != "" {
					marked += it.Path + " " + it.Current
				}
			}
		}
		if marked != want {
			t.Errorf("on %s the navigation marks %q, want %q", path, marked, want)
		}
	}
	if got := paths(linked(table[:1])); !slices.Equal(got, []string{"/"}) {
		t.Errorf("with one page in the table %v are linked", got)
	}
}

// On a phone the menu is closed until it is asked for, and Escape closes it; the
// skip link is the first thing that the keyboard reaches.
func TestMenuOnAPhone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, w.base)
	b.screen("light", 390)
	b.open(strings.TrimPrefix(w.server.SigninURL(w.link()), w.base))
	b.do(chromedp.SendKeys(chromedp.ID("name"), "Nadia"), chromedp.Click(chromedp.CSS("button.primary")), chromedp.WaitVisible(chromedp.CSS(".menu-button")))
	const shown = `document.querySelector(".item").checkVisibility()`
	if is[bool](b, shown) {
		t.Error("the menu is open before anybody asked for it")
	}
	b.do(chromedp.Click(chromedp.CSS(".menu-button")))
	b.waitFor(shown)
	b.do(chromedp.KeyEvent("\x1b"))
	b.waitFor("!(" + shown + ")")
	b.screen("light", 1280)
	b.waitFor(shown)
	b.open("/")
	b.do(chromedp.KeyEvent("\t"))
	b.waitFor(`document.activeElement.classList.contains("skip")`)
	b.do(chromedp.KeyEvent("\r"))
	b.waitFor(`document.activeElement.id === "main"`)
	b.quiet()
}
