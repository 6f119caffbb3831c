package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// fileReader reads a file of schedules and collects what is wrong with it.
type fileReader struct {
	refused *invalid.Error
	nodes   int // that were read, each alias as often as it is used
	depth   int // of the value that is read
	full    bool
}

func (r *fileReader) add(node *yaml.Node, path, format string, args ...any) {
	if len(r.refused.Problems) >= mostProblems {
		return
	}
	value := ""
	if node.Kind == yaml.ScalarNode {
		value = node.Value
	}
	r.refused.Add(fmt.Sprintf("%s (line %d)", path, node.Line), value, format, args...)
}

func (r *fileReader) file(raw []byte) (list []FileEntry) {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&doc); err != nil {
		r.refused.Add("file", "", "%s", yamlProblem(err))
		return nil
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		r.refused.Add("file", "", "holds more than one document")
		return nil
	}
	found := false
	r.mapping(doc.Content[0], "file", func(name string, key, value *yaml.Node) {
		if name != "schedules" {
			r.add(key, name, "is not a known field; there is schedules")
			return
		}
		found = true
		r.mapping(value, "schedules", func(name string, key, value *yaml.Node) {
			list = append(list, r.entry(name, key, value))
		})
	})
	if !found && len(r.refused.Problems) == 0 {
		r.refused.Add("file", "", "has no field schedules; for no schedules write schedules: {}")
	}
	return list
}

// yamlProblem is an error of the YAML reader with what is likely meant.
func yamlProblem(err error) string {
	text := "is not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(text, "cannot start any token") {
		return text + `; a value that begins with @ or % needs quotes, as in "@last-month"`
	}
	if strings.Contains(text, "alphabetic or numeric character") {
		return text + `; a value that begins with * needs quotes, as in "*/5 * * * *"`
	}
	return text
}

// mapping calls fn for each field of a mapping. Names are texts, each given once.
func (r *fileReader) mapping(node *yaml.Node, path string, fn func(name string, key, value *yaml.Node)) {
	node = r.resolve(node)
	if node.Kind != yaml.MappingNode {
		r.add(node, path, "must be a mapping")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], r.resolve(node.Content[i+1])
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			r.add(key, path, "has a name that is no text; merging (<<) is not understood here")
		case seen[key.Value]:
			r.add(key, path+"."+key.Value, "is given twice")
		default:
			seen[key.Value] = true
			fn(key.Value, key, value)
		}
	}
}

// mostNodes and deepest bound what aliases may blow a file up to, mostProblems what is
// said about it.
const (
	mostNodes    = 200_000
	deepest      = 100
	mostProblems = 50
)

// resolve follows an alias.
func (r *fileReader) resolve(node *yaml.Node) *yaml.Node {
	if r.nodes++; node.Kind == yaml.AliasNode && r.nodes < mostNodes {
		return node.Alias
	}
	return node
}

// fileFields are what a schedule of a file may say; report and invoices are short for
// a kind with its payload.
func fileFields() []string {
	return []string{"cron", "delimiter", "formats", "invoices", "kind", "locale", "max_attempts", "missed", "overlap", "params", "payload",
		"preset", "priority", "queue", "report", "strict", "tags", "tenant", "timeout", "zone"}
}

func (r *fileReader) entry(name string, key, node *yaml.Node) FileEntry {
	e := FileEntry{Schedule: storage.Schedule{Name: name, Overlap: true, Missed: storage.MissedOnce}, Line: key.Line, lines: map[string]int{}}
	path, given := "schedules."+name, map[string]json.RawMessage{}
	before := len(r.refused.Problems)
	r.mapping(node, path, func(field string, key, value *yaml.Node) {
		if !slices.Contains(fileFields(), field) {
			r.add(key, path+"."+field, "is not a known field; there are %s", strings.Join(fileFields(), ", "))
			return
		}
		e.lines[field] = key.Line
		given[field] = r.json(value, path+"."+field)
	})
	if len(r.refused.Problems) > before {
		return e
	}
	texts := map[string]*string{"cron": &e.Cron, "zone": &e.Zone, "tenant": &e.Tenant, "missed": &e.Missed, "kind": &e.Kind}
	for field, into := range texts {
		r.take(e, given, field, into, "must be text")
	}
	r.take(e, given, "overlap", &e.Overlap, "must be true or false")
	e.Options = object(given, "queue", "priority", "tags", "max_attempts", "timeout")
	r.request(&e, given)
	return e
}

