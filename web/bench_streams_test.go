package web

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// streamsAtOnce is how many event streams the test opens.
const streamsAtOnce = 1000

// A thousand open event streams cost less than 100 MB, with one listener on
// PostgreSQL, and each still hears what happens. The connections' other ends are
// in this process too, so the figure is above what a server pays.
func TestAThousandStreams(t *testing.T) {
	w := newWorld(t)
	who := w.token("acme")
	w.stream("/events", who).next(t, ": welcome")
	before := memory()
	conns := make([]*bufio.Reader, streamsAtOnce)
	for i := range conns {
		conn := must(net.Dial("tcp", strings.TrimPrefix(w.base, "http://")))(t)
		t.Cleanup(func() { _ = conn.Close() })
		must(fmt.Fprintf(conn, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", who.name, who.value))(t)
		if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		conns[i] = bufio.NewReaderSize(conn, 512)
		readUntil(t, conns[i], ": welcome")
	}
	grown := float64(memory()-before) / 1e6
	t.Logf("%d open event streams cost %.1f MB", streamsAtOnce, grown)
	if grown > 100 {
		t.Errorf("%d open event streams cost %.0f MB, want at most 100", streamsAtOnce, grown)
	}
	if n := w.listeners(); n != 1 {
		t.Errorf("%d connections look for news for %d streams, want 1", n, streamsAtOnce)
	}
	j := w.job("acme", "k", "K")
	for _, c := range conns {
		readUntil(t, c, j.ExportID.String())
	}
}

func readUntil(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended before %q: %v", text, err)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

// memory is what heap and stacks take, in bytes, after what is not used any more was given back.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// listeners counts the connections of this database that look for news.
func (w *world) listeners() (n int64) {
	w.t.Helper()
	err := w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		return tx.Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%news_since%' AND pid <> pg_backend_pid()").Scan(&n).Error
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
