// Package invoice turns an invoice document into a PDF. It knows documents,
// money and pages; it knows neither the queue nor the database.
//
//	doc, err := invoice.Parse(raw)      // every problem at once, by field path
//	sums := doc.Totals()                // decimal, one stated rounding rule
//	report, err := doc.WritePDF(w)      // the same bytes for the same document
//
// # Money
//
// All arithmetic is decimal. A line's net is its quantity times its unit price
// less its discount, rounded once; a tax group's tax is the group's net times
// its rate, rounded once; everything else is a sum of rounded amounts. Rounding
// is half away from zero to the minor units that ISO 4217 gives the currency.
// The sums follow EN 16931: BR-CO-10, -13, -14, -15, -16 and -17.
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
// The built-in fonts cover European Latin, Greek and Cyrillic. [Parse] refuses
// any text that they cannot show, so no page ever has a box where a character
// should be. Text that is too wide wraps, pages go on over further pages, and
// nothing is cut.
//
// # How a page comes about
//
// The sections (masthead.go, table.go, sums.go, closing.go) build strips: visual
// lines with their text already measured. flow.go puts strips on pages.
// canvas.go writes a page's drawing operators, pdffont.go embeds what was used
// of the fonts and pdffile.go writes the file.
package invoice
