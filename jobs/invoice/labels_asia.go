package invoice

func bengali() *locale {
	return &locale{
		labels: labels{
			invoice: "চালান", creditNote: "ক্রেডিট নোট",
			from: "বিক্রেতা", to: "ক্রেতা",
			number: "নম্বর", issued: "ইস্যুর তারিখ", due: "পরিশোধের শেষ তারিখ", currency: "মুদ্রা", credits: "মূল চালান",
			taxID:       "কর নিবন্ধন নম্বর",
			description: "বিবরণ", quantity: "পরিমাণ", price: "একক মূল্য",
			discount: "ছাড়", tax: "কর", amount: "মূল্য",
			taxRate: "করহার", taxBase: "করযোগ্য মূল্য", taxAmount: "কর",
			net: "করপূর্ব মোট", taxTotal: "মোট কর", gross: "সর্বমোট", prepaid: "অগ্রিম পরিশোধিত",
			amountDue: "প্রদেয় অর্থ", amountCredited: "ফেরতযোগ্য অর্থ",
			amountDueBy: "%s তারিখের মধ্যে প্রদেয়",
			payment:     "অর্থ পরিশোধ", iban: "IBAN", bic: "BIC", paymentRef: "সূত্র",
			notes:     "মন্তব্য",
			pageOf:    "পৃষ্ঠা %[1]s / %[2]s",
			zeroRated: "শূন্য হার", exempt: "কর অব্যাহতিপ্রাপ্ত", reverse: "রিভার্স চার্জ", intra: "ইইউ-অভ্যন্তরীণ সরবরাহ",
			export: "রপ্তানি", out: "করের আওতাবহির্ভূত",
		},
		tag: "bn", digits: DigitsBengali, indian: true, decimalSign: ".", groupSign: ",", percentSign: "%",
		months: [12]string{"জানুয়ারী", "ফেব্রুয়ারী", "মার্চ", "এপ্রিল", "মে", "জুন", "জুলাই", "আগস্ট", "সেপ্টেম্বর",
			"অক্টোবর", "নভেম্বর", "ডিসেম্বর"},
		date: "{d} {m}, {y}", symbol: asianSymbol("US$"), leading: 1.5,
	}
}

func hindi() *locale {
	return &locale{
		labels: labels{
			invoice: "बीजक", creditNote: "क्रेडिट नोट",
			from: "विक्रेता", to: "क्रेता",
			number: "संख्या", issued: "जारी करने की तिथि", due: "देय तिथि", currency: "मुद्रा", credits: "मूल बीजक",
			taxID:       "कर पहचान संख्या",
			description: "विवरण", quantity: "मात्रा", price: "इकाई मूल्य",
			discount: "छूट", tax: "कर", amount: "राशि",
			taxRate: "कर की दर", taxBase: "कर योग्य राशि", taxAmount: "कर राशि",
			net: "कर-पूर्व योग", taxTotal: "कुल कर", gross: "कुल योग", prepaid: "अग्रिम भुगतान",
			amountDue: "देय राशि", amountCredited: "जमा की गई राशि",
			amountDueBy: "%s तक देय राशि",
			payment:     "भुगतान", iban: "IBAN", bic: "BIC", paymentRef: "संदर्भ",
			notes:     "टिप्पणियाँ",
			pageOf:    "पृष्ठ %[1]s / %[2]s",
			zeroRated: "शून्य दर", exempt: "कर-मुक्त", reverse: "रिवर्स चार्ज", intra: "अंतर-सामुदायिक आपूर्ति",
			export: "निर्यात", out: "कर के दायरे से बाहर",
		},
		tag: "hi", digits: DigitsLatin, indian: true, decimalSign: ".", groupSign: ",", percentSign: "%",
		months: [12]string{"जनवरी", "फ़रवरी", "मार्च", "अप्रैल", "मई", "जून", "जुलाई", "अगस्त", "सितंबर",
			"अक्टूबर", "नवंबर", "दिसंबर"},
		date: "{d} {m} {y}", moneyFirst: true, symbol: asianSymbol("$"), leading: 1.5,
	}
}