// take reads a field into a value and removes it from what is given.
func (r *fileReader) take(e FileEntry, given map[string]json.RawMessage, field string, into any, problem string) {
	raw, ok := given[field]
	if !ok {
		return
	}
	delete(given, field)
	if text, isText := into.(*string); isText && len(raw) > 0 && strings.ContainsRune("-0123456789", rune(raw[0])) {
		*text = string(raw) // a tenant may be called 42
		return
	}
	if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
		given := string(raw)
		_ = json.Unmarshal(raw, &given) // a text without the quotes that JSON has
		r.refused.Add(e.place(field), given, "%s", problem)
	}
}

// object takes fields out of what is given and makes a JSON object of them.
func object(given map[string]json.RawMessage, fields ...string) json.RawMessage {
	taken := map[string]json.RawMessage{}
	for _, f := range fields {
		if raw, ok := given[f]; ok {
			taken[f] = raw
			delete(given, f)
		}
	}
	raw, _ := json.Marshal(taken) // it was made by us
	return raw
}

// request is what the schedule asks for: a report, the invoices of a source, or any
// kind with its payload.
func (r *fileReader) request(e *FileEntry, given map[string]json.RawMessage) {
	ways := 0
	for _, way := range []string{"report", "invoices", "kind"} {
		if e.lines[way] > 0 {
			ways++
		}
	}
	if ways != 1 {
		r.refused.Add(e.place("report"), "", "is one of three: give either report, or invoices, or kind with payload")
		return
	}
	switch {
	case e.lines["report"] > 0:
		e.Kind = "report"
		if e.Zone != "" { // the days of the report are those of its schedule
			given["zone"], _ = json.Marshal(e.Zone) // a text always can
		}
		e.Payload = object(given, "report", "params", "zone", "formats", "preset", "locale", "delimiter", "strict")
	case e.lines["invoices"] > 0:
		e.Kind = InvoiceRunName
		given["source"] = given["invoices"]
		delete(given, "invoices")
		e.Payload = object(given, "source", "params")
	default:
		if e.Payload = given["payload"]; e.Payload == nil {
			e.Payload = json.RawMessage("{}")
		}
		delete(given, "payload")
	}
	for _, field := range slices.Sorted(maps.Keys(given)) {
		r.refused.Add(e.place(field), "", "does not go with the kind %s", e.Kind)
	}
}

// jsonNumber is what a number may look like in JSON (RFC 8259 section 6).
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// json is a value as JSON. Numbers stay as they are written, so that 1.10 is not 1.1;
// dates are text.
func (r *fileReader) json(node *yaml.Node, path string) json.RawMessage {
	node = r.resolve(node)
	r.depth++
	defer func() { r.depth-- }()
	if r.nodes >= mostNodes || r.depth > deepest {
		if !r.full {
			r.add(node, path, "is too large or too deep, with all its aliases")
		}
		r.full = true
	}
	if r.full {
		return json.RawMessage("null")
	}
	switch node.Kind {
	case yaml.MappingNode:
		fields := map[string]json.RawMessage{}
		r.mapping(node, path, func(name string, _, value *yaml.Node) { fields[name] = r.json(value, path+"."+name) })
		raw, _ := json.Marshal(fields)
		return raw
	case yaml.SequenceNode:
		list := make([]json.RawMessage, len(node.Content))
		for i, item := range node.Content {
			list[i] = r.json(item, fmt.Sprintf("%s[%d]", path, i))
		}
		raw, _ := json.Marshal(list)
		return raw
	}
	return r.scalar(node, path)
}

func (r *fileReader) scalar(node *yaml.Node, path string) json.RawMessage {
	switch tag := node.ShortTag(); tag {
	case "!!str", "!!timestamp":
		raw, _ := json.Marshal(node.Value)
		return raw
	case "!!null":
		return json.RawMessage("null")
	case "!!bool":
		return json.RawMessage(strings.ToLower(node.Value))
	case "!!int", "!!float":
		if jsonNumber.MatchString(node.Value) {
			return json.RawMessage(node.Value)
		}
		r.add(node, path, "is a number that others read in another way; write it plainly, or put it in quotes")
	default:
		r.add(node, path, "has the tag %s, which is not understood here", tag)
	}
	return json.RawMessage("null")
}
