package xlsx

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// orders gives rows of the kind that a shop exports: names with quotes, commas
// and scripts of the world, notes of several lines, JSON, NULL. testdata/libxlsxwriter.c
// makes the same ones.
type orders struct {
	values [9][]byte
	buf    [9][]byte
	cents  int64
	second int64 // since 2022
	day    int64
	lorem  [6]string
}

func newOrders() *orders {
	o := new(orders)
	for i := range o.lorem {
		o.lorem[i] = strings.Repeat("lorem ipsum dolor sit amet ", 1+i)
	}
	return o
}

func customers() []string {
	return []string{"Rahman Traders", "মেসার্স রহমান ট্রেডার্স, ঢাকা", "श्री. कुलकर्णी आणि कंपनी, पुणे", "شركة النور للتجارة", "Müller & Söhne GmbH",
		`O'Brien, "Pat" & Co.`, "Acme Industrial Supply Ltd", "株式会社サンプル", "Søren Kierkegård ApS", "Tata Steel <India>", "Garcia Hermanos S.A.", "Walmart Inc"}
}

func ordersLayout() *tabular.Layout {
	field := func(i int, name string, oid uint32) tabular.Field {
		c := tabular.Column{Name: name, OID: oid}
		return tabular.Field{Column: c, Index: i, Label: name, Key: name, Kind: tabular.DefaultKind(c), Decimals: -1}
	}
	l := &tabular.Layout{Title: "Orders", Zone: time.UTC, Fields: []tabular.Field{
		field(0, "id", tabular.OIDInt8), field(1, "uid", tabular.OIDUUID), field(2, "customer", tabular.OIDText),
		field(3, "email", tabular.OIDText), field(4, "amount", tabular.OIDNumeric), field(5, "currency", tabular.OIDText),
		field(6, "created_at", tabular.OIDTimestampTZ), field(7, "meta", tabular.OIDJSONB), field(8, "note", tabular.OIDText)}}
	l.Fields[4].Kind = tabular.Money
	return l
}

// row makes the i-th row, in PostgreSQL's text.
func (o *orders) row(i int64, names []string) [][]byte {
	h, g := uint32(i*2654435761), uint32(i*40503+12345)
	b := hex(o.buf[1][:0], uint64(h), 8)
	b = hex(append(b, '-'), uint64(g&0xffff), 4)
	b = hex(append(b, "-4"...), uint64(h>>7&0xfff), 3)
	b = hex(append(b, "-8"...), uint64(g>>9&0xfff), 3)
	o.buf[1] = hex(append(b, '-'), uint64(h)*2654435761&0xffffffffffff, 12)
	o.buf[0] = strconv.AppendInt(o.buf[0][:0], i, 10)
	b = append(o.buf[2][:0], names[i*7919%12]...)
	o.buf[2] = strconv.AppendInt(append(b, ' '), i%5000, 10)
	b = strconv.AppendInt(append(o.buf[3][:0], "user"...), i%700000, 10)
	b = hex(append(b, '.'), uint64(h>>8), 6)
	b = strconv.AppendInt(append(b, "@example"...), i%37, 10)
	o.buf[3] = append(b, ".com"...)
	o.cents = i * 791919 % 25000000
	b = strconv.AppendInt(o.buf[4][:0], o.cents/100, 10)
	o.buf[4] = append(b, '.', byte('0'+o.cents/10%10), byte('0'+o.cents%10))
	o.buf[5] = append(o.buf[5][:0], "USDEURBDTINRSARJPY"[i*31%6*3:][:3]...)
	o.second = i * 61
	o.setTime()
	o.values = o.buf
	o.setMeta(i)
	o.setNote(i)
	return o.values[:]
}

// setTime formats the date only when it is another one: the generator is to cost
// little beside the writers.
func (o *orders) setTime() {
	if day := o.second / 86400; day != o.day || o.buf[6] == nil {
		o.day = day
		o.buf[6] = time.Unix(1640995200+day*86400, 0).UTC().AppendFormat(o.buf[6][:0], "2006-01-02 15:04:05+00")
	}
	clock, n := o.buf[6][11:], o.second%86400
	for _, part := range [...]struct{ at, n int64 }{{0, n / 3600}, {3, n / 60 % 60}, {6, n % 60}} {
		clock[part.at], clock[part.at+1] = byte('0'+part.n/10), byte('0'+part.n%10)
	}
}

func (o *orders) setMeta(i int64) {
	if i%5 == 0 {
		o.values[7] = nil
		return
	}
	b := strconv.AppendInt(append(o.buf[7][:0], `{"qty": `...), 1+i%17, 10)
	b = strconv.AppendInt(append(b, `, "sku": "SKU-`...), i%9973, 10)
	b = strconv.AppendBool(append(b, `", "gift": `...), i%3 == 0)
	b = strconv.AppendInt(append(b, `, "tags": ["a`...), i%13, 10)
	o.buf[7] = append(b, `", "b,\"q\""]}`...)
	o.values[7] = o.buf[7]
}

func (o *orders) setNote(i int64) {
	texts := [...]string{2: "plain note number ", 3: "comma, separated, note ", 4: `he said "urgent" about `,
		5: "line one\nline two, \"quoted\"\nline three ", 6: "জরুরি ডেলিভারি, पुणे कार्यालय — ✓ ", 7: o.lorem[i%6]}
	if i%8 < 2 {
		o.values[8] = nil
		return
	}
	o.buf[8] = strconv.AppendInt(append(o.buf[8][:0], texts[i%8]...), i, 10)
	o.values[8] = o.buf[8]
}

func hex(b []byte, v uint64, digits int) []byte {
	for k := digits - 1; k >= 0; k-- {
		b = append(b, "0123456789abcdef"[v>>(4*k)&15])
	}
	return b
}

// writeOrders writes so many rows through an encoder.
func writeOrders(e tabular.Encoder, rows int64) error {
	o, names := newOrders(), customers()
	for i := int64(1); i <= rows; i++ {
		if err := e.Row(i, o.row(i, names)); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return e.Close()
}
