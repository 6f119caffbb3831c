package parquet

import (
	"bytes"
	"hash/maphash"
)

// trial is how many values a dictionary gets before it must have saved something.
const trial = 8192

// dictionary numbers the different values of a chunk.
type dictionary struct {
	values []byte   // all of them, in PLAIN encoding
	ends   []uint32 // where each ends in values
	hashes []uint32
	table  []uint32 // open addressing: number + 1, or 0
	seed   maphash.Seed
	limit  int // bytes
	seen   int // values, new ones and known ones
	check  int // when seen is to be compared next
}

func newDictionary(limit int) *dictionary {
	return &dictionary{table: make([]uint32, 256), seed: maphash.MakeSeed(), limit: limit, check: trial}
}

// intern gives the number of the value at the end of values, which begins at
// start. A known one is taken off values again.
func (d *dictionary) intern(start int) int32 {
	d.seen++
	v := d.values[start:]
	hash := uint32(maphash.Bytes(d.seed, v))
	mask := uint32(len(d.table) - 1)
	at := hash & mask
	for ; d.table[at] != 0; at = (at + 1) & mask {
		n := int32(d.table[at] - 1)
		if d.hashes[n] == hash && bytes.Equal(d.value(n), v) {
			d.values = d.values[:start]
			return n
		}
	}
	d.ends = append(d.ends, uint32(len(d.values)))
	d.hashes = append(d.hashes, hash)
	d.table[at] = uint32(len(d.ends))
	if 2*len(d.ends) > len(d.table) {
		d.grow()
	}
	return int32(len(d.ends) - 1)
}

func (d *dictionary) grow() {
	d.table = make([]uint32, 2*len(d.table))
	mask := uint32(len(d.table) - 1)
	for n, hash := range d.hashes {
		at := hash & mask
		for d.table[at] != 0 {
			at = (at + 1) & mask
		}
		d.table[at] = uint32(n + 1)
	}
}

func (d *dictionary) value(n int32) []byte {
	start := uint32(0)
	if n > 0 {
		start = d.ends[n-1]
	}
	return d.values[start:d.ends[n]]
}

// exhausted reports that further values are better written as they are: when it
// is full, or, after the trial and whenever the number of values has doubled, when
// too many of them were new.
func (d *dictionary) exhausted() bool {
	if len(d.values) > d.limit || len(d.ends) > d.limit/16 {
		return true
	}
	if d.seen < d.check {
		return false
	}
	first := d.check == trial
	d.check *= 2
	return !first && 2*len(d.ends) > d.seen || d.wasteful()
}

// wasteful reports that fewer than a quarter of the values were known ones.
func (d *dictionary) wasteful() bool { return 4*len(d.ends) > 3*d.seen }

func (d *dictionary) reset() {
	d.values, d.ends, d.hashes = trimmed(d.values, d.limit), d.ends[:0], d.hashes[:0]
	clear(d.table)
	d.seen, d.check = 0, trial
}
