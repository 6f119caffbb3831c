package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
)

// extremes are the least and the greatest of values in PLAIN encoding, of which
// there is at least one. They are parts of values. ok is false when there is a
// NaN: to PostgreSQL and many readers it is the greatest number, to others it is
// none, so that bounds without it would lose it, and bounds with it are forbidden.
func extremes(order order, values []byte) (least, greatest []byte, ok bool) {
	switch order {
	case orderInt32:
		return extremesOf(values, 4, int32At)
	case orderInt64:
		return extremesOf(values, 8, int64At)
	case orderFloat:
		return extremesOf(values, 4, float32At)
	case orderDouble:
		return extremesOf(values, 8, float64At)
	case orderBool:
		return extremesOf(values, 1, func(v []byte) byte { return v[0] })
	case orderFixed:
		least, greatest = extremesOf16(values, 0)
	case orderSigned:
		least, greatest = extremesOf16(values, 1<<63)
	default:
		least, greatest = extremesOfArrays(values)
	}
	return least, greatest, true
}

// extremesOf reads values of one width.
func extremesOf[T cmp.Ordered](values []byte, width int, at func([]byte) T) (least, greatest []byte, ok bool) {
	lo, hi := at(values), at(values)
	var loAt, hiAt int
	for i := 0; i < len(values); i += width {
		v := at(values[i:])
		if v < lo {
			lo, loAt = v, i
		} else if v > hi {
			hi, hiAt = v, i
		} else if v != v {
			return nil, nil, false
		}
	}
	return values[loAt : loAt+width], values[hiAt : hiAt+width], lo == lo
}

// extremesOf16 reads big-endian values of 16 bytes, whose highest bits are
// compared after a flip.
func extremesOf16(values []byte, flip uint64) (least, greatest []byte) {
	loHigh, loLow := binary.BigEndian.Uint64(values)^flip, binary.BigEndian.Uint64(values[8:])
	hiHigh, hiLow := loHigh, loLow
	var loAt, hiAt int
	for i := 0; i < len(values); i += 16 {
		high, low := binary.BigEndian.Uint64(values[i:])^flip, binary.BigEndian.Uint64(values[i+8:])
		if high < loHigh || high == loHigh && low < loLow {
			loHigh, loLow, loAt = high, low, i
		} else if high > hiHigh || high == hiHigh && low > hiLow {
			hiHigh, hiLow, hiAt = high, low, i
		}
	}
	return values[loAt : loAt+16], values[hiAt : hiAt+16]
}

// extremesOfArrays reads byte arrays, each after its length. Their first eight
// bytes as a number decide most comparisons.
func extremesOfArrays(values []byte) (least, greatest []byte) {
	var loHead, hiHead uint64
	for at := 0; at < len(values); {
		start := at + 4
		end := start + int(binary.LittleEndian.Uint32(values[at:]))
		v := values[start:end]
		head := headOf(v)
		switch {
		case at == 0:
			least, greatest, loHead, hiHead = v, v, head, head
		case head < loHead || head == loHead && bytes.Compare(v, least) < 0:
			least, loHead = v, head
		case head > hiHead || head == hiHead && bytes.Compare(v, greatest) > 0:
			greatest, hiHead = v, head
		}
		at = end
	}
	return least, greatest
}

// headOf are the first bytes of v, with zeros behind a shorter one: equal heads
// say nothing, different ones say which v comes first.
func headOf(v []byte) uint64 {
	if len(v) >= 8 {
		return binary.BigEndian.Uint64(v)
	}
	var head [8]byte
	copy(head[:], v)
	return binary.BigEndian.Uint64(head[:])
}

func int32At(v []byte) int32     { return int32(binary.LittleEndian.Uint32(v)) }
func int64At(v []byte) int64     { return int64(binary.LittleEndian.Uint64(v)) }
func float32At(v []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(v)) }
func float64At(v []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(v)) }
