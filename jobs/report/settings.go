package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// maxTimeout is the longest that a query may run.
const maxTimeout = 24 * time.Hour

var (
	formatShape = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}(\.[a-z0-9]{1,4})?$`)
	sourceShape = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
)

// presets in the order in which messages name them.
func presets() []string { return []string{string(tabular.Data), string(tabular.Spreadsheet)} }

func presetProblem(name string) string {
	return "is no preset: there are " + strings.Join(presets(), ", ") + DidYouMean(name, presets())
}

// format only looks at the shape of the names: which formats there are is known
// to the program, see [Definition.Choose].
func (h *header) format(line int, value string) {
	var formats []string
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		switch {
		case !formatShape.MatchString(name):
			h.fail(line, fmt.Sprintf("format %q: give names with commas between them, such as csv, xlsx, csv.gz", name))
			return
		case slices.Contains(formats, name):
			h.fail(line, fmt.Sprintf("format %s is given twice", name))
			return
		}
		formats = append(formats, name)
	}
	slices.Sort(formats)
	h.def.Formats = formats
}

func (h *header) preset(line int, value string) {
	if !slices.Contains(presets(), value) {
		h.fail(line, fmt.Sprintf("preset %q %s", value, presetProblem(value)))
		return
	}
	h.def.Preset = value
}

func (h *header) locale(line int, value string) {
	l, ok := tabular.LocaleByName(value)
	if !ok {
		h.fail(line, fmt.Sprintf("locale %q %s", value, localeProblem(value)))
		return
	}
	h.def.Locale = l.Name
}

func (h *header) zone(line int, value string) {
	if _, ok := loadZone(value); !ok {
		h.fail(line, fmt.Sprintf("zone %q %s", value, zoneProblem(value)))
		return
	}
	h.def.Zone = value
}

func (h *header) strict(line int, value string) {
	switch value {
	case "yes":
		h.def.Strict = true
	case "no":
	default:
		h.fail(line, fmt.Sprintf("strict %q: say yes or no", value))
	}
}

func (h *header) tenant(_ int, value string) {
	if value == "shared" {
		h.def.Shared = true
		return
	}
	h.def.Tenant = value
}

// checkTenant looks for the parameter when all lines are read.
func (h *header) checkTenant() {
	d, line := h.def, h.def.lines["tenant"]
	if d.Tenant == "" {
		return
	}
	i := slices.IndexFunc(d.Params, func(p Param) bool { return p.Name == d.Tenant })
	switch {
	case i < 0:
		h.fail(line, fmt.Sprintf("tenant %q is no param: declare it with a line param: %s text, or say tenant: shared%s",
			d.Tenant, d.Tenant, DidYouMean(d.Tenant, append(paramNames(d.Params), "shared"))))
	case d.Params[i].Default != nil:
		h.fail(d.Params[i].line, fmt.Sprintf("param %s comes from the tenant of the job: take its default away", d.Tenant))
	case d.Params[i].Type == List:
		h.fail(d.Params[i].line, fmt.Sprintf("param %s comes from the tenant of the job, which is one value: make it no list", d.Tenant))
	default:
		// A NULL could read as "of every tenant".
		d.Params[i].Required = true
	}
}

// series makes the report a source of invoices.
func (h *header) series(line int, value string) {
	if !sourceShape.MatchString(value) {
		h.fail(line, fmt.Sprintf("series %q: begin with a letter, go on with a-z, 0-9, - and _, at most 63", value))
		return
	}
	h.def.Series = value
}

func (h *header) source(line int, value string) {
	if !sourceShape.MatchString(value) {
		h.fail(line, fmt.Sprintf("source %q: begin with a letter, go on with a-z, 0-9, - and _, at most 63", value))
		return
	}
	h.def.Source = value
}

func (h *header) maxRows(line int, value string) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 1 {
		h.fail(line, fmt.Sprintf("max_rows %q: give a whole number from 1", value))
		return
	}
	h.def.MaxRows = n
}

func (h *header) timeout(line int, value string) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d > maxTimeout {
		h.fail(line, fmt.Sprintf("timeout %q: give a duration from 1ms to 24h, such as 90s or 10m", value))
		return
	}
	h.def.Timeout = d
}
