package localpg

import (
	"io"
	"os"
	"strings"
)

const (
	logName = "server.log"
	// logLimit is the size in bytes at which the log is cut.
	logLimit = 4 << 20
	// tailLines and tailBytes bound what of a log goes into an error.
	tailLines = 12
	tailBytes = 8 << 10
)

// trimLog begins the log anew when it has grown past its limit, and keeps its last
// part as ".old". The server appends, so it goes on at the new beginning; a line
// that it writes in this very moment may be lost.
func trimLog(name string) error {
	info, err := os.Stat(name)
	if err != nil || info.Size() <= logLimit {
		return ignoreMissing(err)
	}
	old, err := readFrom(name, info.Size()-logLimit, logLimit)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".old", old, 0o600); err != nil {
		return err
	}
	return os.Truncate(name, 0)
}

// tail is the last lines that were written to the log at or after the position
// from; empty when the log cannot be read, because it only adds to an error.
func tail(name string, from int64) string {
	info, err := os.Stat(name)
	if err != nil {
		return ""
	}
	text, err := readFrom(name, max(from, info.Size()-tailBytes), tailBytes)
	if err != nil {
		return ""
	}
	return lastLines(string(text))
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func readFrom(name string, from, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, max(from, 0), limit))
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
