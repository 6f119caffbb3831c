package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"mime"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fenceline/fenceline/storage"
)

// contract is the description of the API as the running server answers it, to hold answers against.
type contract struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

const documentURL = "urn:fenceline:openapi"

func (w *world) contract(who creds) *contract {
	w.t.Helper()
	got := w.get("/api/openapi.json", who).want(w.t, 200)
	parsed := must(jsonschema.UnmarshalJSON(strings.NewReader(got.body)))(w.t)
	c := &contract{doc: parsed.(map[string]any), compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(documentURL, parsed); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// at is what stands in the document at a path of names.
func (c *contract) at(names ...string) map[string]any {
	v := c.doc
	for _, name := range names {
		v, _ = v[name].(map[string]any)
	}
	return v
}

// operations are those of the document, as "GET /api/v1/jobs".
func (c *contract) operations() map[string]map[string]any {
	all := map[string]map[string]any{}
	for path, item := range c.at("paths") {
		for method, op := range item.(map[string]any) {
			all[strings.ToUpper(method)+" "+path] = op.(map[string]any)
		}
	}
	return all
}

// pointer is the address of a part of the document (RFC 6901).
func pointer(names ...string) string {
	at := documentURL + "#"
	for _, name := range names {
		at += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return at
}

func (c *contract) schema(names ...string) (*jsonschema.Schema, error) {
	at := pointer(names...)
	if known := c.compiled[at]; known != nil {
		return known, nil
	}
	s, err := c.compiler.Compile(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(at))
	c.compiled[at] = s
	return s, err
}

// check says how an answer to an operation is not as the document has it.
func (c *contract) check(operation string, got answer) error {
	method, path, _ := strings.Cut(operation, " ")
	status := fmt.Sprint(got.StatusCode)
	where := []string{"paths", path, strings.ToLower(method), "responses", status}
	response := c.at(where...)
	if response == nil {
		return fmt.Errorf("the status %s is not described", status)
	}
	if ref, is := response["$ref"].(string); is {
		where = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		response = c.at(where...)
	}
	for name := range response["headers"].(map[string]any) {
		if !slices.Contains([]string{"Link", "Preference-Applied", "Content-Range"}, name) && got.Header.Get(name) == "" {
			return fmt.Errorf("the header %s is described and missing", name)
		}
	}
	content, _ := response["content"].(map[string]any)
	if len(content) == 0 {
		if got.body != "" {
			return fmt.Errorf("no body is described, and there is %q", got.body)
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	described, known := content[media].(map[string]any)
	if any, anything := content["*/*"].(map[string]any); !known && anything {
		described, known = any, true
	}
	if err != nil || !known {
		return fmt.Errorf("the content type %q is not described: %v", got.Header.Get("Content-Type"), slices.Collect(maps.Keys(content)))
	}
	if described["schema"] == nil {
		return nil
	}
	return c.valid(got.body, append(where, "content", media, "schema")...)
}

func (c *contract) valid(body string, where ...string) error {
	s, err := c.schema(where...)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// Every route of the API is described, and what is described is there.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operations := w.contract(w.token("")).operations()
	for _, rt := range w.server.routes() {
		name := rt.method + " " + rt.path
		if !strings.HasPrefix(rt.path, "/api/v1/") {
			continue
		}
		op, described := operations[name]
		if !described {
			t.Errorf("%s is not described: say in web/openapi what it takes and gives", name)
			continue
		}
		if op["x-verb"] != string(rt.needs) {
			t.Errorf("%s needs %s, and %v is described", name, rt.needs, op["x-verb"])
		}
		delete(operations, name)
	}
	for name := range operations {
		t.Errorf("%s is described, and there is no such route", name)
	}
}

// The document is sound: its references lead somewhere, its schemas are schemas, its
// examples fit them, and each operation has what OpenAPI wants.
func TestTheDocumentIsSound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.contract(w.token(""))
	if c.doc["openapi"] != "3.1.0" || c.at("info")["title"] == "" || len(c.doc["servers"].([]any)) != 1 || c.at("components", "securitySchemes", "bearer")["scheme"] != "bearer" {
		t.Errorf("the head of the document is %v, %v", c.doc["openapi"], c.doc["info"])
	}
	raw := must(json.Marshal(c.doc))(t)
	for _, ref := range regexp.MustCompile(`"\$ref":"#/([^"]+)"`).FindAllSubmatch(raw, -1) {
		if c.at(strings.Split(string(ref[1]), "/")...) == nil {
			t.Errorf("#/%s leads nowhere", ref[1])
		}
	}
	for name, s := range c.at("components", "schemas") {
		if _, err := c.schema("components", "schemas", name); err != nil {
			t.Errorf("the schema %s: %v", name, err)
		}
		if s := s.(map[string]any); s["type"] == "object" && s["additionalProperties"] != false {
			t.Errorf("the schema %s lets other properties through", name)
		}
		if !bytes.Contains(raw, []byte(`"#/components/schemas/`+name+`"`)) {
			t.Errorf("the schema %s is used nowhere", name)
		}
	}
	ids := map[any]string{}
	for name, op := range c.operations() {
		if ids[op["operationId"]] != "" || op["summary"] == "" || len(op["tags"].([]any)) != 1 {
			t.Errorf("%s lacks something, or has the id of %s: %v", name, ids[op["operationId"]], op)
		}
		ids[op["operationId"]] = name
		for _, complaint := range c.unsound(name, op) {
			t.Errorf("%s: %s", name, complaint)
		}
	}
}

// unsound says what is wrong with an operation's parameters, answers and examples.
func (c *contract) unsound(name string, op map[string]any) (complaints []string) {
	method, path, _ := strings.Cut(name, " ")
	where := []string{"paths", path, strings.ToLower(method)}
	inPath := 0
	parameters, _ := op["parameters"].([]any)
	for _, p := range parameters {
		named := strings.TrimPrefix(p.(map[string]any)["$ref"].(string), "#/components/parameters/")
		if c.at("components", "parameters", named)["in"] == "path" {
			inPath++
		}
	}
	if inPath != strings.Count(path, "{") {
		complaints = append(complaints, "its path has other wildcards than it has parameters")
	}
	if body, has := op["requestBody"].(map[string]any); has {
		media := body["content"].(map[string]any)["application/json"].(map[string]any)
		if example, has := media["example"]; has {
			raw, _ := json.Marshal(example)
			if err := c.valid(string(raw), append(where, "requestBody", "content", "application/json", "schema")...); err != nil {
				complaints = append(complaints, "its example: "+err.Error())
			}
		}
	}
	success := false
	for status := range op["responses"].(map[string]any) {
		success = success || status[0] == '2'
	}
	if !success {
		complaints = append(complaints, "nothing says what it answers when all is well")
	}
	return complaints
}

// Every problem that the program can tell of is described under its slug, with its status and title.
func TestProblemsAreDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := must(w.server.docs())(t)
	for _, f := range []*failure{errSignIn, errCrossOrigin, errVerb, errTenant, errAllTenants, errMissing, errMethod, errNotFailed, errSweepOff, errSweepBusy, errOnHold, errPinned, errHeldAlready, errNoRestore, errFromFile, errNameTaken,
		errOverlap, errNotUnique, errBatchEnded, errEnded, errTargetExists, errNotYours, errGone, errFilesGone, errFilesLost, errTooLarge, errMediaType, errKeyReused, errKeyInUse, errInternal, errRecovery, errSlow} {
		p := d.api.Problem(f.slug)
		if p == nil || p.Status != f.status || p.Title != f.title {
			t.Errorf("%d %s (%s) is described as %+v", f.status, f.slug, f.title, p)
		}
	}
	c := w.contract(w.token(""))
	for slug, e := range c.at("components", "examples") {
		raw := must(json.Marshal(e.(map[string]any)["value"]))(t)
		if err := c.valid(string(raw), "components", "schemas", "Problem"); err != nil {
			t.Errorf("the example of %s: %v", slug, err)
		}
	}
}

// The page for people has every operation, problem and schema, and its links lead somewhere.
func TestTheDocsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := w.personAs("Vic", "acme", storage.RoleViewer)
	page := w.get("/api/docs", who).want(t, 200, "HTTP API", "problem-rate-limited", "urn:fenceline:problem:idempotency-key-in-use", `href="/api/docs" aria-current="page"`)
	for name, op := range w.contract(who).operations() {
		page.want(t, 200, fmt.Sprintf(`id="%s"`, op["operationId"]), strings.SplitN(name, " ", 2)[1])
	}
	for _, to := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page.body, -1) {
		if strings.Count(page.body, ` id="`+to[1]+`"`) != 1 {
			t.Errorf("#%s is there %d times", to[1], strings.Count(page.body, ` id="`+to[1]+`"`))
		}
	}
	w.get("/api/docs", nobody).want(t, 303)
	w.get("/api/openapi.json", nobody).want(t, 401)
}

// The examples of the page do what they say, against a server with a worker.
func TestTheExamplesOfTheDocs(t *testing.T) {
	t.Parallel()
	for id, run := range map[string]func(code string) *exec.Cmd{
		"curl-example": func(code string) *exec.Cmd { return exec.CommandContext(t.Context(), "sh", "-c", code) },
		"php-example": func(code string) *exec.Cmd {
			return exec.CommandContext(t.Context(), "php", "-d", "display_errors=stderr", "-r", code+"\necho (new FetchOrders('2026-01', '.'))->handle();")
		},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			runExample(t, id, run)
		})
	}
}

func runExample(t *testing.T, id string, run func(code string) *exec.Cmd) {
	t.Helper()
	w := newWorld(t)
	w.work("w-1", nil)
	page := w.get("/api/docs", w.person("Nadia", "acme")).want(t, 200)
	found := regexp.MustCompile(`(?s)<pre id="` + id + `"[^>]*><code>(.*?)</code>`).FindStringSubmatch(page.body)
	if found == nil {
		t.Fatal("the page has no such example")
	}
	dir := t.TempDir()
	for range 2 { // the second time the key gives the same job
		cmd := run(html.UnescapeString(found[1]))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "FENCELINE_URL="+w.base, "FENCELINE_TOKEN="+strings.TrimPrefix(w.token("acme").value, "Bearer "))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if got := string(must(os.ReadFile(filepath.Join(dir, "orders.csv")))(t)); got != "\"id\"\n1\n" {
		t.Errorf("downloaded %q", got)
	}
	if page := must(w.store.Jobs(w.ctx, principalAll.scope, storage.JobFilter{}))(t); len(page.Items) != 1 {
		t.Errorf("there are %d jobs, want the one of the key", len(page.Items))
	}
}
