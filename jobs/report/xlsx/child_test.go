package xlsx

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

// A child is this test binary once more, so that its time and memory are those
// of one writer alone.
const childVariable = "XLSX_TEST_CHILD" // writer, rows, file, level of DEFLATE

// usage is what a process needed.
type usage struct {
	CPU  time.Duration `json:"-"`
	Wall time.Duration `json:"-"`
	Peak int64         // VmHWM in bytes
	Sys  uint64        // memory that Go took from the system

}

func TestMain(m *testing.M) {
	if order := os.Getenv(childVariable); order != "" {
		if err := child(strings.Fields(order)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func child(order []string) error {
	rows, err := strconv.ParseInt(order[1], 10, 64)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(order[3])
	if err != nil {
		return err
	}
	file, err := os.Create(order[2])
	if err != nil {
		return err
	}
	defer file.Close()
	write := map[string]func(*os.File, int64, int) error{"ours": childOurs, "excelize": childExcelize}[order[0]]
	if err := write(file, rows, n); err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	peak, err := highWater()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(usage{Peak: peak, Sys: memory.Sys})
}

func childOurs(file *os.File, rows int64, n int) error {
	l := ordersLayout()
	e, err := begin(file, l, tabular.NewNotes("xlsx", l), settings{rows: maxRows, level: n})
	if err != nil {
		return err
	}
	return writeOrders(e, rows)
}

func childExcelize(file *os.File, rows int64, _ int) error {
	f := excelize.NewFile()
	w, err := f.NewStreamWriter("Sheet1")
	if err != nil {
		return err
	}
	format := "yyyy-mm-dd hh:mm:ss"
	style, err := f.NewStyle(&excelize.Style{CustomNumFmt: &format})
	if err != nil {
		return err
	}
	o, names, cells := newOrders(), customers(), make([]any, 9)
	for i := int64(1); i <= rows; i++ {
		for k, v := range o.row(i, names) {
			cells[k] = nil
			if v != nil {
				cells[k] = string(v)
			}
		}
		cells[0], cells[4] = i, float64(o.cents)/100
		cells[6] = excelize.Cell{StyleID: style, Value: 44562 + float64(o.second)/86400}
		if err := w.SetRow("A"+strconv.FormatInt(i+1, 10), cells); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, outputSize)
	if err := f.Write(out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// highWater is the most memory that this process ever had, in bytes.
func highWater() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var kilobytes int64
	at := bytes.Index(status, []byte("VmHWM:"))
	if at < 0 {
		return 0, fmt.Errorf("no VmHWM in %s", status)
	}
	_, err = fmt.Sscanf(string(status[at:]), "VmHWM: %d kB", &kilobytes)
	return kilobytes << 10, err
}

// run writes a file in a child.
func run(ctx context.Context, tb testing.TB, writer string, rows int64, file string, n int) usage {
	tb.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s %d", childVariable, writer, rows, file, n))
	var u usage
	if out := measure(tb, cmd, &u); json.Unmarshal(out, &u) != nil {
		tb.Fatalf("%s said %q", writer, out)
	}
	return u
}

// measure runs a program to its end.
func measure(tb testing.TB, cmd *exec.Cmd, u *usage) []byte {
	tb.Helper()
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	start := time.Now()
	if err := cmd.Run(); err != nil {
		tb.Fatalf("%s: %v\n%s", cmd, err, problems.String())
	}
	u.Wall = time.Since(start)
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return out.Bytes()
}
