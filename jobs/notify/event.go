package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fenceline/fenceline/storage"
)

// Event is the body of a webhook, and what a mail is written from.
type Event struct {
	Type      string    `json:"type"` // the topic
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data is what an event says. It holds no secrets and no payload of a job.
type Data struct {
	Tenant  string          `json:"tenant"`
	Export  *ExportData     `json:"export,omitempty"`
	Job     *JobData        `json:"job,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"` // of custom notices, as the application gave it
	Message string          `json:"message,omitempty"` // of tests
}

// ExportData is the export that an event is about.
type ExportData struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Key   string `json:"key"`
	Title string `json:"title"`
	// URL is the page of the dashboard: who opens it signs in. Empty when PUBLIC_URL is not known.
	URL string `json:"url,omitempty"`

	// What was published:
	Token       int64          `json:"token,omitempty"`
	PublishedAt *time.Time     `json:"published_at,omitempty"`
	Rows        *int64         `json:"rows,omitempty"`
	Bytes       *int64         `json:"bytes,omitempty"`
	Files       []storage.File `json:"files,omitempty"`
}

// JobData is the job that an event is about.
type JobData struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Title    string `json:"title,omitempty"`
	URL      string `json:"url,omitempty"`
	Error    string `json:"error,omitempty"`    // the first line, of a job that failed
	Attempts int    `json:"attempts,omitempty"` // that were begun, of a job that failed
}

// maxError bounds how much of an error is told, in bytes.
const maxError = 500

// freezer makes the bodies of deliveries; publicURL is that of the dashboard.
type freezer struct{ publicURL string }

// body is what is sent for a notice, now and whenever it is repeated.
func (f freezer) body(n storage.Notice) (string, error) {
	e := Event{Type: n.Topic, Timestamp: n.At.UTC(), Data: Data{Tenant: n.Tenant}}
	if n.ExportID != "" {
		x := &ExportData{ID: n.ExportID, Kind: n.ExportKind, Key: n.ExportKey, Title: n.ExportTitle, URL: f.link("/exports/", n.ExportID)}
		if n.Topic == storage.TopicPublished {
			x.Token, x.Rows, x.Bytes, x.Files = n.Token, &n.Rows, &n.Bytes, n.Files
			if n.PublishedAt != nil {
				x.PublishedAt = new(n.PublishedAt.UTC())
			}
		}
		e.Data.Export = x
	}
	if n.JobID != "" {
		j := &JobData{ID: n.JobID, Kind: n.JobKind, Title: n.JobTitle, URL: f.link("/jobs/", n.JobID)}
		if n.Topic == storage.TopicFailed {
			j.Error, j.Attempts = firstLine(n.JobError, maxError), n.Attempts
		}
		e.Data.Job = j
	}
	if string(n.Payload) != "null" {
		e.Data.Payload = n.Payload
	}
	return e.encode()
}

// testEvent is the body of a test of a target.
func testEvent(t storage.Target, at time.Time) (string, error) {
	return Event{Type: storage.TopicTest, Timestamp: at.UTC(), Data: Data{
		Tenant: t.Tenant, Message: "This is a test of the target " + t.Name + ". If you can read it, it works.",
	}}.encode()
}

func (e Event) encode() (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return "", fmt.Errorf("encode the event %s: %w", e.Type, err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func (f freezer) link(path, id string) string {
	if f.publicURL == "" {
		return ""
	}
	return strings.TrimRight(f.publicURL, "/") + path + id
}

// firstLine is the first line of a text, at most so many bytes of it.
func firstLine(text string, most int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = printable(line)
	if len(line) <= most {
		return line
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(line[cut]) {
		cut--
	}
	return line[:cut] + "…"
}

// printable is a text on one line: what is not printable becomes a space.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text))
}
