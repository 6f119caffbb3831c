package calendar

import (
	"errors"
	"fmt"
	"strings"

	"github.com/robfig/cron/v3"
)

// Cron is a parsed expression. The zero value names no time; [Parse] makes others.
type Cron struct {
	second, minute, hour, dom, month, dow uint64 // a bit for each value
	// eitherDay: days of the month and of the week are both restricted, and one of
	// them is enough (crontab(5)).
	eitherDay bool
	elapsed   bool // the hour field has a wildcard
}

// Fixed reports whether the expression names local times, each of which comes once;
// otherwise it follows the time that elapses. See the package's comment.
func (c Cron) Fixed() bool { return !c.elapsed }

// longest bounds an expression, in bytes.
const longest = 200

// Parse reads an expression: five fields (minute, hour, day of month, month, day of
// week), six with seconds first, or @yearly, @monthly, @weekly, @daily, @hourly and
// their synonyms. The error says what is wrong, in words for whoever wrote it, and
// does not repeat the expression.
//
// Fields are those of crontab(5): lists, ranges, steps, names of months and days,
// with Sunday as 0. Days of the month and of the week that are both restricted are
// alternatives; a field that begins with * does not restrict.
func Parse(expression string) (Cron, error) {
	expression = strings.TrimSpace(expression)
	switch {
	case expression == "":
		return Cron{}, errors.New("is empty: give five fields, such as 0 6 * * 1")
	case len(expression) > longest:
		return Cron{}, fmt.Errorf("has %d characters, more than %d", len(expression), longest)
	case strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ="):
		return Cron{}, errors.New("names a time zone: give it as the zone instead")
	case strings.HasPrefix(expression, "@every"):
		return Cron{}, errors.New("has no time of day to count from: name the times, as in */15 * * * * for every quarter of an hour")
	case strings.HasPrefix(expression, "@reboot"):
		return Cron{}, errors.New("has no time of day: nothing here starts once only")
	}
	fields, err := spell(expression)
	if err != nil {
		return Cron{}, err
	}
	return parseFields(fields)
}

// spell is the expression as its six fields.
func spell(expression string) ([]string, error) {
	words := map[string]string{
		"@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
		"@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
	}
	if strings.HasPrefix(expression, "@") {
		spelled, known := words[strings.ToLower(expression)]
		if !known {
			return nil, errors.New("is not one of @yearly, @monthly, @weekly, @daily and @hourly")
		}
		expression = spelled
	}
	fields := strings.Fields(expression)
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) != 6 {
		return nil, fmt.Errorf("has %d fields: there are five (minute, hour, day of month, month, day of week), or six with seconds first", len(fields))
	}
	return fields, nil
}

func parseFields(fields []string) (Cron, error) {
	names := [...]string{"seconds", "minute", "hour", "day of month", "month", "day of week"}
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	var spec *cron.SpecSchedule
	for i, field := range fields { // one after the other, so that the error can name the field
		one := []string{"*", "*", "*", "*", "*", "*"}
		one[i] = field
		parsed, err := parser.Parse(strings.Join(one, " "))
		if err == nil && (strings.HasPrefix(field, ",") || strings.HasSuffix(field, ",") || strings.Contains(field, ",,")) {
			err = errors.New("a value is missing beside a comma")
		}
		if err != nil {
			hint := ""
			if i == 5 && strings.Contains(field, "7") {
				hint = "; Sunday is 0 or SUN"
			}
			return Cron{}, fmt.Errorf("has a wrong %s field %q: %w%s", names[i], field, err, hint)
		}
		spec, _ = parsed.(*cron.SpecSchedule)
	}
	parsed, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return Cron{}, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return Cron{}, errors.New("is not an expression of fields")
	}
	open := func(field string) bool { return field[0] == '*' || field[0] == '?' }
	c := Cron{
		second: spec.Second, minute: spec.Minute, hour: spec.Hour, dom: spec.Dom, month: spec.Month, dow: spec.Dow,
		eitherDay: !open(fields[3]) && !open(fields[5]), elapsed: strings.ContainsAny(fields[2], "*?"),
	}
	if _, comes := c.ceil(0); !comes {
		return Cron{}, errors.New("never comes: no month has such a day")
	}
	return c, nil
}
