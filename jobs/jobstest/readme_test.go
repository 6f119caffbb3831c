package jobstest_test

import (
	"os"
	"strings"
	"testing"
)

// The example of the README is the one that is compiled and run here.
func TestREADMEExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, begins := strings.Cut(string(source), "word by word.\n\n")
	example, _, ends := strings.Cut(example, "\n// README: up to here.")
	if !begins || !ends || len(example) < 500 {
		t.Fatal("example_test.go does not say what is in the README")
	}
	if !strings.Contains(string(readme), "```go\n"+example+"```\n") {
		t.Errorf("the README should hold\n```go\n%s```", example)
	}
}
