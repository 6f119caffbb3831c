package parquet

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

var (
	errNoBool   = errors.New("is no boolean: the source must give t or f")
	errNoInt    = errors.New("is no whole number that the column's type can hold")
	errNoFloat  = errors.New("is no floating-point number")
	errNoUUID   = errors.New("is no UUID of the form 00000000-0000-0000-0000-000000000000")
	errNoBytea  = errors.New("is no bytea in hex: the source must set bytea_output to hex")
	errNotUTF8  = errors.New("is not valid UTF-8")
	errNoJSON   = errors.New("is no JSON in UTF-8")
	errNoArray  = errors.New("is no array of PostgreSQL in UTF-8")
	errTooLarge = errors.New("is longer than the 2 GB that Parquet allows")
)

func appendBool(dst, v []byte) ([]byte, tabular.Note, error) {
	switch string(v) {
	case "t", "true":
		return append(dst, 1), "", nil
	case "f", "false":
		return append(dst, 0), "", nil
	}
	return nil, "", errNoBool
}

// intConverter reads integers of so many bits; up to 32 are stored as 32.
func intConverter(width int) converter {
	limit := uint64(1) << (width - 1)
	return func(dst, v []byte) ([]byte, tabular.Note, error) {
		n, ok := parseInt(v, limit)
		if !ok {
			return nil, "", errNoInt
		}
		if width == 64 {
			return binary.LittleEndian.AppendUint64(dst, uint64(n)), "", nil
		}
		return binary.LittleEndian.AppendUint32(dst, uint32(n)), "", nil
	}
}

// parseInt reads a number from -limit to limit-1.
func parseInt(v []byte, limit uint64) (int64, bool) {
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	} else {
		limit--
	}
	if len(v) == 0 || len(v) > 19 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if n > limit {
		return 0, false
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), true
}

func appendFloat(dst, v []byte) ([]byte, tabular.Note, error) {
	f, err := strconv.ParseFloat(string(v), 32)
	if err != nil {
		return nil, "", errNoFloat
	}
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(f))), "", nil
}

func appendDouble(dst, v []byte) ([]byte, tabular.Note, error) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return nil, "", errNoFloat
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), "", nil
}

func appendUUID(dst, v []byte) ([]byte, tabular.Note, error) {
	if len(v) != 36 || v[8] != '-' || v[13] != '-' || v[18] != '-' || v[23] != '-' {
		return nil, "", errNoUUID
	}
	var digits [32]byte
	n := copy(digits[:], v[:8])
	n += copy(digits[n:], v[9:13])
	n += copy(digits[n:], v[14:18])
	n += copy(digits[n:], v[19:23])
	copy(digits[n:], v[24:])
	dst, err := hex.AppendDecode(dst, digits[:])
	if err != nil {
		return nil, "", errNoUUID
	}
	return dst, "", nil
}

// A byte array is its length in four bytes, little-endian, and the bytes.
// openArray leaves room for the length, closeArray fills it in.
func openArray(dst []byte) (at int, out []byte) { return len(dst), append(dst, 0, 0, 0, 0) }

func closeArray(dst []byte, at int, note tabular.Note) ([]byte, tabular.Note, error) {
	size := len(dst) - at - 4
	if size > math.MaxInt32 {
		return nil, "", errTooLarge
	}
	binary.LittleEndian.PutUint32(dst[at:], uint32(size))
	return dst, note, nil
}

func appendText(dst, v []byte) ([]byte, tabular.Note, error) {
	if !utf8.Valid(v) {
		return nil, "", errNotUTF8
	}
	at, dst := openArray(dst)
	return closeArray(append(dst, v...), at, "")
}

// labelConverter writes the label of a code, or the code when it has none.
func labelConverter(labels map[string]string) converter {
	return func(dst, v []byte) ([]byte, tabular.Note, error) {
		label, ok := labels[string(v)]
		if ok {
			at, dst := openArray(dst)
			return closeArray(append(dst, label...), at, "")
		}
		dst, _, err := appendText(dst, v)
		return dst, tabular.NoteNoLabel, err
	}
}

func appendBytea(dst, v []byte) ([]byte, tabular.Note, error) {
	if len(v) < 2 || v[0] != '\\' || v[1] != 'x' {
		return nil, "", errNoBytea
	}
	at, dst := openArray(dst)
	dst, err := hex.AppendDecode(dst, v[2:])
	if err != nil {
		return nil, "", errNoBytea
	}
	return closeArray(dst, at, "")
}

func appendJSON(dst, v []byte) ([]byte, tabular.Note, error) {
	at, dst := openArray(dst)
	dst, ok := tabular.AppendJSON(dst, v)
	if !ok {
		return nil, "", errNoJSON
	}
	return closeArray(dst, at, "")
}

// arrayConverter writes arrays as JSON arrays.
func arrayConverter(elem uint32) converter {
	return func(dst, v []byte) ([]byte, tabular.Note, error) {
		at, dst := openArray(dst)
		dst, bounds, ok := tabular.AppendArrayJSON(dst, v, elem)
		if !ok {
			return nil, "", errNoArray
		}
		if bounds {
			return closeArray(dst, at, tabular.NoteBounds)
		}
		return closeArray(dst, at, "")
	}
}
