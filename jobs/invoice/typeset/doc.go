// Package typeset turns text of any script into lines of placed glyphs: it
// finds directions (UAX 9), scripts and fonts, shapes words with a port of
// HarfBuzz, breaks lines (UAX 14) and puts what reads from right to left in its
// place. It knows fonts and text, neither documents nor files of pages.
//
// A [Font] and a [Fonts] are read only and may be shared. A [Setter] has one
// owner at a time and remembers the words that it has shaped; what it answers
// depends on the text and the fonts alone.
package typeset
