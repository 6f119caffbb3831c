package invoice

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// producer names the program in the file's properties.
const producer = "Fenceline"

// Report says what came of writing a document.
type Report struct {
	// Pages is how many pages the PDF has.
	Pages int
	// Warnings are sentences for whoever sends the document: nothing is wrong
	// with the file, but it is worth a look.
	Warnings []string
}

// WritePDF writes d as a PDF 1.7 file with its fonts embedded. The bytes depend
// on d alone: its dates are the document's. Text can be selected and searched.
// The error is w's, or says that d holds text that Parse would have refused. It
// may be called by several goroutines at once.
func (d *Document) WritePDF(w io.Writer) (Report, error) {
	fonts, err := builtinTypefaces()
	if err != nil {
		return Report{}, fmt.Errorf("load the built-in fonts: %w", err)
	}
	l := newLayout(d, fonts)
	pages := l.build()
	if err := l.missing(); err != nil {
		return Report{}, fmt.Errorf("write invoice %s: %w", d.Number, err)
	}
	data, err := l.file(pages)
	if err != nil {
		return Report{}, fmt.Errorf("write invoice %s: %w", d.Number, err)
	}
	if _, err := w.Write(data); err != nil {
		return Report{}, fmt.Errorf("write invoice %s: %w", d.Number, err)
	}
	return Report{Pages: len(pages), Warnings: d.warnings(l.sums)}, nil
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

// file puts pages, fonts and metadata into one PDF.
func (l *layout) file(pages []*page) ([]byte, error) {
	f := newPDFFile()
	root, tree, info, meta, resources := f.reserve(), f.reserve(), f.reserve(), f.reserve(), f.reserve()
	fonts := ""
	for _, font := range []*docFont{l.regular, l.bold} {
		if !font.used() {
			continue
		}
		r, err := font.embed(f)
		if err != nil {
			return nil, err
		}
		fonts += fmt.Sprintf("/%s %v", font.res, r)
	}
	f.object(resources, "<</Font<<"+fonts+">>>>")
	kids := make([]string, len(pages))
	for i, p := range pages {
		content, leaf := f.reserve(), f.reserve()
		f.stream(content, "", p.out)
		f.object(leaf, fmt.Sprintf("<</Type/Page/Parent %v/MediaBox[0 0 %g %g]/Resources %v/Contents %v>>",
			tree, l.paper.width, l.paper.height, resources, content))
		kids[i] = leaf.String()
	}
	f.object(tree, fmt.Sprintf("<</Type/Pages/Kids[%s]/Count %d>>", strings.Join(kids, " "), len(pages)))
	f.object(root, fmt.Sprintf("<</Type/Catalog/Pages %v/Metadata %v/Lang(%s)/ViewerPreferences<</DisplayDocTitle true>>>>",
		tree, meta, labelsTag(l.doc.Locale)))
	f.object(info, l.doc.info())
	f.plainStream(meta, "/Type/Metadata/Subtype/XML", l.doc.metadata())
	return f.finish(root, info)
}

// labelsTag is the language that the labels are really in.
func labelsTag(locale string) string {
	if _, ok := labelsFor(locale); ok {
		return locale
	}
	return "en"
}

// info is the document information dictionary (ISO 32000-1, 14.3.3).
func (d *Document) info() string {
	when := d.IssueDate.Format("20060102")
	return fmt.Sprintf("<</Title%s/Author%s/Creator(%s)/Producer(%s)/CreationDate(D:%s000000Z)/ModDate(D:%s000000Z)>>",
		textString(d.Title()), textString(d.Issuer.Name), producer, producer, when, when)
}

// metadata says the same once more as XMP (ISO 16684-1).
func (d *Document) metadata() []byte {
	when := d.IssueDate.Format("2006-01-02") + "T00:00:00Z"
	return fmt.Appendf(nil, `<?xpacket begin="%s" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:pdf="http://ns.adobe.com/pdf/1.3/">
<dc:format>application/pdf</dc:format>
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">%s</rdf:li></rdf:Alt></dc:title>
<dc:creator><rdf:Seq><rdf:li>%s</rdf:li></rdf:Seq></dc:creator>
<dc:language><rdf:Bag><rdf:li>%s</rdf:li></rdf:Bag></dc:language>
<xmp:CreatorTool>%s</xmp:CreatorTool>
<xmp:CreateDate>%s</xmp:CreateDate>
<xmp:ModifyDate>%s</xmp:ModifyDate>
<pdf:Producer>%s</pdf:Producer>
</rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>`, "\ufeff", escapeXML(d.Title()), escapeXML(d.Issuer.Name), labelsTag(d.Locale),
		producer, when, when, producer)
}

func escapeXML(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a strings.Builder takes everything
	}
	return b.String()
}
