package web

import (
	"net/http"
	"strings"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// presetRow is what a report's own file says about how its files are written.
type presetRow struct {
	*report.Definition
	// Country is the locale where it means something: for spreadsheets.
	Country string
	// Where is the file, for those who may know of files.
	Where string
}

// Written are the report's formats with commas between them.
func (p presetRow) Written() string { return strings.Join(p.Formats, ", ") }

// presetsPage says what the presets are, which report uses which, and where that is changed.
func (s *Server) presetsPage(w http.ResponseWriter, r *http.Request) error {
	who := of(r).principal
	defs, err := s.reports.Catalog().List()
	if err != nil {
		s.log.Warn("some reports cannot be used", "request_id", of(r).id, "error", err)
	}
	v := settingsView{Tab: "presets", Facts: []Setting{
		{string(tabular.Data), "CSV and its kin as programs read them", "comma, dot, ISO dates, UTF-8 without a byte order mark; nothing is formatted"},
		{string(tabular.Spreadsheet), "CSV as spreadsheets of a locale open it", "separator, decimal mark and dates of the locale, with a byte order mark"},
	}}
	for _, d := range usable(defs, who) {
		row := presetRow{Definition: d}
		if d.Preset == string(tabular.Spreadsheet) {
			row.Country = d.Locale
		}
		if who.scope.All { // files are for those who write reports
			row.Where = d.File
		}
		v.Presets = append(v.Presets, row)
	}
	return s.showSettings(w, r, http.StatusOK, v)
}
