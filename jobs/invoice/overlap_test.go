package invoice

import (
	"encoding/xml"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// word is a word on a page with its box, in points from the top left.
type word struct {
	XMin float64 `xml:"xMin,attr"`
	YMin float64 `xml:"yMin,attr"`
	XMax float64 `xml:"xMax,attr"`
	YMax float64 `xml:"yMax,attr"`
	Text string  `xml:",chardata"`
}

type bboxPage struct {
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
	Words  []word  `xml:"word"`
}

func boxes(tb testing.TB, path string) []bboxPage {
	tb.Helper()
	var doc struct {
		Pages []bboxPage `xml:"body>doc>page"`
	}
	if err := xml.Unmarshal([]byte(run(tb, "pdftotext", "-bbox", path, "-")), &doc); err != nil {
		tb.Fatal(err)
	}
	return doc.Pages
}

// Case 35 and all of its kind: no word stands on another, none leaves the
// margins.
func TestNoWordsOverlap(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{LayoutClassic, LayoutModern} {
		r := renderer(t, Options{Style: Style{Layout: layout}})
		for name, raw := range shapes(t) {
			t.Run(name+" "+layout, func(t *testing.T) {
				t.Parallel()
				path, report := writeWith(t, r, parse(t, raw))
				list := boxes(t, path)
				if len(list) != report.Pages {
					t.Fatalf("%d pages of words, want %d", len(list), report.Pages)
				}
				for i, p := range list {
					checkPage(t, i+1, p)
				}
			})
		}
	}
}

func checkPage(t *testing.T, number int, p bboxPage) {
	t.Helper()
	const hair = 0.3
	if len(p.Words) == 0 {
		t.Errorf("page %d is empty", number)
	}
	for i, a := range p.Words {
		if a.XMin < margin-hair || a.XMax > p.Width-margin+hair || a.YMin < margin-6 || a.YMax > p.Height-24 {
			t.Errorf("page %d: %q leaves the margins: %+v", number, a.Text, a)
		}
		for _, b := range p.Words[i+1:] {
			if a.XMin < b.XMax-hair && b.XMin < a.XMax-hair && a.YMin < b.YMax-hair && b.YMin < a.YMax-hair {
				t.Errorf("page %d: %q stands on %q: %+v %+v", number, a.Text, b.Text, a, b)
			}
		}
	}
}

func TestPaperSizes(t *testing.T) {
	t.Parallel()
	for paper, want := range map[string][2]float64{"A4": {595.28, 841.89}, "Letter": {612, 792}} {
		path, _ := write(t, parse(t, simple(t, object{"paper": paper})))
		if p := boxes(t, path)[0]; [2]float64{p.Width, p.Height} != want {
			t.Errorf("%s is %g × %g", paper, p.Width, p.Height)
		}
	}
}

// The points of a column of numbers stand one below the other, whatever
// decimals the numbers have.
func TestNumbersStandPointBelowPoint(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"en", "ar"} {
		l := newLayout(&Document{Locale: tag}, Style{}, nil, &worker{setter: typeset.NewSetter(builtin(t))})
		st := l.plain(9)
		c := l.newNumberColumn("Price", st)
		c.right = 200
		numbers := []number{}
		for _, d := range []string{"389", "14.2875", "-1234.5", "7", "0"} {
			numbers = append(numbers, l.words.exact(decimal.RequireFromString(d), 0))
		}
		numbers = append(numbers, l.words.percent(decimal.New(9, 0)))
		for _, n := range numbers {
			c.measure(l, st, n)
		}
		for _, n := range numbers {
			p := c.piece(l, st, n, nil)
			if point := p.x + l.label(0, st, n.whole).width(); point < 200-c.rest-0.01 || point > 200-c.rest+0.01 {
				t.Errorf("%s: the point of %q is at %.2f, want %.2f", tag, n.text, point, 200-c.rest)
			}
			if p.x < c.left()-0.01 || p.x+p.width() > 200.01 {
				t.Errorf("%s: %q leaves its column", tag, n.text)
			}
		}
	}
}
