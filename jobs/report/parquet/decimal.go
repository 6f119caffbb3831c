package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// decimalConverter writes numbers as whole multiples of 10^-scale in two's
// complement: in 4 or 8 bytes, little-endian, or 16, big-endian. NaN and the
// infinities have no value. Every other number is exact or an error.
func decimalConverter(precision, scale int) converter {
	tooWide := fmt.Errorf("does not fit DECIMAL(%d,%d), and is not rounded: round it in the report's SELECT, "+
		"declare as many decimals as its values have, or none to get text", precision, scale)
	return func(dst, v []byte) ([]byte, tabular.Note, error) {
		if tabular.IsNoNumber(v) {
			return nil, tabular.NoteNoValue, nil
		}
		hi, lo, state := parseDecimal(v, precision, scale)
		if state == decimalWide {
			return nil, "", tooWide
		}
		if state == decimalBad {
			return nil, "", errNoNumeric
		}
		switch {
		case precision <= 9:
			return binary.LittleEndian.AppendUint32(dst, uint32(lo)), "", nil
		case precision <= 18:
			return binary.LittleEndian.AppendUint64(dst, lo), "", nil
		}
		dst = binary.BigEndian.AppendUint64(dst, hi)
		return binary.BigEndian.AppendUint64(dst, lo), "", nil
	}
}

// appendNumericText keeps the digits of a numeric that no type bounds.
func appendNumericText(dst, v []byte) ([]byte, tabular.Note, error) {
	if !tabular.IsNoNumber(v) {
		if _, _, state := parseDecimal(v, maxPrecision, maxPrecision); state == decimalBad {
			return nil, "", errNoNumeric
		}
	}
	return appendText(dst, v)
}

type decimalState int

const (
	decimalExact decimalState = iota
	decimalWide               // it has more digits than allowed
	decimalBad                // it is no number
)

var errNoNumeric = errors.New("is no decimal number")

// parseDecimal reads 123, -12.50 or .5 as a 128-bit multiple of 10^-scale.
func parseDecimal(v []byte, precision, scale int) (hi, lo uint64, state decimalState) {
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	var digits, significant, decimals int
	mark := false
	for _, c := range v {
		if c == '.' && !mark {
			mark = true
			continue
		}
		if c < '0' || c > '9' {
			return 0, 0, decimalBad
		}
		digits++
		if mark {
			decimals++
		}
		switch {
		case decimals > scale:
			if c != '0' {
				state = decimalWide
			}
		default:
			if significant > 0 || c != '0' {
				significant++
			}
			hi, lo = timesTen(hi, lo, c-'0')
		}
	}
	if digits == 0 {
		return 0, 0, decimalBad
	}
	for ; decimals < scale; decimals++ {
		if significant > 0 {
			significant++
		}
		hi, lo = timesTen(hi, lo, 0)
	}
	if significant > precision {
		state = decimalWide
	}
	if negative {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	return hi, lo, state
}

// timesTen is 10x + digit, modulo 2^128.
func timesTen(hi, lo uint64, digit byte) (uint64, uint64) {
	if hi == 0 && lo < 1<<60 {
		return 0, lo*10 + uint64(digit)
	}
	over, low := bits.Mul64(lo, 10)
	low, carry := bits.Add64(low, uint64(digit), 0)
	return hi*10 + over + carry, low
}
