package report

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"from", "form_of", "status", "min_total"}
	for given, want := range map[string]string{
		"form": "from", "From": "from", "frm": "from", "statuss": "status", "min-total": "min_total", "mintotals": "min_total",
		"to": "", "zzzz": "", "": "", strings.Repeat("from", 30): "",
	} {
		if got := nearest(given, known); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
	if got := nearest("c", []string{"a", "b"}); got != "" {
		t.Errorf("c is not %s", got)
	}
	// Of equals, the first.
	if got := nearest("bat", []string{"cat", "hat"}); got != "cat" {
		t.Errorf("got %q", got)
	}
	for _, d := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"same", "same", 0}} {
		if got := distance(d.a, d.b); got != d.want {
			t.Errorf("%q to %q: got %d, want %d", d.a, d.b, got, d.want)
		}
	}
}
