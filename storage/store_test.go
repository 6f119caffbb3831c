package storage

import (
	"strings"
	"testing"
)

// A URL that cannot be read may hold a password that nobody can tell from the rest: no error repeats it.
func TestABadURLIsNotRepeated(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"password = hunter2 port=zz":         "invalid port",
		"postgres://u:one@hunter2@h:zz/shop": "invalid port",
		"postgres://u:one/hunter2@h:zz/shop": "invalid port",
		"postgres://u:hunter2%zz@h/shop":     "percent-encoded",
		"postgres://u:one hunter2@h/shop":    "spaces",
		"hunter2":                            "invalid keyword/value",
		"mysql://u:hunter2@h":                "invalid keyword/value",
	} {
		for name, open := range map[string]func() error{
			"DATABASE_URL":        func() error { _, err := Open(t.Context(), text, Options{}); return err },
			"DATABASE_DIRECT_URL": func() error { _, err := Open(t.Context(), "host=/nowhere", Options{DirectURL: text}); return err },
			"SOURCE_DATABASE_URL": func() error { _, err := OpenSource(text); return err },
			"DATABASE_URL ":       func() error { _, err := NewDoctor(text); return err },
			"DATABASE_URL  ":      func() error { _, err := Migrate(t.Context(), text); return err },
		} {
			err := open()
			if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)+": must be such as postgres://") || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s=%s: %v", name, text, err)
			}
		}
	}
}
