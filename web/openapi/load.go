package openapi

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var sources embed.FS

// API is the description of the whole API. It is safe for concurrent use as long as nobody changes it.
type API struct {
	Title    string `yaml:"title"`
	About    string `yaml:"about"`
	Areas    []Area `yaml:"-"`
	Problems []Problem
	// Parameters are those that more than one operation has, by their names.
	Parameters map[string]Parameter
	// Headers are those of answers.
	Headers map[string]Header
	// Schemas are those that belong to no area.
	Schemas map[string]Schema
	schemas map[string]Schema // all of them
}

// Area is a part of the API: a file.
type Area struct {
	Slug       string `yaml:"-"` // the name of the file
	Name       string `yaml:"area"`
	About      string
	Order      int
	Operations []Operation
	Schemas    map[string]Schema
}

// Operation is a method at a path.
type Operation struct {
	ID     string
	At     string // method and path, as in "GET /api/v1/jobs"
	Title  string
	About  string
	Query  []string // names of parameters
	Header []string
	Body   *Body
	Gives  []Answer
	Fails  []string // slugs of problems, besides those that follow from the rest
}

// Method is the method of HTTP.
func (o Operation) Method() string { method, _, _ := strings.Cut(o.At, " "); return method }

// Path is the path with its wildcards.
func (o Operation) Path() string { _, path, _ := strings.Cut(o.At, " "); return path }

// Body is what a request carries, as JSON.
type Body struct {
	Schema   string
	Optional bool
	Example  any
}

// Answer is an answer of success.
type Answer struct {
	Status int
	About  string
	// One of these says what the body is: an object of a schema; a page of a list of
	// them with a cursor; all of them; or, with Media alone, something else. None is no body.
	Schema, Page, List string
	Media              string
	Headers            []string
	Example            any
}

// Schema is a JSON Schema. Objects have no other properties than those that it names.
type Schema map[string]any

// Parameter is a part of a path or a query, or a header of requests.
type Parameter struct {
	Name    string // when it is not the key, which is then taken by a part of paths
	About   string
	Schema  Schema
	Example any
}

// Header is a header of answers.
type Header struct {
	About  string
	Schema Schema
}

// Problem is a kind of refusal, in the form of RFC 9457.
type Problem struct {
	Slug   string // the end of its type
	Status int
	Title  string
	About  string // what it means, and what to do
}

// Type is the stable name of the problem.
func (p Problem) Type() string { return "urn:fenceline:problem:" + p.Slug }

// Load reads the description that was embedded. An error is a mistake of the program.
func Load() (*API, error) { return load(sources) }

func load(from fs.FS) (*API, error) {
	names, err := fs.Glob(from, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list the description of the API: %w", err)
	}
	api := &API{schemas: map[string]Schema{}}
	for _, name := range names {
		raw, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if name == "shared.yaml" {
			if err = strictly(raw, api); err == nil {
				err = api.keep(api.Schemas)
			}
		} else {
			err = api.addArea(strings.TrimSuffix(name, ".yaml"), raw)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	slices.SortFunc(api.Areas, func(a, b Area) int { return cmp.Or(a.Order-b.Order, strings.Compare(a.Slug, b.Slug)) })
	slices.SortStableFunc(api.Problems, func(a, b Problem) int { return a.Status - b.Status })
	return api, api.check()
}

func strictly(raw []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	return d.Decode(into)
}

func (api *API) addArea(slug string, raw []byte) error {
	a := Area{Slug: slug}
	if err := strictly(raw, &a); err != nil {
		return err
	}
	api.Areas = append(api.Areas, a)
	return api.keep(a.Schemas)
}

func (api *API) keep(schemas map[string]Schema) error {
	for name, s := range schemas {
		if _, twice := api.schemas[name]; twice {
			return fmt.Errorf("the schema %s is there twice", name)
		}
		api.schemas[name] = s
	}
	return nil
}

// check finds names that stand for nothing.
func (api *API) check() error {
	ids := map[string]bool{}
	for _, a := range api.Areas {
		for _, o := range a.Operations {
			if ids[o.ID] {
				return fmt.Errorf("the operation %s is there twice", o.ID)
			}
			ids[o.ID] = true
			if err := api.checkOperation(o); err != nil {
				return fmt.Errorf("the operation %s: %w", o.ID, err)
			}
		}
	}
	return nil
}

func (api *API) checkOperation(o Operation) error {
	for _, name := range slices.Concat(o.Query, o.Header, Wildcards(o.Path())) {
		if _, known := api.Parameters[name]; !known {
			return fmt.Errorf("there is no parameter %s", name)
		}
	}
	for _, slug := range o.Fails {
		if api.Problem(slug) == nil {
			return fmt.Errorf("there is no problem %s", slug)
		}
	}
	names := []string{}
	if o.Body != nil {
		names = append(names, o.Body.Schema)
	}
	for _, a := range o.Gives {
		names = append(names, a.Schema, a.Page, a.List)
		for _, h := range a.Headers {
			if _, known := api.Headers[h]; !known {
				return fmt.Errorf("there is no header %s", h)
			}
		}
	}
	for _, name := range names {
		if _, known := api.schemas[name]; name != "" && !known {
			return fmt.Errorf("there is no schema %s", name)
		}
	}
	return nil
}

// Problem finds a problem by its slug; nil when there is none.
func (api *API) Problem(slug string) *Problem {
	for i := range api.Problems {
		if api.Problems[i].Slug == slug {
			return &api.Problems[i]
		}
	}
	return nil
}

// Wildcards are the names between the braces of a path.
func Wildcards(path string) (names []string) {
	for part := range strings.SplitSeq(path, "/") {
		if name, is := strings.CutPrefix(part, "{"); is {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// ProblemsOf are the problems that an operation may answer, by their status: its own,
// and those that follow from what it is.
func (api *API) ProblemsOf(o Operation) (list []Problem) {
	slugs := slices.Clone(o.Fails)
	slugs = append(slugs, "unauthenticated", "not-allowed", "rate-limited", "internal", "unavailable")
	if o.Method() != "GET" {
		slugs = append(slugs, "cross-origin")
	}
	if o.Body != nil {
		slugs = append(slugs, "invalid", "media-type", "too-large", "body")
	}
	if len(o.Query) > 0 {
		slugs = append(slugs, "invalid")
	}
	if slices.Contains(o.Query, "after") {
		slugs = append(slugs, "cursor")
	}
	if len(Wildcards(o.Path())) > 0 {
		slugs = append(slugs, "not-found")
	}
	for _, p := range api.Problems {
		if slices.Contains(slugs, p.Slug) {
			list = append(list, p)
		}
	}
	return list
}