func marathi() *locale {
	return &locale{
		labels: labels{
			invoice: "बीजक", creditNote: "क्रेडिट नोट",
			from: "विक्रेता", to: "ग्राहक",
			number: "क्रमांक", issued: "जारी दिनांक", due: "देय दिनांक", currency: "चलन", credits: "मूळ बीजक",
			taxID:       "कर ओळख क्रमांक",
			description: "तपशील", quantity: "प्रमाण", price: "प्रति एकक दर",
			discount: "सवलत", tax: "कर", amount: "रक्कम",
			taxRate: "कराचा दर", taxBase: "करपात्र रक्कम", taxAmount: "कर रक्कम",
			net: "करपूर्व एकूण", taxTotal: "एकूण कर", gross: "एकूण रक्कम", prepaid: "आगाऊ भरणा",
			amountDue: "देय रक्कम", amountCredited: "जमा केलेली रक्कम",
			amountDueBy: "%s पर्यंत देय रक्कम",
			payment:     "भरणा", iban: "IBAN", bic: "BIC", paymentRef: "संदर्भ",
			notes:     "टिपा",
			pageOf:    "पृष्ठ %[1]s / %[2]s",
			zeroRated: "शून्य दर", exempt: "करमुक्त", reverse: "रिव्हर्स चार्ज", intra: "युरोपीय संघांतर्गत पुरवठा",
			export: "निर्यात", out: "कराच्या कक्षेबाहेर",
		},
		tag: "mr", digits: DigitsDevanagari, indian: true, decimalSign: ".", groupSign: ",", percentSign: "%",
		months: [12]string{"जानेवारी", "फेब्रुवारी", "मार्च", "एप्रिल", "मे", "जून", "जुलै", "ऑगस्ट", "सप्टेंबर",
			"ऑक्टोबर", "नोव्हेंबर", "डिसेंबर"},
		date: "{d} {m}, {y}", moneyFirst: true, symbol: asianSymbol("$"), leading: 1.5,
	}
}

func arabic() *locale {
	return &locale{
		labels: labels{
			invoice: "فاتورة", creditNote: "إشعار دائن",
			from: "البائع", to: "العميل",
			number: "الرقم", issued: "تاريخ الإصدار", due: "تاريخ الاستحقاق", currency: "العملة", credits: "الفاتورة الأصلية",
			taxID:       "الرقم الضريبي",
			description: "الوصف", quantity: "الكمية", price: "سعر الوحدة",
			discount: "الخصم", tax: "الضريبة", amount: "المبلغ",
			taxRate: "نسبة الضريبة", taxBase: "المبلغ الخاضع", taxAmount: "مبلغ الضريبة",
			net: "الإجمالي قبل الضريبة", taxTotal: "إجمالي الضريبة", gross: "الإجمالي شامل الضريبة", prepaid: "المدفوع مقدمًا",
			amountDue: "المبلغ المستحق", amountCredited: "المبلغ الدائن",
			amountDueBy: "المبلغ المستحق حتى %s",
			payment:     "بيانات الدفع", iban: "IBAN", bic: "BIC", paymentRef: "المرجع",
			notes:     "ملاحظات",
			pageOf:    "صفحة %[1]s من %[2]s",
			zeroRated: "نسبة صفرية", exempt: "معفاة", reverse: "الاحتساب العكسي", intra: "توريد داخل الاتحاد الأوروبي",
			export: "تصدير", out: "خارج نطاق الضريبة",
		},
		tag: "ar", rightToLeft: true, digits: DigitsArabic, decimalSign: "٫", groupSign: "٬",
		months: [12]string{"يناير", "فبراير", "مارس", "أبريل", "مايو", "يونيو", "يوليو", "أغسطس", "سبتمبر",
			"أكتوبر", "نوفمبر", "ديسمبر"},
		date: "{d} {m} {y}", moneyGap: noBreak, symbol: arabicSymbol, leading: 1.55,
	}
}
