package parquet

import (
	"bytes"

	"github.com/parquet-go/parquet-go/format"
)

// order is how a column's values are compared, and with that how their PLAIN
// encoding reads.
type order int

const (
	orderBytes  order = iota // a length of four bytes and the value: bytewise
	orderFixed               // bytewise
	orderSigned              // big-endian two's complement
	orderInt32
	orderInt64
	orderFloat
	orderDouble
	orderBool
)

// maxBound is the length over which bounds are not worth their place in the
// footer, in bytes. They could be shortened, but not so that a reader could tell.
const maxBound = 128

// bounds are the least and the greatest value of a chunk.
type bounds struct {
	order    order
	any      bool
	off      bool // there are none that a reader could use
	min, max []byte
}

// see takes in the values of a page, in PLAIN encoding. Doing so for all at once
// costs a fraction of looking at each as it comes.
func (b *bounds) see(values []byte) {
	if b.off || len(values) == 0 {
		return
	}
	least, greatest, ok := extremes(b.order, values)
	if !ok {
		b.off = true
		return
	}
	if !b.any {
		b.any = true
		b.set(&b.min, least)
		b.set(&b.max, greatest)
		return
	}
	if b.less(least, b.min) {
		b.set(&b.min, least)
	}
	if b.less(b.max, greatest) {
		b.set(&b.max, greatest)
	}
}

func (b *bounds) set(bound *[]byte, v []byte) {
	if len(v) > maxBound {
		b.off = true
		return
	}
	*bound = append((*bound)[:0], v...)
}

func (b *bounds) less(x, y []byte) bool {
	switch b.order {
	case orderInt32:
		return int32At(x) < int32At(y)
	case orderInt64:
		return int64At(x) < int64At(y)
	case orderFloat:
		return float32At(x) < float32At(y)
	case orderDouble:
		return float64At(x) < float64At(y)
	case orderSigned:
		if int8(x[0]) != int8(y[0]) {
			return int8(x[0]) < int8(y[0])
		}
	}
	return bytes.Compare(x, y) < 0
}

// statistics are the bounds as the footer has them. They share no memory with b.
func (b *bounds) statistics(nulls int) format.Statistics {
	s := format.Statistics{NullCount: int64(nulls)}
	if b.off || !b.any {
		return s
	}
	s.MinValue = append(make([]byte, 0, len(b.min)), b.min...)
	s.MaxValue = append(make([]byte, 0, len(b.max)), b.max...)
	// parquet.thrift, ColumnOrder: a zero may be either, so that the least is -0
	// and the greatest +0.
	if b.order == orderFloat || b.order == orderDouble {
		last := len(s.MinValue) - 1
		if b.isZero(s.MinValue) {
			s.MinValue[last] = 0x80
		}
		if b.isZero(s.MaxValue) {
			s.MaxValue[last] = 0
		}
	}
	return s
}

func (b *bounds) isZero(v []byte) bool {
	if b.order == orderFloat {
		return float32At(v) == 0
	}
	return float64At(v) == 0
}

func (b *bounds) reset() { b.any, b.off = false, false }
