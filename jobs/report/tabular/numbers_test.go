package tabular_test

import (
	"testing"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

func TestLooksLikeFormula(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx", "\n=1", "+49 30 123", "+(1)", "-.", "-1e", "--1", "-1.2.3", "-1,2,3", "- x", "-e5", "==",
		"＝1+1", "＋1", "－1+1", "＠x", "-Infinity", "-1 %", "-0x10", "-١"} {
		if !tabular.LooksLikeFormula([]byte(v)) {
			t.Errorf("%q is not taken for a formula", v)
		}
	}
	for _, v := range []string{"", "-", "+", "=", "@", "＝", "-5", "+49.5", "1e5", "-1e5", "-1E+5", "-.5", "+5.", "-5,5", "+4930123456", "a=b", " =1", "'=1", "5-3", "ｱ", "\xef", "\xef\xbc", "0123", "（1）"} {
		if tabular.LooksLikeFormula([]byte(v)) {
			t.Errorf("%q is taken for a formula", v)
		}
	}
}

func TestIsNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]bool{"0": true, "-12.50": true, "+.5": true, "5.": true, "1e-05": true, "1E5": true, "": false, ".": false, "-": false, "1e": false, "1e+": false, "1.5.2": false,
		"1,5": false, " 1": false, "NaN": false, "Infinity": false, "0x1": false, "e5": false, ".e5": false} {
		if tabular.IsNumber([]byte(v)) != want {
			t.Errorf("%q: got %t", v, !want)
		}
	}
	for v, want := range map[string]bool{"NaN": true, "Infinity": true, "-Infinity": true, "infinity": false, "1": false, "": false} {
		if tabular.IsNoNumber([]byte(v)) != want {
			t.Errorf("%q: got %t", v, !want)
		}
	}
}

func TestSignificantDigits(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]int{
		"352776136104522888": 18, "-352776136104522888": 18, "123456789012345": 15, "1234567890123456": 16, "123456789012345000": 15, "00012": 2, "12000000000000000000": 2,
		"0": 0, "0.00": 0, "": 0, "12.00": 2, "12.05": 4, "0.0012": 2, "0.12345678901234567": 17, "100.5": 4, "+7": 1, "1.5e300": 2, "1e+20": 1, "NaN": 0, "-Infinity": 0, "1234567890.123450": 15,
	} {
		if got := tabular.SignificantDigits([]byte(v)); got != want {
			t.Errorf("%s: got %d, want %d", v, got, want)
		}
	}
}
