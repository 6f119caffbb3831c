package xlsx

import (
	"math"
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// The double that a reader makes of a serial number is the moment, or one of the
// two next ones that there are, and shows the same millisecond.
func TestSerials(t *testing.T) {
	t.Parallel()
	rows := moments()
	for second := range 86_400 {
		at := time.Date(1968, 2, 1, 0, 0, second, 0, time.UTC)
		rows = append(rows, []string{at.Format("2006-01-02 15:04:05")})
	}
	exact := 0
	for _, row := range rows {
		s, ok := tabular.ParseStamp([]byte(row[0]))
		if !ok {
			t.Fatal(row[0])
		}
		day := s.UnixDays() + unixEpoch
		text := string(appendSerial(nil, day, s))
		got, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		want := big.NewRat(s.LocalMicros()+unixEpoch*86_400_000_000, 86_400_000_000)
		step := math.Nextafter(got, math.Inf(1)) - got
		late, _ := new(big.Rat).Sub(new(big.Rat).SetFloat64(got), want).Float64()
		if late < 0 || late > 1.5*step+2e-12 {
			t.Fatalf("%s: %s is %g days late, with %g between doubles", row[0], text, late, step)
		}
		if ms := math.Round((got - math.Floor(got)) * 86_400_000); ms != float64(s.LocalMicros()/1000-(day-unixEpoch)*86_400_000) {
			t.Fatalf("%s: %s shows millisecond %g of the day", row[0], text, ms)
		}
		if late == 0 {
			exact++
		}
	}
	if exact < 128 { // every 675 seconds of the day
		t.Errorf("only %d moments are exact", exact)
	}
}

func TestSerialStaysInItsDay(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"2026-01-31 12:00:00":        "46053.5",
		"2026-01-31 00:00:10.546875": "46053.000122070313",
		"2026-01-31 00:00:00":        "46053",
	} {
		s, _ := tabular.ParseStamp([]byte(value))
		if got := string(appendSerial(nil, s.UnixDays()+unixEpoch, s)); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
	for _, value := range []string{"1900-03-01 23:59:59.999999", "2026-01-31 23:59:59.999999", "9999-12-31 23:59:59.999999"} {
		s, _ := tabular.ParseStamp([]byte(value))
		day := s.UnixDays() + unixEpoch
		got, err := strconv.ParseFloat(string(appendSerial(nil, day, s)), 64)
		if err != nil || math.Floor(got) != float64(day) || got < float64(day)+0.99999999 {
			t.Errorf("%s: %v, %v", value, got, err)
		}
	}
}
