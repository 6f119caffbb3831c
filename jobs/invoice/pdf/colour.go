package pdf

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// colourProfile is the sRGB colour space (IEC 61966-2-1) as a compressed ICC
// profile of version 2.1 (ICC.1:1998-09): what the numbers of every ink mean.
var colourProfile = sync.OnceValue(func() []byte { return deflate(buildProfile()) })

// deflate compresses what is used many times, once and well.
func deflate(data []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, err := w.Write(data)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	return out.Bytes()
}

func buildProfile() []byte {
	curve := toneCurve()
	tags := []struct {
		name string
		data []byte
	}{
		{"desc", profileName("sRGB IEC61966-2.1")},
		{"cprt", append([]byte("text\x00\x00\x00\x00"), "No copyright\x00"...)},
		{"wtpt", xyz(0.9642, 1, 0.8249)},         // D50, to which the colours are adapted
		{"rXYZ", xyz(0.43607, 0.22249, 0.01392)}, // Bradford-adapted primaries
		{"gXYZ", xyz(0.38515, 0.71687, 0.09708)},
		{"bXYZ", xyz(0.14307, 0.06061, 0.71410)},
		{"rTRC", curve}, {"gTRC", curve}, {"bTRC", curve},
	}
	table := binary.BigEndian.AppendUint32(nil, uint32(len(tags)))
	var body []byte
	start, curveAt := 128+4+12*len(tags), 0
	for _, t := range tags {
		at := start + len(body)
		if t.name[1:] == "TRC" && curveAt > 0 {
			at = curveAt // shared
		} else {
			body = append(body, t.data...)
			for len(body)%4 != 0 {
				body = append(body, 0)
			}
		}
		if t.name == "rTRC" {
			curveAt = at
		}
		table = append(table, t.name...)
		table = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(table, uint32(at)), uint32(len(t.data)))
	}
	header := make([]byte, 128)
	binary.BigEndian.PutUint32(header, uint32(start+len(body)))
	copy(header[8:], "\x02\x10\x00\x00mntrRGB XYZ ")
	copy(header[24:], []byte{7, 0xCE, 0, 2, 0, 9, 0, 6, 0, 49, 0, 0}) // the day of the space's first profile
	copy(header[36:], "acsp")
	copy(header[68:], xyz(0.9642, 1, 0.8249)[8:]) // the illuminant
	return append(append(header, table...), body...)
}

// toneCurve maps what a file says to light, as the standard defines it.
func toneCurve() []byte {
	const points = 1024
	out := binary.BigEndian.AppendUint32([]byte("curv\x00\x00\x00\x00"), points)
	for i := range points {
		v := float64(i) / (points - 1)
		light := v / 12.92
		if v > 0.04045 {
			light = math.Pow((v+0.055)/1.055, 2.4)
		}
		out = binary.BigEndian.AppendUint16(out, uint16(math.Round(light*65535)))
	}
	return out
}

func xyz(values ...float64) []byte {
	out := []byte("XYZ \x00\x00\x00\x00")
	for _, v := range values {
		out = binary.BigEndian.AppendUint32(out, uint32(math.Round(v*65536)))
	}
	return out
}

func profileName(name string) []byte {
	out := binary.BigEndian.AppendUint32([]byte("desc\x00\x00\x00\x00"), uint32(len(name)+1))
	out = append(append(out, name...), 0)
	return append(out, make([]byte, 4+4+2+1+67)...) // no other scripts
}
