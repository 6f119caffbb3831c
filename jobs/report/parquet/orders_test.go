package parquet_test

import (
	"encoding/hex"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/fenceline/fenceline/jobs/report/parquet"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// orders makes rows like those of a shop, always the same ones.
type orders struct {
	rng    *rand.Rand
	row    int64
	values [9][]byte
	note   []byte
	noise  int    // bytes in a note that hardly compress: they fill row groups quickly
	block  []byte // noise to cut from
}

func newOrders(noise int) *orders {
	o := &orders{rng: rand.New(rand.NewPCG(1, 2)), noise: noise}
	for noise > 0 && len(o.block) < 1<<20 {
		o.block = strconv.AppendUint(o.block, o.rng.Uint64(), 36)
	}
	return o
}

func orderLayout() *tabular.Layout {
	columns := []tabular.Column{
		{Name: "id", OID: tabular.OIDInt8}, {Name: "key", OID: tabular.OIDUUID}, {Name: "customer", OID: tabular.OIDText},
		{Name: "email", OID: tabular.OIDText}, {Name: "amount", OID: tabular.OIDNumeric, Precision: 12, Scale: 2},
		{Name: "currency", OID: tabular.OIDText}, {Name: "created_at", OID: tabular.OIDTimestampTZ},
		{Name: "attributes", OID: tabular.OIDJSONB}, {Name: "note", OID: tabular.OIDText},
	}
	return layoutOf(columns...)
}

// next is the next row; its values are valid until the one after.
func (o *orders) next() [][]byte {
	r, v := o.rng, &o.values
	o.row++
	name := pick(r, "Ada Lovelace", "Søren Kierkegaard", "Nguyễn Thị Minh Khai", "O'Brien, Pat", "王小明", "রবীন্দ্রনাথ ঠাকুর", "Zoë \"Zed\" Q.", "Müller & Söhne, GmbH")
	user := r.IntN(200_000)
	v[0] = strconv.AppendInt(v[0][:0], o.row, 10)
	v[1] = appendUUID(v[1][:0], r)
	v[2] = strconv.AppendInt(append(append(v[2][:0], name...), ' '), int64(user%977), 10)
	v[3] = append(strconv.AppendInt(append(v[3][:0], "user."...), int64(user), 10), "@mail.example.com"...)
	cents := r.IntN(100)
	v[4] = append(strconv.AppendInt(v[4][:0], int64(r.IntN(5000)), 10), '.', byte('0'+cents/10), byte('0'+cents%10))
	v[5] = append(v[5][:0], pick(r, "EUR", "USD", "BDT", "JPY", "GBP")...)
	at := time.Unix(1_700_000_000+o.row*7, int64(r.IntN(1_000_000))*1000).UTC()
	v[6] = at.AppendFormat(v[6][:0], "2006-01-02 15:04:05.000000+00")
	v[7] = append(v[7][:0], `{"source": "`...)
	v[7] = append(append(v[7], pick(r, "web", "app", "phone")...), `", "coupon": `...)
	v[7] = append(strconv.AppendInt(v[7], int64(r.IntN(10000)), 10), `, "gift": true, "tags": ["new", "vip"]}`...)
	if v[8] = nil; r.IntN(4) == 0 {
		return v[:]
	}
	v[8] = o.note[:0]
	for range 1 + r.IntN(4) {
		v[8] = append(v[8], pick(r, "please leave at the door, ", "call \"before\" noon\n", "gift wrap; ", "zweiter Stock links, ", "সকাল ১০টার পরে ", "ring twice — thanks! ")...)
	}
	v[8] = strconv.AppendInt(v[8], int64(r.IntN(1000)), 10)
	if o.noise > 0 {
		at := r.IntN(len(o.block) - o.noise)
		v[8] = append(v[8], o.block[at:at+o.noise]...)
	}
	o.note = v[8]
	return v[:]
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

func appendUUID(dst []byte, r *rand.Rand) []byte {
	var raw [16]byte
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	dst = append(hex.AppendEncode(dst, raw[:4]), '-')
	dst = append(hex.AppendEncode(dst, raw[4:6]), '-')
	dst = append(hex.AppendEncode(dst, raw[6:8]), '-')
	dst = append(hex.AppendEncode(dst, raw[8:10]), '-')
	return hex.AppendEncode(dst, raw[10:])
}

// writeOrders writes so many of the orders to w.
func writeOrders(w io.Writer, o *orders, rows int64) error {
	l := orderLayout()
	e, err := parquet.Format().New(w, l, tabular.NewNotes("parquet", l))
	if err != nil {
		return err
	}
	for row := range rows {
		if err := e.Row(row+1, o.next()); err != nil {
			return err
		}
	}
	return e.Close()
}
