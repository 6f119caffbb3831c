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
	if j.Kind == "report" {
		words = append(words, reportWords(j.Payload)...)
	} else {
		words = append(words, j.Kind+".json")
	}
	if j.Tenant != jobs.DefaultTenant {
		words = append(words, "--tenant", j.Tenant)
	}
	for i, word := range words {
		words[i] = shellQuote(word)
	}
	return strings.Join(append(words, "--wait"), " ")
}

func reportWords(payload json.RawMessage) []string {
	p, err := jobs.ParseReportPayload(payload)
	if err != nil { // of a version that this page does not know
		return []string{"report.json"}
	}
	list := []string{p.Report}
	for _, name := range slices.Sorted(maps.Keys(p.Params)) {
		list = append(list, "--param", name+"="+p.Params[name])
	}
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
