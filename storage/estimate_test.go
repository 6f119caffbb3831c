package storage_test

import (
	"errors"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

func TestEstimate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sn, err := w.store.Source().View(w.ctx, storage.ReadOptions{})
	w.must(err)
	defer sn.Close()
	for query, want := range map[string]int64{
		"-- a comment\nSELECT n FROM generate_series(1, 12345) n": 12345,
		"VALUES (1), (2)": 2,
	} {
		if got, err := sn.Estimate(w.ctx, query, nil); err != nil || got != want {
			t.Errorf("%s: about %d rows, %v; want %d", query, got, err, want)
		}
	}
	limit := "7"
	if got, err := sn.Estimate(w.ctx, "SELECT n FROM generate_series(1, 1000) n LIMIT $1::int", []*string{&limit}); err != nil || got != 7 {
		t.Errorf("with a parameter about %d rows, %v", got, err)
	}
	var refused *storage.QueryError
	if _, err := sn.Estimate(w.ctx, "SELECT\n nope", nil); !errors.As(err, &refused) || refused.Position != 9 {
		t.Errorf("a mistake is %v at %+v", err, refused)
	}
}
