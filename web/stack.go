package web

import (
	"strings"

	"github.com/fenceline/fenceline/storage"
)

// splitStack takes the stack off the error of a panic. The stack is for those who
// write handlers: it names files and functions, and no tenant can do anything with it.
func splitStack(text string) (message, stack string) {
	message, stack, found := strings.Cut(text, "\ngoroutine ")
	if !found {
		return text, ""
	}
	return strings.TrimRight(message, "\n"), "goroutine " + stack
}

// withoutStack is an error as somebody may read it.
func withoutStack(scope storage.Scope, text *string) *string {
	if text == nil || scope.All {
		return text
	}
	message, _ := splitStack(*text)
	return &message
}

// hideStacks takes the stacks off attempts for those who do not see all tenants.
func hideStacks(scope storage.Scope, attempts []storage.Attempt) {
	for i := range attempts {
		attempts[i].Error = withoutStack(scope, attempts[i].Error)
	}
}

// withoutStacks is withoutStack for a list of jobs.
func withoutStacks(scope storage.Scope, list []storage.Job) {
	for i := range list {
		list[i].Error = withoutStack(scope, list[i].Error)
	}
}
