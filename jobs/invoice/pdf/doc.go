// Package pdf writes PDF 1.7 files (ISO 32000-1): pages of placed text, lines
// and pictures, with the parts of the fonts that were used, the structure that
// programs read aloud, and metadata. It knows neither invoices nor where things
// go on a page. The bytes depend on nothing but what is put in.
package pdf
