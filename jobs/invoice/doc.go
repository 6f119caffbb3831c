// Package invoice turns an invoice document into a PDF. It knows documents,
// money and pages; it knows neither the queue nor the database.
//
//	doc, err := invoice.Parse(raw)      // every problem at once, by field path
//	sums := doc.Totals()                // decimal, one stated rounding rule
//	report, err := doc.WritePDF(w)      // the same bytes for the same document and style
//	raw = invoice.Schema()              // JSON Schema of the documents
//
// # Money
//
// All arithmetic is decimal. A line's quantity times its unit price less its
// discount is rounded once; so is what each percentage of an allowance or a
// charge comes to, and each tax group's net times its rate; everything else is a
// sum of rounded amounts. Rounding is half away from zero to the minor units that
// ISO 4217 gives the currency; where there are no small coins the amount due is
// rounded to the coin that the document names, as a sum of its own. The sums
// follow EN 16931: BR-CO-10 to BR-CO-18. What a sender computed is checked against
// them. The same document as an e-invoice is in package einvoice.
//
// # Signs
//
// The type of a document says which way money moves. A credit note's amounts
// are positive and mean "given back"; a minus in one would turn it round twice,
// so a credit note whose total is negative is refused. Unit prices are never
// negative (BR-27): what is taken back within an invoice has a negative
// quantity.
//
// # Text
//
// Any script may stand in any field. Text is set by package typeset: in its
// direction, shaped, each run in the first font that has it. The built-in fonts
// have Latin, Greek, Cyrillic, Bengali, Devanagari, Arabic and Hebrew;
// [LoadFonts] adds others, for Chinese, Japanese and Korean say. What is in no
// font is printed as a box and reported by field, or refused by a strict
// [Renderer]. [Parse] refuses what can never be printed, and overrides of
// direction, by which an amount could be read backwards. Text that is too wide
// wraps, pages go on over further pages, and nothing is cut.
//
// The words are those of the document's locale, and so are its dates, numbers
// and currencies (Unicode CLDR); in Marathi the digits of sums are grouped as
// those of lines are, by lakh and crore. A page in Arabic begins at the right.
//
// # How a page comes about
//
// A [Renderer] is made once, with fonts and a [Style], and writes any number of
// documents. The sections (opening.go, table.go, sums.go, closing.go) build
// strips: visual lines with their text already set. flow.go puts strips on pages,
// and mirrors them for locales that are read from right to left. Package pdf
// writes what is on the pages, embeds what was used of the fonts, and tells
// programs that read aloud what is a title, a table and a cell.
package invoice
