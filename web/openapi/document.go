package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Version is the version of the API's description.
const Version = "1"

// object is a JSON object.
type object = map[string]any

// Document is the description as OpenAPI 3.1 in JSON. server is the address of the
// API; verbs says what a role or a token must allow for a route, such as
// "GET /api/v1/jobs".
func (api *API) Document(server string, verbs map[string]string) ([]byte, error) {
	paths, tags := object{}, []any{}
	schemas := object{}
	for name, s := range api.schemas {
		if s["abstract"] == nil { // else it is only extended
			schemas[name] = api.object(name)
		}
	}
	for _, a := range api.Areas {
		tags = append(tags, object{"name": a.Name, "description": a.About})
		for _, o := range a.Operations {
			at, _ := paths[o.Path()].(object)
			if at == nil {
				at = object{}
				paths[o.Path()] = at
			}
			at[strings.ToLower(o.Method())] = api.operation(a, o, verbs[o.At])
			api.envelopes(o, schemas)
		}
	}
	raw, err := json.Marshal(object{
		"openapi": "3.1.0", "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"info":     object{"title": api.Title, "version": Version, "description": api.About},
		"servers":  []any{object{"url": server}},
		"security": []any{object{"bearer": []any{}}, object{"session": []any{}}},
		"tags":     tags, "paths": paths,
		"components": object{"schemas": schemas, "parameters": api.parameters(), "headers": api.headers(), "responses": api.refusals(), "examples": api.examples(), "securitySchemes": object{
			"bearer":  object{"type": "http", "scheme": "bearer", "description": "An API token, as “fenceline token create” and the settings page make them."},
			"session": object{"type": "apiKey", "in": "cookie", "name": "fenceline", "description": "The session of somebody who has signed in, for pages of Fenceline itself."},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("write the description of the API: %w", err)
	}
	return raw, nil
}

func (api *API) operation(a Area, o Operation, verb string) object {
	op := object{"operationId": o.ID, "summary": o.Title, "tags": []any{a.Name}, "responses": api.responses(o)}
	about := o.About
	if verb != "" {
		op["x-verb"] = verb
		about = strings.TrimSpace(about + "\n\nNeeds the verb `" + verb + "`.")
	}
	op["description"] = about
	var parameters []any
	for _, name := range slices.Concat(Wildcards(o.Path()), o.Query, o.Header) {
		parameters = append(parameters, reference("parameters", name))
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if o.Body != nil {
		media := object{"schema": reference("schemas", o.Body.Schema)}
		if o.Body.Example != nil {
			media["example"] = o.Body.Example
		}
		op["requestBody"] = object{"required": !o.Body.Optional, "content": object{"application/json": media}}
	}
	return op
}

func reference(kind, name string) object {
	return object{"$ref": "#/components/" + kind + "/" + name}
}

func (api *API) responses(o Operation) object {
	all := object{}
	for _, a := range o.Gives {
		all[strconv.Itoa(a.Status)] = a.response()
	}
	byStatus := map[int][]Problem{}
	for _, p := range api.ProblemsOf(o) {
		byStatus[p.Status] = append(byStatus[p.Status], p)
	}
	for status, problems := range byStatus {
		if all[strconv.Itoa(status)] = refusal(status, problems); len(problems) == 1 {
			all[strconv.Itoa(status)] = reference("responses", problems[0].Slug)
		}
	}
	return all
}

// everyAnswer are the headers that each answer has.
func everyAnswer(more ...string) object {
	headers := object{}
	for _, name := range append(more, "X-Request-Id") {
		headers[name] = reference("headers", name)
	}
	return headers
}

func (a Answer) response() object {
	media := a.Media
	schema := object{}
	switch {
	case a.Schema != "":
		schema = reference("schemas", a.Schema)
	case a.Page != "":
		schema = reference("schemas", a.Page+"Page")
	case a.List != "":
		schema = reference("schemas", a.List+"List")
	}
	if media == "" && len(schema) > 0 {
		media = "application/json"
	}
	headers := a.Headers
	if a.Page != "" {
		headers = append(slices.Clone(headers), "Link")
	}
	r := object{"description": a.About, "headers": everyAnswer(headers...)}
	if media != "" {
		all := object{}
		for one := range strings.SplitSeq(media, ", ") {
			content := object{}
			if len(schema) > 0 && one == "application/json" {
				content["schema"] = schema
			}
			if a.Example != nil {
				content["example"] = a.Example
			}
			all[one] = content
		}
		r["content"] = all
	}
	return r
}

// refusal is an answer of problems; its schema says which types it may have.
func refusal(status int, problems []Problem) object {
	types, texts, examples := []any{}, []string{}, object{}
	for _, p := range problems {
		types = append(types, p.Type())
		texts = append(texts, "`"+p.Slug+"`: "+p.About)
		examples[p.Slug] = reference("examples", p.Slug)
	}
	var more []string
	switch status {
	case http.StatusUnauthorized:
		more = []string{"WWW-Authenticate"}
	case http.StatusTooManyRequests:
		more = []string{"Retry-After"}
	}
	schema := object{"$ref": "#/components/schemas/Problem", "properties": object{"type": object{"enum": types}, "status": object{"const": status}}}
	return object{"description": strings.Join(texts, "\n\n"), "headers": everyAnswer(more...),
		"content": object{"application/problem+json": object{"schema": schema, "examples": examples}}}
}

// refusals are the answers of one kind of problem only, by its slug: those that some
// operation has.
func (api *API) refusals() object {
	all := object{}
	for _, a := range api.Areas {
		for _, o := range a.Operations {
			problems := api.ProblemsOf(o)
			for _, p := range problems {
				same := func(other Problem) bool { return other.Status == p.Status }
				if i := slices.IndexFunc(problems, same); !slices.ContainsFunc(problems[i+1:], same) {
					all[p.Slug] = refusal(p.Status, []Problem{p})
				}
			}
		}
	}
	return all
}

func (api *API) examples() object {
	all := object{}
	for _, p := range api.Problems {
		all[p.Slug] = object{"summary": p.Title, "value": object{"type": p.Type(), "title": p.Title, "status": p.Status, "detail": p.About, "request_id": "q7x2m4n8k1c5v9b3"}}
	}
	return all
}

// envelopes adds the schemas of the lists that an operation answers.
func (api *API) envelopes(o Operation, schemas object) {
	for _, a := range o.Gives {
		item := a.Page + a.List
		if item == "" {
			continue
		}
		properties := object{"items": object{"type": "array", "items": reference("schemas", item)}}
		name := a.List + "List"
		if a.Page != "" {
			name = a.Page + "Page"
			properties["next"] = object{"type": "string", "description": "The cursor of what follows, for the parameter after. It is left out at the end."}
		}
		schemas[name] = object{"type": "object", "properties": properties, "required": []any{"items"}, "additionalProperties": false}
	}
}

// SchemaNames are the names of all schemas, sorted.
func (api *API) SchemaNames() []string { return slices.Sorted(maps.Keys(api.schemas)) }

// Properties are a schema's own and those of the schema that it extends, with the
// names of those that are always there, and what the schema is in words.
func (api *API) Properties(name string) (all map[string]any, required []string, about string) {
	s := api.schemas[name]
	all = object{}
	if base, extends := s["extends"].(string); extends {
		all, required, _ = api.Properties(base)
		all = maps.Clone(all)
	}
	own, _ := s["properties"].(Schema)
	maps.Copy(all, own)
	listed, _ := s["required"].([]any)
	for _, one := range listed {
		required = append(required, fmt.Sprint(one))
	}
	about, _ = s["description"].(string)
	return all, required, about
}

// object is a schema as it stands in the document: of an object it says that there is nothing else in it.
func (api *API) object(name string) any {
	s := api.schemas[name]
	if s["properties"] == nil && s["extends"] == nil {
		return s
	}
	properties, required, about := api.Properties(name)
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	if about != "" {
		out["description"] = about
	}
	return out
}

func (api *API) parameters() object {
	all := object{}
	for name, p := range api.Parameters {
		in := "query"
		if name == strings.ToUpper(name[:1])+name[1:] {
			in = "header"
		}
		one := object{"name": cmp.Or(p.Name, name), "description": p.About, "schema": p.Schema}
		if api.isWildcard(name) {
			in, one["required"] = "path", true
		}
		one["in"] = in
		if p.Example != nil {
			one["example"] = p.Example
		}
		all[name] = one
	}
	return all
}

// isWildcard reports whether a parameter stands in a path.
func (api *API) isWildcard(name string) bool {
	for _, a := range api.Areas {
		for _, o := range a.Operations {
			if slices.Contains(Wildcards(o.Path()), name) {
				return true
			}
		}
	}
	return false
}

func (api *API) headers() object {
	all := object{}
	for name, h := range api.Headers {
		all[name] = object{"description": h.About, "schema": h.Schema}
	}
	return all
}
