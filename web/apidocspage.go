package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/web/openapi"
)

// docsView is the page about the API.
type docsView struct {
	Base     string // the address of the server
	About    string
	Areas    []docsArea
	Problems []openapi.Problem
	Schemas  []docsSchema
}

type docsArea struct {
	openapi.Area
	Operations []docsOperation
}

// docsOperation is an operation as the page shows it.
type docsOperation struct {
	openapi.Operation
	Verb     string
	Inputs   []docsField
	Body     string // the schema
	Answers  []docsAnswer
	Problems []openapi.Problem
	Curl     string
}

type docsAnswer struct {
	Status         int
	About, Of      string // Of is the schema of the object, or of each in a list
	Listed, Cursor bool
	Media          string
}

type docsSchema struct {
	Name, About string
	Fields      []docsField
}

// docsField is a parameter or a property.
type docsField struct {
	Name, In, Type, Of, About string
	Needed                    bool
}

// docsPage shows the API to people.
func (s *Server) docsPage(w http.ResponseWriter, r *http.Request) error {
	d, err := s.docs()
	if err != nil {
		return err
	}
	v := docsView{Base: s.publicURL, About: d.api.About, Problems: d.api.Problems}
	for _, a := range d.api.Areas {
		area := docsArea{Area: a}
		for _, o := range a.Operations {
			area.Operations = append(area.Operations, s.showOperation(d, o))
		}
		v.Areas = append(v.Areas, area)
	}
	for _, name := range d.api.SchemaNames() {
		v.Schemas = append(v.Schemas, showSchema(d.api, name))
	}
	return s.render(w, r, http.StatusOK, "apidocs", v)
}

func (s *Server) showOperation(d described, o openapi.Operation) docsOperation {
	op := docsOperation{Operation: o, Verb: d.verbs[o.At], Problems: d.api.ProblemsOf(o), Curl: curlLine(s.publicURL, o)}
	if o.Body != nil {
		op.Body = o.Body.Schema
	}
	for in, names := range [][]string{openapi.Wildcards(o.Path()), o.Query, o.Header} {
		for _, name := range names {
			p := d.api.Parameters[name]
			f := docsField{Name: cmp.Or(p.Name, name), In: []string{"path", "query", "header"}[in], About: p.About, Needed: in == 0}
			f.Type, f.Of = typeOf(p.Schema)
			op.Inputs = append(op.Inputs, f)
		}
	}
	for _, a := range o.Gives {
		op.Answers = append(op.Answers, docsAnswer{a.Status, a.About, a.Schema + a.Page + a.List, a.Page+a.List != "", a.Page != "", a.Media})
	}
	return op
}

// curlLine asks for an operation in a shell, with a token in FENCELINE_TOKEN.
func curlLine(base string, o openapi.Operation) string {
	line := `curl -H "Authorization: Bearer $FENCELINE_TOKEN"`
	if o.Method() != "GET" {
		line += " -X " + o.Method()
	}
	if o.Body != nil && o.Body.Example != nil {
		raw, err := json.Marshal(o.Body.Example)
		if err == nil { // it is of YAML, so it can be written
			line += " --json " + shellQuote(string(raw))
		}
	}
	path := o.Path()
	for _, name := range openapi.Wildcards(path) {
		path = strings.Replace(path, "{"+name+"}", strings.ToUpper(name), 1)
	}
	return line + " " + shellQuote(base+path)
}

func showSchema(a *openapi.API, name string) docsSchema {
	properties, required, about := a.Properties(name)
	shown := docsSchema{Name: name, About: about}
	for _, property := range slices.Sorted(maps.Keys(properties)) {
		of, _ := properties[property].(openapi.Schema)
		f := docsField{Name: property, Needed: slices.Contains(required, property)}
		f.About, _ = of["description"].(string)
		f.Type, f.Of = typeOf(of)
		shown.Fields = append(shown.Fields, f)
	}
	return shown
}

// typeOf says a schema in words, and which one it refers to.
func typeOf(s openapi.Schema) (words, of string) {
	if ref, is := s["$ref"].(string); is {
		return "", strings.TrimPrefix(ref, "#/components/schemas/")
	}
	words, _ = s["type"].(string)
	if types, several := s["type"].([]any); several {
		words = strings.Trim(fmt.Sprint(types), "[]")
		words = strings.ReplaceAll(words, " ", " or ")
	}
	if words == "array" {
		items, _ := s["items"].(openapi.Schema)
		inner, of := typeOf(items)
		return strings.TrimSpace("list of " + inner), of
	}
	if format, is := s["format"].(string); is {
		words += " (" + format + ")"
	}
	if values, is := s["enum"].([]any); is {
		words = strings.Trim(fmt.Sprintf("%q", values), "[]")
		words = strings.NewReplacer(`" "`, ", ", `"`, "").Replace(words)
	}
	if words == "" {
		words = "any JSON"
	}
	return words, ""
}
