package invoice

// labels are the words of one language. What stands on a page of every kind of
// document is neutral ("Number", not "Invoice number").
type labels struct {
	invoice, creditNote            string
	from, to                       string
	number, issued, due, currency  string
	credits                        string // what is credited
	taxID                          string
	description, quantity, price   string
	discount, tax, amount          string
	taxRate, taxBase, taxAmount    string
	net, taxTotal, gross, prepaid  string
	amountDue, amountCredited      string
	amountDueBy                    string // %s is the date
	payment, iban, bic, paymentRef string
	notes                          string
	pageOf                         string // %[1]s of %[2]s
	zeroRated, exempt, reverse     string
	intra, export, out             string
}

const noBreak = "\u00a0"

func english(tag string) *locale {
	return &locale{
		labels: labels{
			invoice: "Invoice", creditNote: "Credit note",
			from: "From", to: "Bill to",
			number: "Number", issued: "Issue date", due: "Due date", currency: "Currency", credits: "Credits invoice",
			taxID:       "Tax ID",
			description: "Description", quantity: "Quantity", price: "Unit price",
			discount: "Discount", tax: "Tax", amount: "Amount",
			taxRate: "Tax rate", taxBase: "Net", taxAmount: "Tax",
			net: "Net total", taxTotal: "Tax", gross: "Total", prepaid: "Prepaid",
			amountDue: "Amount due", amountCredited: "Amount credited",
			amountDueBy: "Amount due by %s",
			payment:     "Payment", iban: "IBAN", bic: "BIC", paymentRef: "Reference",
			notes:     "Notes",
			pageOf:    "Page %[1]s of %[2]s",
			zeroRated: "zero rated", exempt: "exempt", reverse: "reverse charge", intra: "intra-community supply",
			export: "export", out: "not subject to tax",
		},
		tag: tag, digits: DigitsLatin, decimalSign: ".", groupSign: ",", percentSign: "%",
		months: [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
			"October", "November", "December"},
		date: "{m} {d}, {y}", moneyFirst: true, symbol: englishSymbol, leading: 1.4,
	}
}

func german() *locale {
	return &locale{
		labels: labels{
			invoice: "Rechnung", creditNote: "Rechnungskorrektur",
			from: "Rechnungssteller", to: "Rechnungsempfänger",
			number: "Nummer", issued: "Datum", due: "Fällig am", currency: "Währung", credits: "Zu Rechnung",
			taxID:       "USt-IdNr./St.-Nr.",
			description: "Beschreibung", quantity: "Menge", price: "Einzelpreis",
			discount: "Rabatt", tax: "USt.", amount: "Betrag",
			taxRate: "Steuersatz", taxBase: "Netto", taxAmount: "Steuer",
			net: "Summe netto", taxTotal: "Umsatzsteuer", gross: "Gesamtbetrag", prepaid: "Bereits gezahlt",
			amountDue: "Zahlbetrag", amountCredited: "Erstattungsbetrag",
			amountDueBy: "Zahlbar bis %s",
			payment:     "Zahlung", iban: "IBAN", bic: "BIC", paymentRef: "Verwendungszweck",
			notes:     "Anmerkungen",
			pageOf:    "Seite %[1]s von %[2]s",
			zeroRated: "Nullsatz", exempt: "steuerfrei", reverse: "Steuerschuldnerschaft des Leistungsempfängers",
			intra:  "innergemeinschaftliche Lieferung",
			export: "Ausfuhrlieferung", out: "nicht steuerbar",
		},
		tag: "de", digits: DigitsLatin, decimalSign: ",", groupSign: ".", percentSign: noBreak + "%",
		months: [12]string{"Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September",
			"Oktober", "November", "Dezember"},
		date: "{d}. {m} {y}", moneyGap: noBreak, symbol: germanSymbol, leading: 1.4,
	}
}

func french() *locale {
	return &locale{
		labels: labels{
			invoice: "Facture", creditNote: "Avoir",
			from: "Émetteur", to: "Facturé à",
			number: "Numéro", issued: "Date d’émission", due: "Échéance", currency: "Devise", credits: "Facture d’origine",
			taxID:       "N°" + noBreak + "TVA",
			description: "Désignation", quantity: "Quantité", price: "Prix unitaire HT",
			discount: "Remise", tax: "TVA", amount: "Montant HT",
			taxRate: "Taux de TVA", taxBase: "Base HT", taxAmount: "TVA",
			net: "Total HT", taxTotal: "TVA", gross: "Total TTC", prepaid: "Acompte versé",
			amountDue: "Net à payer", amountCredited: "Montant de l’avoir",
			amountDueBy: "Net à payer au plus tard le %s",
			payment:     "Paiement", iban: "IBAN", bic: "BIC", paymentRef: "Référence",
			notes:     "Remarques",
			pageOf:    "Page %[1]s sur %[2]s",
			zeroRated: "taux zéro", exempt: "exonéré", reverse: "autoliquidation", intra: "livraison intracommunautaire",
			export: "exportation", out: "hors champ de la TVA",
		},
		tag: "fr", digits: DigitsLatin, decimalSign: ",", groupSign: "\u202f", percentSign: "\u202f%",
		months: [12]string{"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
			"octobre", "novembre", "décembre"},
		date: "{d} {m} {y}", moneyGap: noBreak, symbol: frenchSymbol, leading: 1.4,
	}
}

func spanish() *locale {
	return &locale{
		labels: labels{
			invoice: "Factura", creditNote: "Factura rectificativa",
			from: "Emisor", to: "Cliente",
			number: "Número", issued: "Fecha de emisión", due: "Vencimiento", currency: "Moneda", credits: "Rectifica la factura",
			taxID:       "NIF",
			description: "Descripción", quantity: "Cantidad", price: "Precio unitario",
			discount: "Descuento", tax: "Impuesto", amount: "Importe",
			taxRate: "Tipo", taxBase: "Base imponible", taxAmount: "Cuota",
			net: "Base imponible", taxTotal: "Impuestos", gross: "Total", prepaid: "Pagado a cuenta",
			amountDue: "Total a pagar", amountCredited: "Importe abonado",
			amountDueBy: "A pagar hasta el %s",
			payment:     "Pago", iban: "IBAN", bic: "BIC", paymentRef: "Concepto",
			notes:     "Notas",
			pageOf:    "Página %[1]s de %[2]s",
			zeroRated: "tipo cero", exempt: "exento", reverse: "inversión del sujeto pasivo", intra: "entrega intracomunitaria",
			export: "exportación", out: "no sujeto",
		},
		tag: "es", digits: DigitsLatin, sparse: true, decimalSign: ",", groupSign: ".", percentSign: noBreak + "%",
		months: [12]string{"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
			"octubre", "noviembre", "diciembre"},
		date: "{d} de {m} de {y}", moneyGap: noBreak, symbol: spanishSymbol, leading: 1.4,
	}
}
