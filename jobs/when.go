package jobs

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// whens are the words for days that a schedule's parameters may use. They are
// reckoned from the local fire time, so that a run that was missed bills the
// month that it was meant for.
func whens(at time.Time) map[string]string {
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	this, last := firstOfMonth(at, 0), firstOfMonth(at, -1)
	return map[string]string{
		"@today": day(at), "@yesterday": day(at.AddDate(0, 0, -1)), "@tomorrow": day(at.AddDate(0, 0, 1)),
		"@first-of-month": day(this), "@first-of-last-month": day(last),
		"@this-month": this.Format("2006-01"), "@last-month": last.Format("2006-01"),
		"@this-year": at.Format("2006"), "@last-year": firstOfMonth(at, -12).Format("2006"),
	}
}

// firstOfMonth is counted from the first: a month before the 31st there may be no 31st.
func firstOfMonth(at time.Time, months int) time.Time {
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, at.Location()).AddDate(0, months, 0)
}

// ResolveDays replaces the words for days in the params of a payload, such as
// @last-month or @yesterday, by what they are at a fire time in its zone. @@ stands
// for one @. A word that there is not is an [*invalid.Error].
func ResolveDays(payload json.RawMessage, at time.Time) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	var params map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil || json.Unmarshal(fields["params"], &params) != nil {
		return payload, nil // nothing to replace; the kind says what is wrong with it
	}
	refused, words := new(invalid.Error), whens(at)
	for name, raw := range params {
		var value string
		if json.Unmarshal(raw, &value) != nil || !strings.HasPrefix(value, "@") {
			continue
		}
		if rest, escaped := strings.CutPrefix(value, "@@"); escaped {
			value = "@" + rest
		} else if day, known := words[value]; known {
			value = day
		} else {
			refused.Add("params."+name, value, "is no word for days: there are %s; write @@ for one @", strings.Join(slices.Sorted(maps.Keys(words)), ", "))
		}
		params[name], _ = json.Marshal(value) // a string always can
	}
	if err := refused.OrNil(); err != nil {
		return nil, err
	}
	fields["params"], _ = json.Marshal(params)
	return json.Marshal(fields)
}
