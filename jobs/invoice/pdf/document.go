package pdf

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// Info is what a file says about itself.
type Info struct {
	Title, Author string
	Language      string // of the document, a BCP 47 tag
	Producer      string
	Date          time.Time // when it was made; only the day is kept
	RightToLeft   bool      // pages are turned from left to right
}

// Document is a PDF in the making. It has one owner and may be reset and used
// again, which saves memory.
type Document struct {
	file          file
	width, height float64
	pages         []*Page
	fonts         []*fontUse
	images        []*Image
	root          *Element
	scratch       []byte
}

// Reset empties d for pages of the given size in points.
func (d *Document) Reset(width, height float64) {
	d.file.reset()
	d.width, d.height = width, height
	d.pages, d.fonts, d.images = nil, nil, nil
	d.root = &Element{role: RoleDocument}
}

// Root is the element that holds the whole document.
func (d *Document) Root() *Element { return d.root }

// NewPage adds a page.
func (d *Document) NewPage() *Page {
	p := &Page{doc: d, out: make([]byte, 0, 16<<10)}
	d.pages = append(d.pages, p)
	return p
}

func (d *Document) font(f *typeset.Font) *fontUse {
	for _, have := range d.fonts {
		if have.font == f {
			return have
		}
	}
	use := newFontUse(f, len(d.fonts)+1)
	d.fonts = append(d.fonts, use)
	return use
}

func (d *Document) imageName(image *Image) string {
	for i, have := range d.images {
		if have == image {
			return fmt.Sprintf("I%d", i+1)
		}
	}
	d.images = append(d.images, image)
	return fmt.Sprintf("I%d", len(d.images))
}

// Finish writes everything and gives the file, which is d's until it is reset.
func (d *Document) Finish(info Info) ([]byte, error) {
	f := &d.file
	root, tree, about, meta := f.reserve(), f.reserve(), f.reserve(), f.reserve()
	resources, err := d.resources()
	if err != nil {
		return nil, err
	}
	pages := d.writePages(tree, resources)
	structure := d.structure(pages)
	profile := f.reserve()
	f.plainStream(profile, "/N 3/Filter/FlateDecode", colourProfile())
	direction := ""
	if info.RightToLeft {
		direction = "/Direction/R2L"
	}
	f.object(root, fmt.Sprintf("<</Type/Catalog/Pages %v/Metadata %v/Lang(%s)/ViewerPreferences<</DisplayDocTitle true%s>>"+
		"/MarkInfo<</Marked true>>/StructTreeRoot %v/OutputIntents[<</Type/OutputIntent/S/GTS_PDFA1"+
		"/OutputConditionIdentifier(sRGB IEC61966-2.1)/Info(sRGB IEC61966-2.1)/DestOutputProfile %v>>]>>",
		tree, meta, info.Language, direction, structure, profile))
	f.object(about, info.dictionary())
	f.plainStream(meta, "/Type/Metadata/Subtype/XML", info.metadata())
	return f.finish(root, about)
}

// resources are what all pages may use.
func (d *Document) resources() (ref, error) {
	f := &d.file
	out := "<</Font<<"
	for _, font := range d.fonts {
		top := f.reserve()
		if err := font.embed(f, top); err != nil {
			return 0, err
		}
		out += fmt.Sprintf("/%s %v", font.res, top)
	}
	out += ">>"
	if len(d.images) > 0 {
		out += "/XObject<<"
		for i, image := range d.images {
			out += fmt.Sprintf("/I%d %v", i+1, image.embed(f))
		}
		out += ">>"
	}
	r := f.reserve()
	f.object(r, out+">>")
	return r, nil
}

func (d *Document) writePages(tree, resources ref) map[*Page]ref {
	f := &d.file
	leaves := make(map[*Page]ref, len(d.pages))
	kids := make([]string, len(d.pages))
	for i, p := range d.pages {
		content, leaf := f.reserve(), f.reserve()
		f.stream(content, "", p.out)
		f.object(leaf, fmt.Sprintf("<</Type/Page/Parent %v/MediaBox[0 0 %g %g]/Resources %v/Contents %v/StructParents %d/Tabs/S>>",
			tree, d.width, d.height, resources, content, i))
		leaves[p], kids[i] = leaf, leaf.String()
	}
	f.object(tree, fmt.Sprintf("<</Type/Pages/Kids[%s]/Count %d>>", strings.Join(kids, " "), len(d.pages)))
	return leaves
}

// dictionary is the document information dictionary (ISO 32000-1, 14.3.3).
func (i Info) dictionary() string {
	when := i.Date.Format("20060102")
	return fmt.Sprintf("<</Title%s/Author%s/Creator%s/Producer%[3]s/CreationDate(D:%[4]s000000Z)/ModDate(D:%[4]s000000Z)>>",
		textString(i.Title), textString(i.Author), textString(i.Producer), when)
}

// metadata says the same once more as XMP (ISO 16684-1).
func (i Info) metadata() []byte {
	when := i.Date.Format("2006-01-02") + "T00:00:00Z"
	return fmt.Appendf(nil, `<?xpacket begin="%s" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:pdf="http://ns.adobe.com/pdf/1.3/">
<dc:format>application/pdf</dc:format>
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">%s</rdf:li></rdf:Alt></dc:title>
<dc:creator><rdf:Seq><rdf:li>%s</rdf:li></rdf:Seq></dc:creator>
<dc:language><rdf:Bag><rdf:li>%s</rdf:li></rdf:Bag></dc:language>
<xmp:CreatorTool>%[5]s</xmp:CreatorTool>
<xmp:CreateDate>%[6]s</xmp:CreateDate>
<xmp:ModifyDate>%[6]s</xmp:ModifyDate>
<pdf:Producer>%[5]s</pdf:Producer>
</rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>`, "\ufeff", escapeXML(i.Title), escapeXML(i.Author), i.Language, escapeXML(i.Producer), when)
}

func escapeXML(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a strings.Builder takes everything
	}
	return b.String()
}
