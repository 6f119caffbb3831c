package storage_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// A watcher hears of each statement, by whichever way it goes, with its context and its outcome.
func TestWatchingStatements(t *testing.T) {
	t.Parallel()
	type key struct{}
	var mu sync.Mutex
	var heard []string
	s, err := storage.Open(t.Context(), storagetest.Database(t, nil), storage.Options{Watch: func(ctx context.Context, sql string) func(error) {
		if ctx.Value(key{}) == nil {
			return nil
		}
		return func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(sql, "SELECT") {
				heard = append(heard, sql)
			}
			if err != nil {
				heard = append(heard, "failed")
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.WithValue(t.Context(), key{}, true)
	_ = s.Transaction(t.Context(), func(tx storage.Tx) error { return tx.Exec("SELECT 'unheard'").Error })
	_ = s.Transaction(ctx, func(tx storage.Tx) error { return tx.Exec("SELECT 1").Error })
	_ = s.Transaction(ctx, func(tx storage.Tx) error { return tx.Exec("SELECT nonsense").Error })
	if want := []string{"SELECT 1", "SELECT nonsense", "failed"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

// Nothing waits for a database that is not there, and nothing of the store is left when it is closed.
func TestAStoreOfNowhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := storage.Nowhere(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, drawn := s.Fence(t.Context(), "acme", "r", "") // is asked for until there is an answer, otherwise
		for _, err := range []error{drawn, s.Ping(t.Context()), s.Transaction(t.Context(), func(storage.Tx) error { return nil })} {
			if !errors.Is(err, storage.ErrNoDatabase) {
				t.Error(err)
			}
		}
	})
}
