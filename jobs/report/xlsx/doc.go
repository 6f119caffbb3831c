// Package xlsx writes the rows of a report as an Excel workbook (ECMA-376,
// transitional) in one pass and in memory that does not grow with the rows.
//
// A sheet is made cell by cell as inline strings, so there is no table of strings
// to keep; its length is told behind it (a data descriptor), so nothing is
// written twice. XML is made in the caller's goroutine; compressing and writing
// happen in another. The same rows give the same bytes.
//
// What Excel cannot hold is counted in [tabular.Notes], never dropped:
//
//   - A cell holds 32,767 UTF-16 units. Longer text is cut in front of a character.
//   - XML 1.0 cannot hold most control characters, U+FFFE and U+FFFF. They become
//     U+FFFD.
//   - Numbers are IEEE 754 doubles of which Excel shows 15 digits. An integer or a
//     numeric with more significant digits is a text cell, as are NaN and the
//     infinities. A real or a double precision is a double already, and stays a
//     number with all its digits.
//   - Dates begin at 1900-03-01 (Excel takes 1900 for a leap year) and end with
//     9999-12-31. Others are text cells in the form of ISO 8601.
//   - A sheet holds 1,048,576 rows. Further rows go to a next sheet.
//
// Two ways of writing were chosen by what readers make of them. A carriage return
// is the reference &#13;: Excel, LibreOffice and openpyxl read it as the character,
// whereas Excel's own _x000D_ is shown by openpyxl and others as seven characters.
// Text that looks like such an escape, _x0041_, must be written as _x005F_x0041_
// all the same, or Excel and LibreOffice would show an A.
//
// A sheet says no dimension: it would have to stand before the rows, and readers
// that trust a wrong one miss cells. ECMA-376 makes it optional.
package xlsx
