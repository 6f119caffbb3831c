package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// maxPasted bounds a payload that is put into a command as it is, in bytes: a
// word of a command may hold 128 KiB on Linux.
const maxPasted = 64 << 10

// asCLI is the command that asks for the same again.
func asCLI(j storage.Job) string {
	if j.Kind == jobs.BatchZIPName {
		return zipCommand(j)
	}
	spec := jobs.SpecOf(j)
	var words []string
	input := ""
	switch j.Kind {
	case "report":
		words = append([]string{"report"}, reportWords(j.Payload)...)
	case jobs.InvoiceRunName:
		words = append([]string{j.Kind}, runWords(j.Payload)...)
	case "invoice":
		words = []string{"invoice", "job.json"}
		if payload := pasted(j.Payload); payload != "" {
			words, input = []string{"invoice", "-"}, "printf %s "+shellQuote(payload)+" | "
		}
	default:
		words = []string{"job", j.Kind, "@job.json"}
		if payload := pasted(j.Payload); payload != "" {
			words[2] = payload
		}
	}
	words = append(append([]string{"fenceline", "dispatch"}, words...), specWords(spec)...)
	return input + shellLine(append(words, "--wait"))
}

// specWords say how the job is to run, as far as that is not the usual.
func specWords(s jobs.Spec) (list []string) {
	add := func(flag, value string) {
		if value != "" {
			list = append(list, flag, value)
		}
	}
	if s.Tenant != jobs.DefaultTenant {
		add("--tenant", s.Tenant)
	}
	add("--queue", s.Queue)
	if s.Priority != 0 {
		list = append(list, "--priority="+strconv.Itoa(s.Priority)) // it may be negative
	}
	for _, tag := range s.Tags {
		list = append(list, "--tag="+tag) // it may begin with a hyphen
	}
	if s.MaxAttempts != nil {
		add("--max-attempts", strconv.Itoa(*s.MaxAttempts))
	}
	add("--backoff", s.Backoff)
	add("--retry-for", s.RetryFor)
	add("--timeout", s.Timeout)
	return list
}

func zipCommand(j storage.Job) string {
	var p struct{ Batch string }
	_ = json.Unmarshal(j.Payload, &p) // it was checked when the job was made
	words := []string{"fenceline", "batch", "zip", p.Batch}
	if j.Tenant != jobs.DefaultTenant {
		words = append(words, "--tenant", j.Tenant)
	}
	return shellLine(append(words, "--wait"))
}

// pasted is a payload on one line, or empty when it is too long for a command.
func pasted(payload json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, payload) != nil || b.Len() > maxPasted {
		return ""
	}
	return b.String()
}

func reportWords(payload json.RawMessage) []string {
	p, err := jobs.ParseReportPayload(payload)
	if err != nil { // of a version that this page does not know
		return []string{"report.json"}
	}
	list := append([]string{p.Report}, paramWords(p.Params)...)
	for _, flag := range [][2]string{{"--format", strings.Join(p.Formats, ",")}, {"--preset", p.Preset}, {"--locale", p.Locale}, {"--delimiter", p.Delimiter}, {"--zone", p.Zone}} {
		if flag[1] != "" {
			list = append(list, flag[0], flag[1])
		}
	}
	if p.Strict != nil {
		list = append(list, fmt.Sprintf("--strict=%t", *p.Strict))
	}
	return list
}

func paramWords(params jobs.ParamValues) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		list = append(list, "--param", name+"="+params[name])
	}
	return list
}

// runWords are those of an invoice run.
func runWords(payload json.RawMessage) []string {
	var p struct {
		Source string
		Params jobs.ParamValues
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return []string{"SOURCE"}
	}
	return append([]string{p.Source}, paramWords(p.Params)...)
}

// asCurl is the call of the API that asks for the same again.
func asCurl(j storage.Job, base string) string {
	data := "@job.json"
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // it is read by a person and a shell, not by a browser
	if err := enc.Encode(jobs.SpecOf(j)); err == nil && body.Len() <= maxPasted {
		data = strings.TrimSpace(body.String())
	}
	return fmt.Sprintf("curl %s \\\n  -H \"Authorization: Bearer $FENCELINE_TOKEN\" \\\n  -H 'Content-Type: application/json' \\\n  -d %s",
		shellQuote(base+"/api/v1/jobs"), shellQuote(data))
}

// shellLine makes words one command.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellQuote(word)
	}
	return strings.Join(quoted, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellQuote makes a text one word for a POSIX shell.
func shellQuote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
