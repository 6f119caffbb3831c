package notify

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

// words are what a mail says, before it is text or HTML.
type words struct {
	subject string
	first   string      // a sentence
	facts   [][2]string // label and value
	link    string
	last    string // why somebody gets this
}

// maxSubject bounds a subject, in bytes.
const maxSubject = 200

func wordsOf(body string) (words, error) {
	var e Event
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return words{}, fmt.Errorf("read the event: %w", err)
	}
	w := words{last: "This mail was sent by Fenceline, because somebody of " + e.Data.Tenant + " asked to be told of " + e.Type + "."}
	switch e.Type {
	case storage.TopicPublished:
		w.published(e)
	case storage.TopicFailed:
		w.failed(e)
	case storage.TopicTest:
		w.subject, w.first = "Test from Fenceline", e.Data.Message
	default:
		w.subject, w.first = "Notice: "+e.Type, "Fenceline was asked to tell you of "+e.Type+"."
		w.about(e)
		w.fact("What it says", string(e.Data.Payload))
	}
	w.fact("When", e.Timestamp.UTC().Format("2 Jan 2006, 15:04:05")+" UTC")
	w.subject = firstLine(w.subject, maxSubject)
	return w, nil
}

func (w *words) published(e Event) {
	x := e.Data.Export
	if x == nil {
		x = &ExportData{}
	}
	name := called(x.Title, x.Key)
	w.subject, w.first, w.link = "Published: "+name, name+" was published.", x.URL
	for _, f := range x.Files {
		w.fact(f.Name, size(f.Size)+rowsOf(f.Rows))
	}
}

func (w *words) failed(e Event) {
	name := "A job"
	if j := e.Data.Job; j != nil {
		name = called(j.Title, j.Kind+" "+j.ID)
	}
	if x := e.Data.Export; x != nil {
		name = called(x.Title, name)
	}
	w.subject, w.first = "Failed: "+name, name+" failed and is not tried again by itself. What was published before is untouched."
	if j := e.Data.Job; j != nil {
		w.link = j.URL
		w.fact("Why", j.Error)
		w.fact("Attempts", fmt.Sprint(j.Attempts))
	}
}

// about names what a notice is about, when it is about something.
func (w *words) about(e Event) {
	if x := e.Data.Export; x != nil {
		w.link = x.URL
		w.fact("Export", called(x.Title, x.Key))
	}
	if j := e.Data.Job; j != nil {
		w.link = called(w.link, j.URL)
		w.fact("Job", called(j.Title, j.Kind+" "+j.ID))
	}
}

func (w *words) fact(label, value string) {
	if value != "" {
		w.facts = append(w.facts, [2]string{printable(label), printable(value)})
	}
}

func called(name, otherwise string) string {
	if name = printable(name); name != "" {
		return name
	}
	return otherwise
}

func (w words) text() string {
	var b strings.Builder
	b.WriteString(w.first + "\n\n")
	for _, f := range w.facts {
		b.WriteString(f[0] + ": " + f[1] + "\n")
	}
	if w.link != "" {
		b.WriteString("\n" + w.link + "\n")
	}
	b.WriteString("\n" + w.last + "\n")
	return b.String()
}

func (w words) html() string {
	esc := html.EscapeString
	var b strings.Builder
	b.WriteString("<!doctype html><html><body><p>" + esc(w.first) + "</p>")
	if len(w.facts) > 0 {
		b.WriteString("<table>")
		for _, f := range w.facts {
			b.WriteString("<tr><th align=\"left\">" + esc(f[0]) + "</th><td>" + esc(f[1]) + "</td></tr>")
		}
		b.WriteString("</table>")
	}
	if w.link != "" {
		b.WriteString("<p><a href=\"" + esc(w.link) + "\">" + esc(w.link) + "</a></p>")
	}
	b.WriteString("<p><small>" + esc(w.last) + "</small></p></body></html>")
	return b.String()
}

// size is a number of bytes for people.
func size(n int64) string {
	value, units := float64(n), []string{"kB", "MB", "GB", "TB"}
	if n < 1000 {
		return count.Of(n, "byte")
	}
	for i, unit := range units {
		value /= 1000
		if value < 999.95 || i == len(units)-1 {
			return fmt.Sprintf("%.1f %s", value, unit)
		}
	}
	return ""
}

func rowsOf(n int64) string {
	if n == 0 {
		return ""
	}
	return ", " + thousands(n) + " " + count.Noun(n, "row")
}

// thousands is a number with spaces between groups of three digits, which every language reads.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u00a0" + text[i:]
	}
	return text
}
