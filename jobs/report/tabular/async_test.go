package tabular_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/fenceline/fenceline/jobs/report/tabular"
)

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Every test runs in a bubble: it fails when a goroutine is left.

func TestAsyncWriterKeepsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got, want bytes.Buffer
		places := map[*byte]bool{}
		a := tabular.NewAsyncWriter(writerFunc(func(p []byte) (int, error) {
			places[&p[0]] = true
			return got.Write(p)
		}))
		random := rand.New(rand.NewPCG(1, 2))
		for round := range byte(200) {
			p := bytes.Repeat([]byte{round, round + 1, round + 2}, random.IntN(30_000))
			want.Write(p)
			if n, err := a.Write(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			clear(p) // the writer has its own copy
		}
		if err := a.Close(); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%v: %d bytes of %d", err, got.Len(), want.Len())
		}
		if len(places) > 4 {
			t.Errorf("%d buffers", len(places))
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Error("it writes on after Close")
		}
		if err := a.Close(); err == nil {
			t.Error("it was closed twice")
		}
		a.Abort()
	})
}

func TestAsyncWriterWritesLittleAndNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "abc"} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			a := tabular.NewAsyncWriter(writerFunc(func(p []byte) (int, error) {
				got = append(got, string(p))
				return len(p), nil
			}))
			_, _ = a.Write([]byte(text))
			synctest.Wait()
			if len(got) > 0 {
				t.Errorf("written before it was enough: %q", got)
			}
			if err := a.Close(); err != nil || text == "" && len(got) > 0 || text != "" && (len(got) != 1 || got[0] != text) {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		})
	}
}

func TestAsyncWriterTellsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	for name, w := range map[string]struct {
		write writerFunc
		want  error
	}{
		"error": {func([]byte) (int, error) { return 0, broken }, broken},
		"short": {func(p []byte) (int, error) { return len(p) - 1, nil }, io.ErrShortWrite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				a := tabular.NewAsyncWriter(writerFunc(func(p []byte) (int, error) {
					calls++
					return w.write(p)
				}))
				// A megabyte and more: nobody waits for room after an error.
				for range 20 {
					_, _ = a.Write(make([]byte, 256<<10))
				}
				synctest.Wait()
				if _, err := a.Write([]byte("x")); !errors.Is(err, w.want) {
					t.Errorf("Write: %v", err)
				}
				if err := a.Close(); !errors.Is(err, w.want) || calls != 1 {
					t.Errorf("Close: %v, after %d calls", err, calls)
				}
			})
		})
		t.Run(name+" at the end", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := tabular.NewAsyncWriter(w.write)
				if _, err := a.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				if err := a.Close(); !errors.Is(err, w.want) {
					t.Error(err)
				}
			})
		})
	}
}

func TestAsyncWriterIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, calls := make(chan struct{}), 0
		a := tabular.NewAsyncWriter(writerFunc(func(p []byte) (int, error) {
			calls++
			<-release
			return len(p), nil
		}))
		if _, err := a.Write(make([]byte, 700<<10)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the first piece is being written
		ended := make(chan struct{})
		go func() {
			a.Abort()
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("Abort returned while the writer behind was busy")
		default:
		}
		close(release)
		<-ended
		if calls != 1 {
			t.Errorf("%d pieces were written", calls)
		}
		if err := a.Close(); err == nil {
			t.Error("what was given up was closed well")
		}
		a.Abort()
	})
}
