// Package einvoice writes invoice documents as electronic invoices of the core
// profile of EN 16931, in the two syntaxes that the standard binds itself to:
//
//	err := einvoice.Check(doc)                 // what EN 16931 needs beyond Parse
//	err  = einvoice.WriteUBL(w, doc, sums)     // OASIS UBL 2.1 Invoice or CreditNote
//	err  = einvoice.WriteCII(w, doc, sums)     // UN/CEFACT Cross Industry Invoice D16B
//
// A document is made once by [invoice.Parse] and the sums once by its Totals, so
// that the page and the XML cannot say different things. The same document
// always gives the same bytes. Nothing that the document says about money,
// parties or terms is left out silently: what has no place in EN 16931 is
// refused by [Check].
//
// Not in the document model, and so never written: a payee or a tax
// representative other than the issuer (BG-10, BG-11), a second currency for tax
// (BT-6, BT-111), attachments (BG-24), item attributes (BG-32) and prices for
// more than one unit (BT-149).
package einvoice
