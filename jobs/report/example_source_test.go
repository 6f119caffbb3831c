package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"

	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// shopAPI is a source: orders of a shop on the web. The text below the front
// matter of its reports is the path to ask.
type shopAPI struct{ base string }

// order is what the API gives.
type order struct {
	ID      json.Number `json:"id"`
	Status  string      `json:"status"`
	Total   json.Number `json:"total"` // not a float64, which has no cents
	Note    *string     `json:"note"`
	Ordered time.Time   `json:"ordered"`
}

// Describe is the same for every report: the API has one kind of answer.
func (s shopAPI) Describe(context.Context, report.Request) ([]tabular.Column, error) {
	return []tabular.Column{
		{Name: "id", OID: tabular.OIDInt8, Type: "bigint"},
		{Name: "status", OID: tabular.OIDText, Type: "text"},
		{Name: "total", OID: tabular.OIDNumeric, Type: "numeric(12,2)", Precision: 12, Scale: 2},
		{Name: "note", OID: tabular.OIDText, Type: "text"},
		{Name: "ordered", OID: tabular.OIDTimestampTZ, Type: "timestamp with time zone"},
	}, nil
}

// Open asks once and decodes the answer while it is read.
func (s shopAPI) Open(ctx context.Context, r report.Request) (report.Reading, error) {
	columns, err := s.Describe(ctx, r)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(r.Zone)
	if err != nil {
		return nil, err
	}
	path := strings.TrimSpace(r.Report.Body)
	if !strings.HasPrefix(path, "/") {
		return nil, report.Mistakes{r.Report.Mistake(1, "write the path to ask, such as /orders")}
	}
	asOf := time.Now() // before the answer, so that it is not older
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path+"?"+url.Values{"since": {r.Values["since"]}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	reading := &apiReading{columns: columns, zone: zone, body: answer.Body, dec: json.NewDecoder(answer.Body), asOf: asOf}
	if answer.StatusCode != http.StatusOK {
		_ = reading.Close()
		return nil, fmt.Errorf("the shop answers %s", answer.Status)
	}
	if _, err := reading.dec.Token(); err != nil { // the [ of the list
		_ = reading.Close()
		return nil, err
	}
	return reading, nil
}

// apiReading is one answer. Its body ends with the context of the request.
type apiReading struct {
	columns []tabular.Column
	zone    *time.Location
	body    io.ReadCloser
	dec     *json.Decoder
	asOf    time.Time
	values  [][]byte
	err     error
}

func (r *apiReading) Columns() []tabular.Column { return r.columns }
func (r *apiReading) Values() [][]byte          { return r.values }
func (r *apiReading) Err() error                { return r.err }
func (r *apiReading) AsOf() time.Time           { return r.asOf }
func (r *apiReading) Close() error              { return r.body.Close() }

func (r *apiReading) Next() bool {
	if !r.dec.More() {
		_, r.err = r.dec.Token() // the ], or half an answer is an error
		return false
	}
	var o order
	if r.err = r.dec.Decode(&o); r.err != nil {
		return false
	}
	r.values = append(r.values[:0], []byte(o.ID), []byte(o.Status), []byte(o.Total), nil,
		[]byte(o.Ordered.In(r.zone).Format("2006-01-02 15:04:05.999999-07:00")))
	if o.Note != nil {
		r.values[3] = []byte(*o.Note)
	}
	return true
}

// A source of one's own: rows from an HTTP API, written as CSV and XLSX. A
// program registers the source under the name that its reports give; here they
// are put together by hand.
func Example_source() {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `[
			{"id": 352776136104522888, "status": "p", "total": 12.50, "note": "say \"hi\"", "ordered": "`+r.FormValue("since")+`T09:30:00Z"},
			{"id": 2, "status": "o", "total": 0.10, "note": null, "ordered": "2026-01-31T10:00:00Z"}]`)
	}))
	defer shop.Close()
	sources := map[string]report.Source{"shop": shopAPI{base: shop.URL}}

	def, err := report.Parse("web-orders.sql", []byte(`-- title: Web orders
-- source: shop
-- tenant: shared
-- param: since date required
-- column: status enum(p "Paid", o "Open") "Status"
-- column: total money(EUR) "Total"
-- format: csv, xlsx
-- zone: Europe/Berlin

/v1/orders
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := writeBoth(context.Background(), sources[def.Source], def, map[string]string{"since": "2026-01-30"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(files["csv"])
	book, err := excelize.OpenReader(files["xlsx"])
	if err != nil {
		fmt.Println(err)
		return
	}
	defer book.Close()
	rows, err := book.GetRows(book.GetSheetName(0), excelize.Options{RawCellValue: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range rows {
		fmt.Printf("%q\n", row[:3])
	}

	// Output:
	// "id","status","total","note","ordered"
	// 352776136104522888,p,12.50,"say ""hi""",2026-01-30T10:30:00+01:00
	// 2,o,0.10,,2026-01-31T11:00:00+01:00
	// ["id" "Status" "Total"]
	// ["352776136104522888" "Paid" "12.50"]
	// ["2" "Open" "0.10"]
}

// writeBoth writes the files that the report itself wants.
func writeBoth(ctx context.Context, source report.Source, def *report.Definition, given map[string]string) (map[string]*bytes.Buffer, error) {
	formats, err := report.NewFormats()
	if err != nil {
		return nil, err
	}
	choice, err := def.Choose(formats, report.Choice{})
	if err != nil {
		return nil, err
	}
	values, err := def.Canonical(given)
	if err != nil {
		return nil, err
	}
	rows, err := source.Open(ctx, report.Request{Report: def, Values: values, Zone: choice.Zone})
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	layouts, err := def.Layouts(rows.Columns(), choice)
	if err != nil {
		return nil, err
	}
	files, targets := map[string]*bytes.Buffer{}, []report.Target{}
	for i, name := range choice.Formats {
		file, err := formats.Get(name)
		if err != nil {
			return nil, err
		}
		files[name] = new(bytes.Buffer)
		targets = append(targets, report.Target{File: file, W: files[name], Layout: layouts[i]})
	}
	_, err = report.Write(ctx, rows, targets, def.MaxRows, nil)
	return files, err
}
