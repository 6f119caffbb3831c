package einvoice

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// node is an element, or a row of elements when it has no name.
type node struct {
	name  string
	attrs []string // name, value, name, value …
	text  string
	kids  []*node
}

// el is an element around others. Without any it is nothing: an empty element
// would claim that there is something to say.
func el(name string, kids ...*node) *node {
	n := &node{name: name}
	for _, k := range kids {
		if k != nil {
			n.kids = append(n.kids, k)
		}
	}
	if len(n.kids) == 0 {
		return nil
	}
	return n
}

// row is several elements in place of one.
func row(nodes []*node) *node { return el("", nodes...) }

// leaf is an element around text, nothing when there is no text. Attributes
// without a value are left out.
func leaf(name, text string, attrs ...string) *node {
	if text == "" {
		return nil
	}
	n := &node{name: name, text: text}
	for i := 0; i < len(attrs); i += 2 {
		if attrs[i+1] != "" {
			n.attrs = append(n.attrs, attrs[i], attrs[i+1])
		}
	}
	return n
}

// write writes root as an XML document whose namespaces are pairs of a prefix
// and a name; the empty prefix is the default namespace.
func write(w io.Writer, root *node, namespaces ...string) error {
	for i := 0; i < len(namespaces); i += 2 {
		name := "xmlns"
		if namespaces[i] != "" {
			name += ":" + namespaces[i]
		}
		root.attrs = append(root.attrs, name, namespaces[i+1])
	}
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n") // its error comes out of Flush
	if err := root.write(out, 0); err != nil {
		return err
	}
	return out.Flush()
}

func (n *node) write(out *bufio.Writer, depth int) error {
	if n.name == "" {
		return n.writeKids(out, depth)
	}
	indent := strings.Repeat("  ", depth)
	_, _ = out.WriteString(indent + "<" + n.name)
	for i := 0; i < len(n.attrs); i += 2 {
		_, _ = out.WriteString(" " + n.attrs[i] + `="`)
		if err := escape(out, n.attrs[i+1]); err != nil {
			return fmt.Errorf("attribute %s of %s: %w", n.attrs[i], n.name, err)
		}
		_ = out.WriteByte('"')
	}
	_ = out.WriteByte('>')
	if len(n.kids) > 0 {
		_ = out.WriteByte('\n')
		if err := n.writeKids(out, depth+1); err != nil {
			return err
		}
		_, _ = out.WriteString(indent)
	} else if err := escape(out, n.text); err != nil {
		return fmt.Errorf("text of %s: %w", n.name, err)
	}
	_, err := out.WriteString("</" + n.name + ">\n")
	return err
}

func (n *node) writeKids(out *bufio.Writer, depth int) error {
	for _, k := range n.kids {
		if err := k.write(out, depth); err != nil {
			return err
		}
	}
	return nil
}

// escape writes text so that a reader gets back exactly it. A character that
// XML cannot hold is an error: encoding/xml would put another in its place.
func escape(out *bufio.Writer, text string) error {
	for _, c := range text {
		switch {
		case c == '&':
			_, _ = out.WriteString("&amp;")
		case c == '<':
			_, _ = out.WriteString("&lt;")
		case c == '>':
			_, _ = out.WriteString("&gt;")
		case c == '"':
			_, _ = out.WriteString("&quot;")
		case c == '\r': // a reader would take it for a line feed
			_, _ = out.WriteString("&#13;")
		case c < 0x20 && c != '\t' && c != '\n' || c == 0xFFFD || c == 0xFFFE || c == 0xFFFF:
			return fmt.Errorf("XML cannot hold the character U+%04X", c)
		default:
			_, _ = out.WriteRune(c)
		}
	}
	return nil
}
