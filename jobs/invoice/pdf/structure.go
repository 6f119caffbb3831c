package pdf

import "strconv"

// Role is what a part of a document is to a program that reads it aloud: a
// standard structure type (ISO 32000-1, 14.8.4).
type Role string

// The roles that documents here are made of.
const (
	RoleDocument  Role = "Document"
	RoleSection   Role = "Sect"
	RoleTitle     Role = "H1"
	RoleHeading   Role = "H2"
	RoleParagraph Role = "P"
	RoleTable     Role = "Table"
	RoleRow       Role = "TR"
	RoleHeader    Role = "TH"
	RoleCell      Role = "TD"
	RoleFigure    Role = "Figure"
)

// Element is a node of the structure: what a reader is told, in the order in
// which it is told. It belongs to its [Document].
type Element struct {
	role     Role
	alt      string // what stands for a figure
	forRow   bool   // it is the header of a row, not of a column
	number   ref
	children []*Element
	contents []mark
}

// mark is a stretch of a page's content.
type mark struct {
	page *Page
	id   int
}

// Add makes an element within e, after those that it has. Within nil, which is
// decoration, everything is decoration: the answer is nil.
func (e *Element) Add(role Role) *Element {
	if e == nil {
		return nil
	}
	child := &Element{role: role}
	e.children = append(e.children, child)
	return child
}

// Describe gives a figure the words that stand for it, and returns it.
func (e *Element) Describe(words string) *Element {
	if e != nil {
		e.alt = words
	}
	return e
}

// ForRow makes a header that of its row instead of its column, and returns it.
func (e *Element) ForRow() *Element {
	if e != nil {
		e.forRow = true
	}
	return e
}

// empty elements are left out, but not cells: the others would move up.
func (e *Element) empty() bool {
	if len(e.contents) > 0 || e.role == RoleCell {
		return false
	}
	for _, c := range e.children {
		if !c.empty() {
			return false
		}
	}
	return true
}

// structure writes the tree and gives its root.
func (d *Document) structure(pages map[*Page]ref) ref {
	f := &d.file
	root, parents := f.reserve(), f.reserve()
	d.root.numberAll(f)
	f.pack(root, append(append(append(append([]byte("<</Type/StructTreeRoot/K "), d.root.number.String()...),
		"/ParentTree "...), parents.String()...), ">>"...))
	d.element(d.root, root, pages)
	out := []byte("<</Nums[")
	for i, p := range d.pages {
		out = strconv.AppendInt(out, int64(i), 10)
		out = append(out, '[')
		for _, e := range p.marks {
			out = appendRef(out, e.number)
		}
		out = append(out, ']')
	}
	f.pack(parents, append(out, "]>>"...))
	return root
}

func (e *Element) numberAll(f *file) {
	e.number = f.reserve()
	kept := e.children[:0]
	for _, c := range e.children {
		if !c.empty() {
			kept = append(kept, c)
			c.numberAll(f)
		}
	}
	e.children = kept
}

// element writes an element and all below it.
func (d *Document) element(e *Element, parent ref, pages map[*Page]ref) {
	out := append(d.scratch[:0], "<</S/"...)
	out = append(out, e.role...)
	out = append(out, "/P "...)
	out = appendRef(out, parent)
	var home *Page
	if len(e.contents) > 0 {
		home = e.contents[0].page
		out = append(out, "/Pg "...)
		out = appendRef(out, pages[home])
	}
	switch e.role {
	case RoleHeader:
		scope := "/A<</O/Table/Scope/Column>>"
		if e.forRow {
			scope = "/A<</O/Table/Scope/Row>>"
		}
		out = append(out, scope...)
	case RoleFigure:
		out = append(append(out, "/Alt"...), textString(e.alt)...)
	}
	out = append(out, "/K["...)
	for _, m := range e.contents {
		if m.page == home {
			out = strconv.AppendInt(out, int64(m.id), 10)
			out = append(out, ' ')
			continue
		}
		out = append(out, "<</Type/MCR/Pg "...)
		out = appendRef(out, pages[m.page])
		out = append(out, "/MCID "...)
		out = strconv.AppendInt(out, int64(m.id), 10)
		out = append(out, ">>"...)
	}
	for _, c := range e.children {
		out = appendRef(out, c.number)
	}
	out = append(out, "]>>"...)
	d.scratch = out
	d.file.pack(e.number, out)
	for _, c := range e.children {
		d.element(c, e.number, pages)
	}
}

func appendRef(dst []byte, r ref) []byte {
	return append(strconv.AppendInt(dst, int64(r), 10), " 0 R "...)
}
