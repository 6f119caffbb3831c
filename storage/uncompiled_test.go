package storage_test

import (
	"net/url"
	"testing"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// Plans of the store are not compiled, unless the address asks for it.
func TestPlansAreNotCompiled(t *testing.T) {
	t.Parallel()
	address := storagetest.Database(t, migrate)
	asked, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := asked.Query()
	q.Set("jit", "on")
	asked.RawQuery = q.Encode()
	for _, c := range []struct{ address, want string }{{address, "off"}, {asked.String(), "on"}} {
		store := openStore(t, c.address)
		var got string
		err := store.Transaction(t.Context(), func(tx storage.Tx) error { return tx.Raw("SHOW jit").Row().Scan(&got) })
		if err != nil || got != c.want {
			t.Errorf("jit is %q, %v; want %q", got, err, c.want)
		}
	}
}
