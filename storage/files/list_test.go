package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func opened(t *testing.T) *Local {
	t.Helper()
	l, err := OpenLocal(t.TempDir(), uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func plant(t *testing.T, l *Local, names ...string) {
	t.Helper()
	for _, name := range names {
		to := filepath.Join(l.Dir(), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Folders sort as they do in a path, where "a-b" is before "a/b".
func TestListIsInTheOrderOfPaths(t *testing.T) {
	t.Parallel()
	l, e := opened(t), "0b5c2e1a-3f64-4d0e-8f6b-3a1d6f6c1a01"
	p := e + "/12-0b5c2e1a-3f64-4d0e-8f6b-3a1d6f6c1a02"
	plant(t, l, p+"/1-a.csv", p+"/.2-b.csv.partial", p+"/notes", p+"/sub/1-a.csv", e+"/9-x/1-a.csv", e+"/list", e+".txt", e+"-x/y", "thesis.doc",
		".FENCELINE.json-left", ".FENCELINE.json-doctor-1/one")
	for _, empty := range []string{"0b5c2e1a-3f64-4d0e-8f6b-3a1d6f6c1a09", "0b5c2e1a-3f64-4d0e-8f6b-3a1d6f6c1a03/7-0b5c2e1a-3f64-4d0e-8f6b-3a1d6f6c1a02"} {
		if err := os.MkdirAll(filepath.Join(l.Dir(), empty), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	var got []Object
	if err := l.List(t.Context(), func(o Object) error { got = append(got, o); return nil }); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ // known, token, name
		e + "-x/y": "false 0 ", e + ".txt": "false 0 ", p + "/.2-b.csv.partial": "true 12 .2-b.csv.partial", p + "/1-a.csv": "true 12 1-a.csv",
		p + "/notes": "false 12 notes", p + "/sub/1-a.csv": "false 12 sub/1-a.csv", e + "/9-x/1-a.csv": "false 0 ", e + "/list": "false 0 ",
		"0b5c2e1a-3f64-4d0e-8f6b-3a1d6f6c1a03/7-0b5c2e1a-3f64-4d0e-8f6b-3a1d6f6c1a02/": "true 7 ",
		"0b5c2e1a-3f64-4d0e-8f6b-3a1d6f6c1a09/":                                        "false 0 ", "thesis.doc": "false 0 ",
	}
	if !slices.IsSortedFunc(got, func(a, b Object) int { return strings.Compare(a.Path, b.Path) }) || len(got) != len(want) {
		t.Errorf("%d objects, not sorted or not %d: %v", len(got), len(want), got)
	}
	for _, o := range got {
		if is := summary(o); is != want[o.Path] {
			t.Errorf("%s is %q, want %q", o.Path, is, want[o.Path])
		}
		if size := int64(len(o.Path)); o.Size != size && !strings.HasSuffix(o.Path, "/") || o.Modified.IsZero() {
			t.Errorf("%s: %+v", o.Path, o)
		}
	}
}

func summary(o Object) string {
	known := "false "
	if o.Known {
		known = "true "
	}
	return known + strings.TrimSuffix(strings.SplitN(o.Place.folder(), "-", 2)[0], "-") + " " + o.Name
}

// A folder with more names than are held at once is read several times.
func TestNextHoldsSoManyNames(t *testing.T) {
	t.Parallel()
	l := opened(t)
	var want []string
	for i := range 100 {
		name := uuid.NewSHA1(uuid.Nil, []byte{byte(i)}).String()
		want = append(want, name)
		plant(t, l, "d/"+name)
	}
	slices.Sort(want)
	var got []string
	for after, more := "", true; more; {
		names, again, err := l.next(t.Context(), "d/", after, 7)
		if err != nil || len(names) > 7 {
			t.Fatal(names, err)
		}
		got = append(got, names...)
		after, more = names[len(names)-1], again
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d names: %v", len(got), got)
	}
}

func TestListEnds(t *testing.T) {
	t.Parallel()
	l := opened(t)
	plant(t, l, "a", "b")
	stop, n := errors.New("stop"), 0
	if err := l.List(t.Context(), func(Object) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%d calls, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.List(ctx, func(Object) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
