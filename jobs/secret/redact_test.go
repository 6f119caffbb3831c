package secret_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/secret"
)

func redactor(t *testing.T, raw string, paths ...string) secret.Redactor {
	t.Helper()
	s, err := secret.Find(json.RawMessage(raw), paths)
	if err != nil {
		t.Fatal(err)
	}
	return secret.NewRedactor(s.Fields)
}

func TestSecretsAreTakenOutOfErrors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("geheim", 40)
	r := redactor(t, `{"token":"hun\"ter\n2ü<","pin":123456,"deep":[{"long":"`+long+`"}],"short":"ab","open":"visible"}`, "token", "pin", "deep.*", "short")
	value := "hun\"ter\n2ü<"
	quoted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"bad token " + value, fmt.Sprintf("%q", value), fmt.Sprintf("%+q", value), string(quoted), "pin 123456", "url https://" + long + "@host"} {
		got := r.Error(fmt.Errorf("wrap: %w", fmt.Errorf("%s (%w)", text, io.ErrUnexpectedEOF)))
		if got == nil || r.Holds(got.Error()) || !strings.Contains(got.Error(), secret.Hidden) || !errors.Is(got, io.ErrUnexpectedEOF) {
			t.Errorf("%q became %q", text, got)
		}
		for _, part := range []string{"hun", "123456", "geheim"} {
			if strings.Contains(got.Error(), part) {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
	bad := new(invalid.Error)
	bad.Add("deep[0].long", long, "is too long")
	bad.Add("somewhere", long, "is too long: %s", long)
	bad.Add("Short", "ab", "must be longer")
	bad.Add("payload.pin", "number", "must be a string")
	bad.Add("open", "visible", "must be hidden")
	got := r.Error(fmt.Errorf("wrap: %w", bad)).Error()
	want := "deep[0].long: is too long\nsomewhere: is too long: •••\nShort: must be longer\npayload.pin: must be a string\nopen: \"visible\" must be hidden"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if bad.Problems[0].Value == "" {
		t.Error("the given error was changed")
	}
	if r.Error(nil) != nil || r.Error(io.EOF) != io.EOF || (secret.Redactor{}).Error(bad) != bad { //nolint:errorlint // the very same
		t.Error("what holds no secret was changed")
	}
}
