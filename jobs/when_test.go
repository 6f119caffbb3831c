package jobs_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
)

func TestResolveDays(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 30, 22, 30, 0, 0, time.UTC).In(berlin) // the 31st there; February has none
	for word, want := range map[string]string{"@today": "2026-03-31", "@yesterday": "2026-03-30", "@tomorrow": "2026-04-01", "@first-of-month": "2026-03-01",
		"@first-of-last-month": "2026-02-01", "@this-month": "2026-03", "@last-month": "2026-02", "@this-year": "2026", "@last-year": "2025", "@@today": "@today", "x@today": "x@today"} {
		got, err := jobs.ResolveDays(json.RawMessage(`{"source":"m","params":{"month":"`+word+`","n":7}}`), at)
		if err != nil || string(got) != `{"params":{"month":"`+want+`","n":7},"source":"m"}` {
			t.Errorf("%s: %s, %v", word, got, err)
		}
	}
	if _, err := jobs.ResolveDays(json.RawMessage(`{"params":{"month":"@lastmonth"}}`), at); !errors.As(err, new(*invalid.Error)) {
		t.Errorf("an unknown word: %v", err)
	}
	for _, as := range []string{`{"report":"x"}`, `{"params":[1]}`, `null`} {
		if got, err := jobs.ResolveDays(json.RawMessage(as), at); err != nil || string(got) != as {
			t.Errorf("%s became %s, %v", as, got, err)
		}
	}
}
