package invoice

// The signs of currencies by language (CLDR 46, currencies, symbol). "" means
// that the code is used: a sign that means another currency to the reader is
// worse than none.

// commonSymbol are signs that mean the same everywhere.
func commonSymbol(code string) string {
	switch code {
	case "EUR":
		return "€"
	case "GBP":
		return "£"
	case "INR":
		return "₹"
	case "ILS":
		return "₪"
	}
	return ""
}

func englishSymbol(code string) string {
	switch code {
	case "AUD":
		return "A$"
	case "BRL":
		return "R$"
	case "CAD":
		return "CA$"
	case "CNY":
		return "CN¥"
	case "HKD":
		return "HK$"
	case "JPY":
		return "¥"
	case "KRW":
		return "₩"
	case "MXN":
		return "MX$"
	case "NZD":
		return "NZ$"
	case "TWD":
		return "NT$"
	case "USD":
		return "$"
	case "VND":
		return "₫"
	case "XCD":
		return "EC$"
	}
	return commonSymbol(code)
}

func germanSymbol(code string) string {
	switch code {
	case "USD":
		return "$"
	case "JPY":
		return "¥"
	}
	return commonSymbol(code)
}

func frenchSymbol(code string) string {
	switch code {
	case "USD":
		return "$US"
	case "CAD":
		return "$CA"
	case "GBP":
		return "£GB"
	}
	return commonSymbol(code)
}

func spanishSymbol(code string) string {
	switch code {
	case "USD":
		return "US$"
	case "GBP", "INR", "ILS":
		return ""
	}
	return commonSymbol(code)
}

// asianSymbol are the signs of Bengali, Hindi and Marathi, which write the
// dollar in different ways.
func asianSymbol(dollar string) func(string) string {
	return func(code string) string {
		switch code {
		case "USD":
			return dollar
		case "BDT":
			return "৳"
		case "JPY":
			return "JP¥"
		}
		return commonSymbol(code)
	}
}

func arabicSymbol(code string) string {
	switch code {
	case "AED":
		return "د.إ."
	case "BHD":
		return "د.ب."
	case "DZD":
		return "د.ج."
	case "EGP":
		return "ج.م."
	case "IQD":
		return "د.ع."
	case "JOD":
		return "د.أ."
	case "KWD":
		return "د.ك."
	case "LBP":
		return "ل.ل."
	case "MAD":
		return "د.م."
	case "OMR":
		return "ر.ع."
	case "QAR":
		return "ر.ق."
	case "SAR":
		return "ر.س."
	case "TND":
		return "د.ت."
	case "USD":
		return "US$"
	}
	return commonSymbol(code)
}
