package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/storage"
)

// previewRows is how many rows a preview shows.
const previewRows = 10

// previewCell is how much of a cell it shows, in bytes.
const previewCell = 1000

// formatField is the choice of one or several formats.
func (s *Server) formatField(chosen []string) formField {
	f := formField{Name: "c.formats", Label: "Formats", Kind: "checks", Hint: "Several are made from one reading, and published together or not at all."}
	for _, name := range s.reports.Formats().Names() {
		f.Options = append(f.Options, formOption{Value: name, Text: name, Chosen: slices.Contains(chosen, name)})
	}
	return f
}

// choiceFields are those of how files look. What is left alone is as the report says.
func (s *Server) choiceFields(def *report.Definition, given url.Values) []formField {
	fields := []formField{
		{Name: "c.preset", Label: "CSV is for", Kind: "select", Options: []formOption{
			{Text: "as the report says"}, {Value: "data", Text: "programs: exact, the same everywhere"}, {Value: "spreadsheet", Text: "a spreadsheet such as Excel"}}},
		{Name: "c.locale", Label: "Country of the spreadsheet", Kind: "select", Options: []formOption{{Text: "as the report says"}}},
		{Name: "c.delimiter", Label: "Between the fields of CSV", Kind: "select", Options: []formOption{
			{Text: "as preset and country say"}, {Value: ",", Text: "comma ,"}, {Value: ";", Text: "semicolon ;"}, {Value: "tab", Text: "tab"}, {Value: "|", Text: "bar |"}}},
		{Name: "c.zone", Label: "Time zone", Kind: "text", Hint: "Days begin and times are shown in it, such as Europe/Berlin. Left empty it is " + def.Zone + "."},
		{Name: "c.strict", Label: "When a value would be cut, replaced or turned into text", Kind: "select", Options: []formOption{
			{Text: "as the report says"}, {Value: "no", Text: "go on, count it and show a warning"}, {Value: "yes", Text: "fail"}}},
	}
	for _, name := range tabular.LocaleNames() {
		fields[1].Options = append(fields[1].Options, formOption{Value: name, Text: name})
	}
	for i := range fields {
		fields[i].Value = given.Get(fields[i].Name)
	}
	return fields
}

// formChoice is what a form chose; what was left alone is not given.
func formChoice(form url.Values) report.Choice {
	c := report.Choice{Formats: form["c.formats"], Preset: form.Get("c.preset"), Locale: form.Get("c.locale"), Zone: form.Get("c.zone"), Delimiter: form.Get("c.delimiter")}
	if strict := form.Get("c.strict"); strict != "" {
		yes := strict == "yes"
		c.Strict = &yes
	}
	return c
}

// previewForm shows the form again with the first rows of what it asks for.
func (s *Server) previewForm(w http.ResponseWriter, r *http.Request) error {
	def, err := s.definition(r)
	if err != nil {
		return err
	}
	if err := parseForm(w, r); err != nil {
		return err
	}
	req, err := formRequest(of(r).principal, def, r.PostForm)
	if err != nil {
		return err
	}
	page, err := s.reports.Preview(r.Context(), req.Tenant, def.Name, formParams(def, r.PostForm), formChoice(r.PostForm), previewRows)
	var bad *invalid.Error
	if errors.As(err, &bad) {
		return s.showForm(w, r, http.StatusUnprocessableEntity, def, r.PostForm, bad.Problems, nil)
	}
	var refused *storage.QueryError
	switch {
	case errors.As(err, &refused), jobs.BadRows(err):
		// Whoever asks can do something about it, so the page says what it is.
		return s.showForm(w, r, http.StatusUnprocessableEntity, def, r.PostForm, []invalid.Problem{{Field: "preview", Message: err.Error()}}, nil)
	case err != nil:
		return err
	}
	shortenCells(page)
	return s.showForm(w, r, http.StatusOK, def, r.PostForm, nil, &page)
}

// shortenCells bounds what a preview sends: a cell of a report has no limit.
func shortenCells(page report.Page) {
	for _, row := range page.Rows {
		for i, v := range row {
			if v != nil && len(*v) > previewCell {
				short := strings.ToValidUTF8((*v)[:previewCell], "") + "…"
				row[i] = &short
			}
		}
	}
}
