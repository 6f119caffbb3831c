package web

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The policy of the pages allows no inline script and no inline style, and the
// whole front end stays small.
func TestFrontEnd(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)\sstyle=|<style|\son[a-z]+=|javascript:|<script>`)
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		body, err := templateFiles.ReadFile("templates/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if found := inline.Find(body); found != nil {
			t.Errorf("%s holds %q", e.Name(), found)
		}
	}
	total := 0
	for name, a := range newAssets().byName {
		total += len(a.body)
		if lines := bytes.Count(a.body, []byte("\n")); strings.HasSuffix(name, ".js") && lines >= 300 {
			t.Errorf("the script has %d lines", lines)
		}
	}
	if total > 100_000 {
		t.Errorf("the front end has %d bytes", total)
	}
}

// Text has a contrast of at least 4.5 : 1 in both themes (WCAG 2.2, 1.4.3), borders
// of controls 3 : 1 (1.4.11).
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := staticFiles.ReadFile("static/app.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, found := strings.Cut(string(css), "prefers-color-scheme: dark")
	if !found {
		t.Fatal("the style has no dark theme")
	}
	dark, _, _ = strings.Cut(dark, "* { box-sizing")
	pairs := []struct {
		front string
		least float64
		backs string
	}{
		{"text", 4.5, "bg surface sunken accent-soft fence-soft bad-soft"}, {"muted", 4.5, "bg surface sunken"}, {"faint", 4.5, "bg surface"},
		{"accent", 4.5, "bg surface accent-soft sunken fence-soft"}, {"on-accent", 4.5, "accent"}, {"ok", 4.5, "surface ok-soft sunken"},
		{"run", 4.5, "surface run-soft sunken"}, {"fence", 4.5, "surface fence-soft sunken"}, {"bad", 4.5, "surface bad-soft"},
		{"idle", 4.5, "surface idle-soft"}, {"control", 3, "surface"},
	}
	for name, theme := range map[string]string{"light": light, "dark": dark} {
		colours := coloursOf(theme)
		for _, p := range pairs {
			for back := range strings.FieldsSeq(p.backs) {
				if got := contrast(colours[p.front], colours[back]); !(got >= p.least) {
					t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", name, p.front, back, got, p.least)
				}
			}
		}
	}
}

var colour = regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6})`)

func coloursOf(css string) map[string][3]float64 {
	all := map[string][3]float64{}
	for _, m := range colour.FindAllStringSubmatch(css, -1) {
		n, _ := strconv.ParseUint(m[2], 16, 32)
		all[m[1]] = [3]float64{float64(n >> 16), float64(n >> 8 & 255), float64(n & 255)}
	}
	return all
}

// contrast is the ratio of WCAG 2.2, NaN for a colour that is not defined.
func contrast(a, b [3]float64) float64 {
	if a == b {
		return math.NaN()
	}
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(c [3]float64) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := c[i] / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
