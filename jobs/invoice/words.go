package invoice

// termWords are the words for what only some documents have.
type termWords struct {
	lineSum, allowances, charges, rounding string // sums
	deliveredOn, deliveredTo, period       string
	order, yourReference, contract         string
	vatID, registration                    string
	account, card, mandate, means, terms   string
	from, until                            string // %s is the date
	taxPointOn                             string
}

// terms are the words of the locale's language.
func (l *locale) terms() termWords {
	switch l.tag {
	case "de":
		return germanTerms()
	case "fr":
		return frenchTerms()
	case "es":
		return spanishTerms()
	case "bn":
		return bengaliTerms()
	case "hi":
		return hindiTerms()
	case "mr":
		return marathiTerms()
	case "ar":
		return arabicTerms()
	}
	return englishTerms()
}

func englishTerms() termWords {
	return termWords{
		lineSum: "Sum of lines", allowances: "Allowances", charges: "Charges", rounding: "Rounding",
		deliveredOn: "Delivery date", deliveredTo: "Delivered to", period: "Period",
		order: "Order number", yourReference: "Your reference", contract: "Contract",
		vatID: "VAT ID", registration: "Reg. no.",
		account: "Account", card: "Card", mandate: "Mandate", means: "Payment by", terms: "Terms",
		from: "from %s", until: "until %s", taxPointOn: "Tax point",
	}
}

func germanTerms() termWords {
	return termWords{
		lineSum: "Summe der Positionen", allowances: "Nachlässe", charges: "Zuschläge", rounding: "Rundung",
		deliveredOn: "Lieferdatum", deliveredTo: "Lieferadresse", period: "Leistungszeitraum",
		order: "Bestellnummer", yourReference: "Ihr Zeichen", contract: "Vertrag",
		vatID: "USt-IdNr.", registration: "Register-Nr.",
		account: "Konto", card: "Karte", mandate: "Mandat", means: "Zahlungsart", terms: "Zahlungsbedingungen",
		from: "ab %s", until: "bis %s", taxPointOn: "Steuerdatum",
	}
}

func frenchTerms() termWords {
	return termWords{
		lineSum: "Total des lignes HT", allowances: "Remises", charges: "Frais", rounding: "Arrondi",
		deliveredOn: "Date de livraison", deliveredTo: "Livré à", period: "Période",
		order: "Bon de commande", yourReference: "Votre référence", contract: "Contrat",
		vatID: "N°" + noBreak + "TVA", registration: "N°" + noBreak + "d’immatriculation",
		account: "Compte", card: "Carte", mandate: "Mandat", means: "Mode de paiement", terms: "Conditions de paiement",
		from: "à partir du %s", until: "jusqu’au %s", taxPointOn: "Date d’exigibilité",
	}
}

func spanishTerms() termWords {
	return termWords{
		lineSum: "Suma de las líneas", allowances: "Descuentos", charges: "Recargos", rounding: "Redondeo",
		deliveredOn: "Fecha de entrega", deliveredTo: "Entregado en", period: "Periodo",
		order: "N.º de pedido", yourReference: "Su referencia", contract: "Contrato",
		vatID: "NIF-IVA", registration: "N.º de registro",
		account: "Cuenta", card: "Tarjeta", mandate: "Mandato", means: "Forma de pago", terms: "Condiciones de pago",
		from: "desde el %s", until: "hasta el %s", taxPointOn: "Fecha de devengo",
	}
}

func bengaliTerms() termWords {
	return termWords{
		lineSum: "সারিগুলোর যোগফল", allowances: "ছাড়", charges: "অতিরিক্ত চার্জ", rounding: "রাউন্ডিং",
		deliveredOn: "সরবরাহের তারিখ", deliveredTo: "সরবরাহের ঠিকানা", period: "সময়কাল",
		order: "ক্রয়াদেশ নম্বর", yourReference: "আপনার সূত্র", contract: "চুক্তি",
		vatID: "ভ্যাট নম্বর", registration: "নিবন্ধন নম্বর",
		account: "হিসাব নম্বর", card: "কার্ড", mandate: "ম্যান্ডেট", means: "পরিশোধের মাধ্যম", terms: "পরিশোধের শর্ত",
		from: "%s থেকে", until: "%s পর্যন্ত", taxPointOn: "করের তারিখ",
	}
}

func hindiTerms() termWords {
	return termWords{
		lineSum: "पंक्तियों का योग", allowances: "छूट", charges: "अतिरिक्त शुल्क", rounding: "पूर्णांकन",
		deliveredOn: "वितरण तिथि", deliveredTo: "वितरण का पता", period: "अवधि",
		order: "क्रय आदेश संख्या", yourReference: "आपका संदर्भ", contract: "अनुबंध",
		vatID: "वैट संख्या", registration: "पंजीकरण संख्या",
		account: "खाता", card: "कार्ड", mandate: "मैंडेट", means: "भुगतान का माध्यम", terms: "भुगतान की शर्तें",
		from: "%s से", until: "%s तक", taxPointOn: "कर तिथि",
	}
}

func marathiTerms() termWords {
	return termWords{
		lineSum: "ओळींची बेरीज", allowances: "सवलत", charges: "अतिरिक्त शुल्क", rounding: "पूर्णांकन",
		deliveredOn: "वितरण दिनांक", deliveredTo: "वितरणाचा पत्ता", period: "कालावधी",
		order: "खरेदी आदेश क्रमांक", yourReference: "आपला संदर्भ", contract: "करार",
		vatID: "व्हॅट क्रमांक", registration: "नोंदणी क्रमांक",
		account: "खाते", card: "कार्ड", mandate: "मँडेट", means: "भरण्याचे माध्यम", terms: "भरण्याच्या अटी",
		from: "%s पासून", until: "%s पर्यंत", taxPointOn: "कर दिनांक",
	}
}

func arabicTerms() termWords {
	return termWords{
		lineSum: "مجموع البنود", allowances: "الخصومات", charges: "الرسوم الإضافية", rounding: "التقريب",
		deliveredOn: "تاريخ التسليم", deliveredTo: "عنوان التسليم", period: "الفترة",
		order: "رقم أمر الشراء", yourReference: "مرجعكم", contract: "العقد",
		vatID: "رقم ضريبة القيمة المضافة", registration: "رقم السجل",
		account: "الحساب", card: "البطاقة", mandate: "التفويض", means: "طريقة الدفع", terms: "شروط الدفع",
		from: "من %s", until: "حتى %s", taxPointOn: "تاريخ استحقاق الضريبة",
	}
}
