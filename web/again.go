package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// maxPasted bounds a payload that is put into a command as it is, in bytes.
const maxPasted = 4 << 10

// asCLI is the command that asks for the same again.
func asCLI(j storage.Job) string {
	words := []string{"fenceline", "dispatch", j.Kind}
	switch j.Kind {
	case "report":
		words = append(words, reportWords(j.Payload)...)
	case jobs.InvoiceRunName:
		words = append(words, runWords(j.Payload)...)
	case jobs.BatchZIPName:
		var p struct{ Batch string }
		_ = json.Unmarshal(j.Payload, &p) // it was checked when the job was made
		words = []string{"fenceline", "batch", "zip", p.Batch}
	case "invoice":
		words = append(words, "invoice.json")
	default:
		words = append([]string{"fenceline", "dispatch", "job", j.Kind}, payloadWord(j.Payload))
	}
	if j.Tenant != jobs.DefaultTenant {
		words = append(words, "--tenant", j.Tenant)
	}
	for i, word := range words {
		words[i] = shellQuote(word)
	}
	return strings.Join(append(words, "--wait"), " ")
}

// payloadWord is a short payload itself, or a file to put it into.
func payloadWord(payload json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, payload) != nil || b.Len() > maxPasted {
		return "@job.json"
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
	err := enc.Encode(struct {
		Kind    string          `json:"kind"`
		Tenant  string          `json:"tenant"`
		Payload json.RawMessage `json:"payload"`
	}{j.Kind, j.Tenant, j.Payload})
	if err == nil && body.Len() <= maxPasted {
		data = strings.TrimSpace(body.String())
	}
	return fmt.Sprintf("curl %s \\\n  -H \"Authorization: Bearer $FENCELINE_TOKEN\" \\\n  -H 'Content-Type: application/json' \\\n  -d %s",
		shellQuote(base+"/api/v1/jobs"), shellQuote(data))
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellQuote makes a text one word for a POSIX shell.
func shellQuote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
