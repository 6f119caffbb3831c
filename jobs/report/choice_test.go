package report_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// two are formats beside the built-in ones: one that compresses by itself.
func two(t *testing.T) *report.Formats {
	t.Helper()
	return formats(t, (&lines{compressible: true}).format("txt"), new(lines).format("zipped"))
}

func TestFormats(t *testing.T) {
	t.Parallel()
	f := two(t)
	names := strings.Join(f.Names(), " ")
	if !strings.HasPrefix(names, "csv csv.gz csv.zst ") || !strings.HasSuffix(names, " txt txt.gz txt.zst zipped") {
		t.Errorf("got %s", names)
	}
	for name, want := range map[string][2]string{
		"csv": {"", "text/csv; charset=utf-8"}, "csv.gz": {"gzip", "application/gzip"}, "txt.zst": {"zstd", "application/zstd"}, "zipped": {"", "text/lines"},
	} {
		file, err := f.Get(name)
		format, _, _ := strings.Cut(name, ".")
		if err != nil || file.Name != name || file.Format.Name != format || [2]string{file.Compression, file.MediaType} != want {
			t.Errorf("%s: got %+v, %v", name, file, err)
		}
	}
	for _, name := range []string{"", "CSV", "csv.bz2", "zipped.gz", "csvv"} {
		_, err := f.Get(name)
		refused, ok := errors.AsType[*invalid.Error](err)
		if !ok || refused.Problems[0].Field != "format" || !strings.HasPrefix(refused.Problems[0].Message, "is no format: there are csv, csv.gz, csv.zst, ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestFormatsAreRefused(t *testing.T) {
	t.Parallel()
	good := new(lines).format("txt")
	bare, silent := good, good
	bare.New, silent.MediaType = nil, ""
	for want, more := range map[string][]tabular.Format{
		"format csv is registered twice":                                                      {new(lines).format("csv")},
		"format txt is registered twice":                                                      {good, good},
		`format name "Txt": begin with a-z, go on with a-z and 0-9, at most 16`:               {new(lines).format("Txt")},
		`format name "": begin with a-z, go on with a-z and 0-9, at most 16`:                  {new(lines).format("")},
		`format name "txt.gz": begin with a-z, go on with a-z and 0-9, at most 16`:            {new(lines).format("txt.gz")},
		`format name "abcdefghijklmnopq": begin with a-z, go on with a-z and 0-9, at most 16`: {new(lines).format("abcdefghijklmnopq")},
		"format txt has no New or no media type":                                              {bare},
		"format txt has no New or no media type\x00":                                          {silent},
	} {
		if _, err := report.NewFormats(more...); err == nil || err.Error() != strings.Trim(want, "\x00") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// choose gives the choice as JSON.
func choose(t *testing.T, d *report.Definition, c report.Choice) (string, report.Choice) {
	t.Helper()
	chosen, err := d.Choose(two(t), c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(chosen)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), chosen
}

func TestChoose(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	const plain = "select 1"
	tests := []struct {
		src    string
		choice report.Choice
		want   string
		key    string
	}{
		{plain, report.Choice{}, `{"formats":["csv"],"preset":"data","zone":"UTC","delimiter":",","strict":false}`, "a"},
		{plain, report.Choice{Formats: []string{"csv"}, Preset: "data", Locale: "de-DE", Zone: "UTC", Delimiter: ",", Strict: &no},
			`{"formats":["csv"],"preset":"data","zone":"UTC","delimiter":",","strict":false}`, "a"},
		{plain, report.Choice{Formats: []string{"zipped", "csv", "zipped"}}, `{"formats":["csv","zipped"],"preset":"data","zone":"UTC","delimiter":",","strict":false}`, "a#csv,zipped"},
		{plain, report.Choice{Formats: []string{"txt.gz"}, Zone: "Europe/Berlin"}, `{"formats":["txt.gz"],"preset":"data","zone":"Europe/Berlin","delimiter":",","strict":false}`, "a#txt.gz;zone=Europe/Berlin"},
		{plain, report.Choice{Delimiter: "tab", Strict: &yes}, `{"formats":["csv"],"preset":"data","zone":"UTC","delimiter":"tab","strict":true}`, "a#delimiter=tab;strict=yes"},
		{plain, report.Choice{Preset: "spreadsheet"}, `{"formats":["csv"],"preset":"spreadsheet","locale":"en-US","zone":"UTC","delimiter":",","strict":false}`, "a#preset=spreadsheet"},
		{plain, report.Choice{Preset: "spreadsheet", Locale: "de-de"}, `{"formats":["csv"],"preset":"spreadsheet","locale":"de-DE","zone":"UTC","delimiter":";","strict":false}`, "a#preset=spreadsheet;locale=de-DE"},
		{plain, report.Choice{Preset: "spreadsheet", Locale: "de-DE", Delimiter: ","}, `{"formats":["csv"],"preset":"spreadsheet","locale":"de-DE","zone":"UTC","delimiter":",","strict":false}`,
			"a#preset=spreadsheet;locale=de-DE;delimiter=comma"},
		{settings, report.Choice{}, `{"formats":["csv.gz","xlsx"],"preset":"spreadsheet","locale":"de-DE","zone":"Europe/Berlin","delimiter":";","strict":true}`, "a"},
		{settings, report.Choice{Formats: []string{"csv"}, Preset: "data", Zone: "UTC", Strict: &no}, `{"formats":["csv"],"preset":"data","zone":"UTC","delimiter":",","strict":false}`,
			"a#csv;preset=data;zone=UTC;strict=no"},
		{settings, report.Choice{Locale: "fr-FR"}, `{"formats":["csv.gz","xlsx"],"preset":"spreadsheet","locale":"fr-FR","zone":"Europe/Berlin","delimiter":";","strict":true}`, "a#locale=fr-FR"},
	}
	for _, tt := range tests {
		d := parse(t, "a", tt.src)
		got, chosen := choose(t, d, tt.choice)
		if got != tt.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", tt.choice, got, tt.want)
		}
		if again, _ := choose(t, d, chosen); again != got {
			t.Errorf("%+v: chosen again %s", tt.choice, again)
		}
		for _, c := range []report.Choice{tt.choice, chosen} {
			if key, err := d.Key(nil, c); err != nil || key != tt.key {
				t.Errorf("%+v: key %q, %v, want %q", c, key, err, tt.key)
			}
		}
	}
}

func TestChooseRefuses(t *testing.T) {
	t.Parallel()
	d := parse(t, "a", "select 1")
	c := report.Choice{Formats: []string{"csv", "txtt", "zipped.gz"}, Preset: "Data", Locale: "de", Zone: "Local", Delimiter: "\t"}
	_, err := d.Choose(two(t), c)
	refused, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range refused.Problems {
		message, _, _ := strings.Cut(p.Message, " there are ")
		got = append(got, p.Field+"="+p.Value+": "+message)
	}
	want := []string{"formats[1]=txtt: is no format:", "formats[2]=zipped.gz: is no format:", "preset=Data: is no preset:", "locale=de: is no locale:",
		"zone=Local: is no IANA time zone such as Europe/Berlin or UTC", "delimiter=\t: is no delimiter:"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !strings.HasSuffix(refused.Problems[0].Message, "; did you mean txt?") {
		t.Errorf("got %s", refused.Problems[0].Message)
	}
}

func TestAReportWithAnUnknownFormatIsAMistake(t *testing.T) {
	t.Parallel()
	_, err := parse(t, "a", "\n-- title: A\n-- format: csv, csf\nselect 1").Choose(two(t), report.Choice{Formats: []string{"csv"}})
	var mistakes report.Mistakes
	if !errors.As(err, &mistakes) || len(mistakes) != 1 || mistakes[0].Line != 3 || !strings.HasPrefix(mistakes[0].Message, `format "csf" is no format: there are csv, `) {
		t.Errorf("got %v", err)
	}
}

func TestKeyHasValuesAndChoice(t *testing.T) {
	t.Parallel()
	d := parse(t, "orders", "-- param: shop text\n-- param: from date\n-- tenant: shop\nselect :from, :shop")
	c := report.Choice{Formats: []string{"csv.gz"}, Zone: "Europe/Berlin"}
	const want = "orders?from=2026-01-01#csv.gz;zone=Europe/Berlin"
	for _, values := range []map[string]string{{"from": "2026-01-01"}, {"from": "2026-01-01", "shop": "north"}} {
		if got, err := d.Key(values, c); err != nil || got != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	// A value cannot look like a choice.
	d = parse(t, "a", "-- param: q text\nselect :q")
	if got, err := d.Key(map[string]string{"q": "x#csv.gz;zone=Europe/Berlin"}, report.Choice{}); err != nil || strings.Contains(got, "#") {
		t.Errorf("got %q, %v", got, err)
	}
	long := map[string]string{"q": strings.Repeat("x", 2000)}
	one, _ := d.Key(long, report.Choice{})
	two, _ := d.Key(long, c)
	if one == two || len(two) > report.MaxKey {
		t.Errorf("got %q and %q", one, two)
	}
}

func TestGiven(t *testing.T) {
	t.Parallel()
	own := "-- param: shop enum(north,south,default)\n-- tenant: shop\nselect :shop"
	tests := []struct {
		src    string
		values map[string]string
		tenant string
		want   map[string]string
		err    string
	}{
		{"select 1", nil, "default", nil, ""},
		{"select 1", map[string]string{"x": "1"}, "default", map[string]string{"x": "1"}, ""},
		{"select 1", nil, "north", nil, `tenant: "north" cannot have report a, which does not say whose rows it reads: add a line tenant: PARAM or tenant: shared to a.sql`},
		{"select 1", nil, "", nil, `tenant: cannot have report a, which does not say whose rows it reads: add a line tenant: PARAM or tenant: shared to a.sql`},
		{"-- tenant: shared\nselect 1", map[string]string{"x": "1"}, "north", map[string]string{"x": "1"}, ""},
		{own, nil, "north", map[string]string{"shop": "north"}, ""},
		{own, map[string]string{"x": "1"}, "default", map[string]string{"x": "1", "shop": "default"}, ""},
		{own, map[string]string{"shop": "south"}, "north", nil, `params.shop: "south" cannot be given: it comes from the tenant of the job`},
		{own, map[string]string{"shop": ""}, "north", nil, `params.shop: cannot be given: it comes from the tenant of the job`},
		{own, nil, "", nil, "tenant: is required: report a reads the rows of one tenant"},
		{own, nil, "east", nil, `tenant: "east" is not one of north, south, default: report a takes it for shop`},
	}
	for _, tt := range tests {
		d := parse(t, "a", tt.src)
		got, err := d.Given(tt.values, tt.tenant)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if !reflect.DeepEqual(got, tt.want) || message != tt.err {
			t.Errorf("%q for %q: got %v, %v", tt.values, tt.tenant, got, err)
		}
	}
	values := map[string]string{}
	if _, err := parse(t, "a", own).Given(values, "north"); err != nil || len(values) > 0 {
		t.Errorf("the caller's values became %v, %v", values, err)
	}
	// What was never given is not read as everybody's.
	if _, err := parse(t, "a", own).Bind(nil); err == nil || err.Error() != "params.shop: is required: one of north, south, default (shop)" {
		t.Errorf("got %v", err)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	zones := report.Zones()
	if len(zones) < 300 {
		t.Errorf("there are %d zones", len(zones))
	}
	d := parse(t, "a", "select 1")
	for _, zone := range append(zones, "Asia/Calcutta", "Etc/GMT+5", "America/Argentina/Buenos_Aires") {
		if _, err := d.Choose(two(t), report.Choice{Zone: zone}); err != nil {
			t.Error(err)
		}
	}
	for _, zone := range []string{"Local", "localtime", "utc", "../etc/passwd", "Europe/../Etc/UTC", "right/UTC", "posixrules", "Factory", "tzdata.zi", "+01:00", "Europe", "Europe/", "Nowhere/City"} {
		if _, err := d.Choose(two(t), report.Choice{Zone: zone}); err == nil {
			t.Errorf("%s is a zone", zone)
		}
	}
}
