package invoice

import (
	"strconv"
	"strings"
)

// The code lists as EN 16931 takes them, in the edition of 2025-11.

// isPaymentMeans knows UNTDID 4461.
func isPaymentMeans(s string) bool {
	if s == "ZZZ" {
		return true
	}
	n, err := strconv.Atoi(s)
	return err == nil && strconv.Itoa(n) == s &&
		(n >= 1 && n <= 68 || n == 70 || n >= 74 && n <= 78 || n >= 91 && n <= 98)
}

// allowanceReasons are those of UNTDID 5189.
const allowanceReasons = " 41 42 60 62 63 64 65 66 67 68 70 71 88 95 100 102 103 104 105 "

func isAllowanceReason(s string) bool { return inList(allowanceReasons, s) }

// chargeReasons are those of UNTDID 7161.
const chargeReasons = " AA AAA AAC AAD AAE AAF AAH AAI AAS AAT AAV AAY AAZ ABA ABB ABC ABD ABF ABK ABL ABN ABR ABS ABT ABU" +
	" ACF ACG ACH ACI ACJ ACK ACL ACM ACS ADC ADE ADJ ADK ADL ADM ADN ADO ADP ADQ ADR ADT ADW ADY ADZ AEA" +
	" AEB AEC AED AEF AEH AEI AEJ AEK AEL AEM AEN AEO AEP AES AET AEU AEV AEW AEX AEY AEZ AJ AU CA CAB CAD" +
	" CAE CAF CAI CAJ CAK CAL CAM CAN CAO CAP CAQ CAR CAS CAT CAU CAV CAW CAX CAY CAZ CD CG CS CT DAB DAC" +
	" DAD DAF DAG DAH DAI DAJ DAK DAL DAM DAN DAO DAP DAQ DL EG EP ER FAA FAB FAC FC FH FI GAA HAA HD HH" +
	" IAA IAB ID IF IR IS KO L1 LA LAA LAB LF MAE MI ML NAA OA PA PAA PC PL PRV RAB RAC RAD RAF RE RF RH" +
	" RV SA SAA SAD SAE SAI SG SH SM SU TAB TAC TT TV V1 V2 WH XAA YY ZZZ "

func isChargeReason(s string) bool { return inList(chargeReasons, s) }

func inList(list, s string) bool {
	return s != "" && !strings.Contains(s, " ") && strings.Contains(list, " "+s+" ")
}

// isVATEX knows how the codes of exemption reasons look. The list itself grows
// twice a year.
func isVATEX(s string) bool {
	rest, ok := strings.CutPrefix(s, "VATEX-")
	return ok && len(rest) > 3 && len(rest) < 40 && onlyLetters(rest[:2]) && rest[2] == '-' &&
		capitalsAndDigits(strings.ReplaceAll(rest[3:], "-", ""))
}

// isCardNumber takes the last four to six digits of a card's number, or at most
// its first six and its last four with stars or X between.
func isCardNumber(s string) bool {
	if onlyDigits(s) {
		return len(s) >= 4 && len(s) <= 6
	}
	hidden := strings.TrimLeft(s, "0123456789")
	last := strings.TrimLeft(hidden, "*X")
	stars := len(hidden) - len(last)
	return len(s)-len(hidden) <= 6 && stars >= 1 && stars <= 15 && len(last) == 4 && onlyDigits(last)
}
