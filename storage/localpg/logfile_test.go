package localpg

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTrimLog(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), logName)
	if err := trimLog(name); err != nil {
		t.Errorf("no log yet: %v", err)
	}
	// The server holds the file open and appends.
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(b []byte) {
		t.Helper()
		if _, err := log.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := trimLog(name); err != nil {
			t.Fatal(err)
		}
	}
	write(bytes.Repeat([]byte("x"), logLimit))
	if info, err := os.Stat(name); err != nil || info.Size() != logLimit {
		t.Fatalf("cut too early: %v, %v", info, err)
	}
	write([]byte("last"))
	write([]byte("next"))
	if got, err := os.ReadFile(name); err != nil || string(got) != "next" {
		t.Errorf("log: %d bytes, %v", len(got), err)
	}
	if old, err := os.ReadFile(name + ".old"); err != nil || len(old) != logLimit || !bytes.HasSuffix(old, []byte("xlast")) {
		t.Errorf("old log: %d bytes, %v", len(old), err)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), logName)
	if got := tail(name, 0); got != "" {
		t.Errorf("no log: %q", got)
	}
	text := strings.Repeat("before\n", 2000)
	if err := os.WriteFile(name, []byte(text+"one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(name, int64(len(text))); got != "one\ntwo" {
		t.Errorf("got %q", got)
	}
	if got := strings.Split(tail(name, 0), "\n"); len(got) != tailLines || got[tailLines-1] != "two" {
		t.Errorf("got %q", got)
	}
}
