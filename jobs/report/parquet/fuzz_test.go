package parquet_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// maker makes PostgreSQL's text of a value, and what readBack must say for it.
type maker struct {
	field tabular.Field
	make  func(r *rand.Rand, raw []byte) (text, want string)
}

func makers() []maker {
	return []maker{
		{field(tabular.OIDBool, ""), func(r *rand.Rand, _ []byte) (string, string) {
			v := r.IntN(2) == 0
			return strconv.FormatBool(v)[:1], strconv.FormatBool(v)
		}},
		{field(tabular.OIDInt2, ""), func(r *rand.Rand, _ []byte) (string, string) { return both(strconv.Itoa(int(int16(r.Uint64())))) }},
		{field(tabular.OIDInt4, ""), func(r *rand.Rand, _ []byte) (string, string) { return both(strconv.Itoa(int(int32(r.Uint64())))) }},
		{field(tabular.OIDInt8, ""), func(r *rand.Rand, _ []byte) (string, string) { return both(strconv.FormatInt(int64(r.Uint64()), 10)) }},
		{field(tabular.OIDFloat8, ""), func(r *rand.Rand, _ []byte) (string, string) {
			return both(strconv.FormatFloat(math.Float64frombits(r.Uint64()&^(1<<62)), 'g', -1, 64))
		}},
		{field(tabular.OIDFloat4, ""), func(r *rand.Rand, _ []byte) (string, string) {
			return both(strconv.FormatFloat(float64(r.Float32()-0.5), 'g', -1, 32))
		}},
		{numeric(7, 3), decimalMaker(7, 3)}, {numeric(16, 2), decimalMaker(16, 2)}, {numeric(38, 10), decimalMaker(38, 10)},
		{field(tabular.OIDNumeric, ""), func(r *rand.Rand, raw []byte) (string, string) {
			text, _ := decimalMaker(38, 9)(r, raw)
			return both(text)
		}},
		{field(tabular.OIDDate, ""), func(r *rand.Rand, _ []byte) (string, string) {
			days := r.IntN(4_000_000) - 1_500_000
			return dateText(days), strconv.Itoa(days)
		}},
		{field(tabular.OIDTimestampTZ, ""), instant(time.FixedZone("", 19800), "2006-01-02 15:04:05.999999-07:00")},
		{field(tabular.OIDTimestamp, ""), instant(time.UTC, "2006-01-02 15:04:05.999999")},
		{field(tabular.OIDTime, ""), func(r *rand.Rand, _ []byte) (string, string) {
			micros := r.Int64N(86400e6)
			return time.UnixMicro(micros).UTC().Format("15:04:05.999999"), strconv.FormatInt(micros, 10)
		}},
		{field(tabular.OIDUUID, ""), func(r *rand.Rand, _ []byte) (string, string) { return both(string(appendUUID(nil, r))) }},
		{field(tabular.OIDText, ""), func(_ *rand.Rand, raw []byte) (string, string) { return both(string(raw)) }},
		{field(tabular.OIDText, ""), func(r *rand.Rand, _ []byte) (string, string) { return both(pick(r, "", "a", "b", "longer")) }},
		{field(tabular.OIDBytea, ""), func(_ *rand.Rand, raw []byte) (string, string) { return `\x` + hex.EncodeToString(raw), string(raw) }},
		{field(tabular.OIDJSON, ""), func(r *rand.Rand, _ []byte) (string, string) {
			n := r.IntN(10)
			return fmt.Sprintf("{ \"n\": %d }", n), fmt.Sprintf(`{"n":%d}`, n)
		}},
	}
}

func both(s string) (string, string) { return s, s }

func decimalMaker(precision, scale int) func(*rand.Rand, []byte) (string, string) {
	return func(r *rand.Rand, _ []byte) (string, string) {
		digits := make([]byte, 1+r.IntN(precision))
		for i := range digits {
			digits[i] = byte('0' + r.IntN(10))
		}
		n, _ := new(big.Int).SetString(string(digits), 10)
		padded := strings.Repeat("0", max(0, scale+1-len(digits))) + string(digits)
		text := padded[:len(padded)-scale] + "." + padded[len(padded)-scale:]
		if r.IntN(2) == 0 {
			return text, n.String()
		}
		return "-" + text, n.Neg(n).String()
	}
}

// instant makes times from the year 68 to 9892.
func instant(zone *time.Location, layout string) func(*rand.Rand, []byte) (string, string) {
	return func(r *rand.Rand, _ []byte) (string, string) {
		micros := r.Int64N(31e16) - 6e16
		return time.UnixMicro(micros).In(zone).Format(layout), strconv.FormatInt(micros, 10)
	}
}

func dateText(days int) string {
	day := time.Unix(int64(days)*86400, 0).UTC()
	if day.Year() > 0 {
		return day.Format("2006-01-02")
	}
	return fmt.Sprintf("%04d-%s BC", 1-day.Year(), day.Format("01-02"))
}

// FuzzRows writes rows of all types and has parquet-go read them.
func FuzzRows(f *testing.F) {
	f.Add(uint64(1), []byte("text"), uint16(3), uint8(2))
	f.Add(uint64(2), []byte(""), uint16(40), uint8(0))
	f.Add(uint64(3), []byte("\x00\"é"), uint16(1100), uint8(3))
	f.Add(uint64(4), []byte(strings.Repeat("x", 400)), uint16(2500), uint8(9))
	f.Fuzz(func(t *testing.T, seed uint64, raw []byte, rows uint16, nullEvery uint8) {
		if !utf8.Valid(raw) {
			raw = []byte(hex.EncodeToString(raw))
		}
		r := rand.New(rand.NewPCG(seed, 0))
		columns := makers()
		l := layoutOf()
		for i, c := range columns {
			c.field.Index, c.field.Key = i, fmt.Sprint("c", i)
			l.Fields = append(l.Fields, c.field)
		}
		var in [][][]byte
		var want [][]*string
		for range rows % 4000 {
			texts, wants := makeRow(r, columns, raw, nullEvery)
			in, want = append(in, texts), append(want, wants)
		}
		file, warnings := mustWrite(t, l, in...)
		if len(warnings) > 0 {
			t.Errorf("unexpected %+v", warnings)
		}
		count := 0
		readBack(t, file, func(row int, values []*string) {
			count++
			for i, got := range values {
				if show(got) != show(want[row][i]) {
					t.Fatalf("row %d, column %d: %q was read as %s, want %s", row, i, in[row][i], show(got), show(want[row][i]))
				}
			}
		})
		if count != len(in) {
			t.Fatalf("%d rows were read, want %d", count, len(in))
		}
	})
}

func makeRow(r *rand.Rand, columns []maker, raw []byte, nullEvery uint8) ([][]byte, []*string) {
	texts, wants := make([][]byte, len(columns)), make([]*string, len(columns))
	for i, c := range columns {
		if nullEvery > 0 && r.IntN(int(nullEvery)) == 0 {
			continue
		}
		part := strings.ToValidUTF8(string(raw[:r.IntN(len(raw)+1)]), "")
		text, want := c.make(r, []byte(part))
		texts[i], wants[i] = []byte(text), &want
	}
	return texts, wants
}
