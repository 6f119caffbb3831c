package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage"
)

// showNumber has a comma between thousands.
func showNumber(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// howMany is a number of things with its noun, which is given in the singular.
func howMany(n int64, noun string) string { return showNumber(n) + " " + count.Noun(n, noun) }

// showCount is a count that [storage.CountCap] may have cut short.
func showCount(n int64) string {
	if n > storage.CountCap {
		return showNumber(storage.CountCap) + "+"
	}
	return showNumber(n)
}

// showSize is a size in bytes with decimal units (1 kB is 1,000 bytes).
func showSize(bytes int64) string {
	if bytes < 1000 {
		return strconv.FormatInt(bytes, 10) + " B"
	}
	value, unit := float64(bytes)/1000, 0
	units := []string{"kB", "MB", "GB", "TB", "PB"}
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if value < 99.95 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + units[unit]
	}
	return fmt.Sprintf("%.0f %s", value, units[unit])
}

// showDuration is a length of time in its two largest units.
func showDuration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%d.%d s", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return pair(int64(d/time.Minute), "min", int64(d%time.Minute/time.Second), "s")
	case d < 24*time.Hour:
		return pair(int64(d/time.Hour), "h", int64(d%time.Hour/time.Minute), "min")
	}
	return pair(int64(d/(24*time.Hour)), "d", int64(d%(24*time.Hour)/time.Hour), "h")
}

func pair(big int64, bigUnit string, small int64, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%d %s", big, bigUnit)
	}
	return fmt.Sprintf("%d %s %d %s", big, bigUnit, small, smallUnit)
}

// showAge is how long ago something was, in one unit.
func showAge(d time.Duration) string {
	switch {
	case d < 5*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d d ago", d/(24*time.Hour))
}

// The forms of a time. The script shows the same forms in the viewer's zone.
const (
	formAge   = "age"   // 2 min ago
	formClock = "clock" // 10:04:05; 29 Nov 10:04 when it is another day
	formFull  = "full"  // 29 Nov 2026, 10:04:05 with the zone
)

// clock shows times as they were at the moment when a page was made.
type clock struct{ now time.Time }

// text is a time in UTC.
func (c clock) text(form string, t time.Time) string {
	t = t.UTC()
	switch {
	case form == formAge:
		return showAge(c.now.Sub(t))
	case form == formFull:
		return t.Format("2 Jan 2006, 15:04:05 (UTC)")
	case t.Format(time.DateOnly) == c.now.UTC().Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	case t.Year() == c.now.UTC().Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006")
}

// html is a time as an element that the script can turn to the viewer's zone.
func (c clock) html(form string, t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s UTC" data-form="%s">%s</time>`, //nolint:gosec // made of a time only
		t.Format("2006-01-02T15:04:05.000Z"), t.Format("2006-01-02 15:04:05"), form, c.text(form, t)))
}

// shortHash is the beginning and the end of a hash, enough to compare by eye.
func shortHash(h storage.HexBytes) string {
	s := h.String()
	if len(s) < 20 {
		return s
	}
	return s[:4] + " " + s[4:8] + " … " + s[len(s)-4:]
}

// cut is a text of at most most characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return string(r[:most-1]) + "…"
}

// firstLine is a text up to its first line break.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// showWarnings turns what an attempt kept as warnings into lines for people:
// texts as they are, warnings about a column as the renderers write them, and
// anything else as the JSON that it is.
func showWarnings(raw json.RawMessage) []string {
	var list []json.RawMessage
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	lines := make([]string, len(list))
	for i, item := range list {
		lines[i] = showWarning(item)
	}
	return lines
}

func showWarning(item json.RawMessage) string {
	var text string
	if json.Unmarshal(item, &text) == nil {
		return text
	}
	var w tabular.Warning
	if json.Unmarshal(item, &w) != nil || w.Kind == "" {
		return string(item)
	}
	return report.Explain(w)
}
