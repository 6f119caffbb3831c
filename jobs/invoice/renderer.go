package invoice

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
	"github.com/fenceline/fenceline/jobs/invoice/svg"
	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// producer names the program in the file's properties.
const producer = "Fenceline"

// Options say how a [Renderer] makes files. The zero value is the built-in
// fonts, the zero [Style], and warnings for missing characters.
type Options struct {
	// Fonts are what text is set in; nil takes [BuiltinFonts].
	Fonts *typeset.Fonts
	// Style is how the pages look.
	Style Style
	// Strict refuses a document when any of its characters is in no font.
	Strict bool
}

// Renderer writes documents as PDF files. It is safe for concurrent use, keeps
// what it can use again, and its memory does not grow with the number of
// documents.
type Renderer struct {
	options Options
	workers sync.Pool
	logos   logoCache
}

// NewRenderer makes a renderer. The error says what is wrong with the options.
func NewRenderer(o Options) (*Renderer, error) {
	if o.Fonts == nil {
		fonts, err := BuiltinFonts()
		if err != nil {
			return nil, err
		}
		o.Fonts = fonts
	}
	if err := o.Style.check(); err != nil {
		return nil, err
	}
	r := &Renderer{options: o}
	r.workers.New = func() any { return &worker{setter: typeset.NewSetter(o.Fonts)} }
	return r, nil
}

// worker is the memory of one document at a time.
type worker struct {
	setter *typeset.Setter
	out    pdf.Document
}

// defaultRenderer is what Document.WritePDF uses.
var defaultRenderer = sync.OnceValues(func() (*Renderer, error) { return NewRenderer(Options{}) })

// Report says what came of writing a document.
type Report struct {
	// Pages is how many pages the PDF has.
	Pages int
	// Missing is how many characters are in no font; each is printed as a box.
	Missing int
	// Warnings are sentences for whoever sends the document: it was written, but
	// is worth a look. What is missing is named by field.
	Warnings []string
}

// ErrMissing: a strict renderer met characters that are in no font.
var ErrMissing = errors.New("characters are in no font")

// WritePDF writes d in the classic layout with the built-in fonts. See
// [Renderer.WritePDF].
func (d *Document) WritePDF(w io.Writer) (Report, error) {
	r, err := defaultRenderer()
	if err != nil {
		return Report{}, err
	}
	return r.WritePDF(w, d)
}

// WritePDF writes d as a PDF 1.7 file with its fonts embedded, tagged, with text
// that can be selected and searched. The bytes depend on d and the options
// alone: its dates are the document's. Characters that are in no font are
// printed as boxes and reported; a strict renderer answers an error that wraps
// [ErrMissing] and names them. Other errors are w's, or about a logo that Parse
// would have refused. Nothing is written unless the whole document was made.
func (r *Renderer) WritePDF(w io.Writer, d *Document) (Report, error) {
	fail := func(err error) (Report, error) { return Report{}, fmt.Errorf("write invoice %s: %w", d.Number, err) }
	logo, err := r.logo(d)
	if err != nil {
		return fail(err)
	}
	with := r.workers.Get().(*worker)
	defer r.workers.Put(with)
	l := newLayout(d, r.options.Style, logo, with)
	l.build()
	if r.options.Strict && l.missing > 0 {
		// Without the number, so that equal refusals of many documents read the same.
		return Report{}, fmt.Errorf("%w: %s", ErrMissing, strings.Join(l.missingWarnings(), "; "))
	}
	data, err := with.out.Finish(pdf.Info{
		Title: d.Title(), Author: d.Issuer.Name, Language: l.words.tag, Producer: producer, Date: d.IssueDate,
		RightToLeft: l.words.rightToLeft,
	})
	if err != nil {
		return fail(err)
	}
	if _, err := w.Write(data); err != nil {
		return fail(err)
	}
	return l.report(), nil
}

// Preview draws d as pictures (SVG 1.1), one for each page, as the same layout
// and the same fonts would put it on paper. Characters that are in no font are
// boxes, also with a strict renderer: the report says which.
func (r *Renderer) Preview(d *Document) (pages [][]byte, report Report, err error) {
	logo, err := r.logo(d)
	if err != nil {
		return nil, Report{}, fmt.Errorf("preview invoice %s: %w", d.Number, err)
	}
	with := r.workers.Get().(*worker)
	defer r.workers.Put(with)
	l := newLayout(d, r.options.Style, logo, with)
	l.sheet = func() canvas { return svg.NewPage(l.flow.width, l.flow.height) }
	l.build()
	for _, p := range l.pages {
		pages = append(pages, p.(*svg.Page).Bytes()) // what sheet made
	}
	return pages, l.report(), nil
}

// report says what came of building the pages.
func (l *layout) report() Report {
	return Report{Pages: len(l.pages), Missing: l.missing, Warnings: append(l.doc.warnings(l.sums), l.missingWarnings()...)}
}

func (d *Document) warnings(t Totals) []string {
	var out []string
	if d.Type == TypeInvoice && t.Gross.IsNegative() {
		out = append(out, fmt.Sprintf("the total is negative (%s %s): a credit note is the usual document for that",
			t.Gross.StringFixed(d.Currency.Minor), d.Currency.Code))
	}
	if t.Prepaid.IsPositive() && t.Due.IsNegative() {
		out = append(out, fmt.Sprintf("more was prepaid (%s %s) than the document is for",
			t.Prepaid.StringFixed(d.Currency.Minor), d.Currency.Code))
	}
	return out
}

// logo is the document's, or the style's.
func (r *Renderer) logo(d *Document) (*pdf.Image, error) {
	if len(d.Logo) == 0 {
		return r.options.Style.Logo, nil
	}
	image, err := r.logos.get(d.Logo)
	if err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	}
	return image, nil
}

// logoCache keeps the last few logos unpacked: most documents have the one of
// their issuer.
type logoCache struct {
	mu     sync.Mutex
	images map[[sha256.Size]byte]*pdf.Image
}

const maxLogos = 8

func (c *logoCache) get(data []byte) (*pdf.Image, error) {
	key := sha256.Sum256(data)
	c.mu.Lock()
	image := c.images[key]
	c.mu.Unlock()
	if image != nil {
		return image, nil
	}
	image, err := pdf.DecodeImage(data)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images == nil || len(c.images) >= maxLogos {
		c.images = make(map[[sha256.Size]byte]*pdf.Image)
	}
	c.images[key] = image
	return image, nil
}
