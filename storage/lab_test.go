package storage_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage"
)

// A scratch database is empty, beside the one of the address, and gone with whoever is connected to it.
func TestScratchDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scratch, drop, err := storage.ScratchDatabase(w.ctx, w.url, "fenceline_lab")
	w.must(err)
	conn, err := pgx.Connect(w.ctx, scratch)
	w.must(err)
	defer conn.Close(w.ctx)
	var name string
	var schemas int
	w.must(conn.QueryRow(w.ctx, "SELECT current_database(), (SELECT count(*) FROM pg_namespace WHERE nspname = 'fenceline')").Scan(&name, &schemas))
	if schemas != 0 {
		t.Error("it has the tables of another")
	}
	w.must(drop(w.ctx))
	var left int
	w.must(w.query("SELECT count(*) FROM pg_database WHERE datname = $1", name).Scan(&left))
	if left != 0 {
		t.Errorf("%s is left", name)
	}
	w.must(drop(w.ctx)) // what is gone is no error
}

// The last result of a backend takes the place of the one before.
func TestLabRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, run := range []storage.LabRun{{Backend: "redis", LeaseMS: 1}, {Backend: "none", LeaseMS: 2}, {Backend: "redis", LeaseMS: 3}} {
		w.must(w.store.SaveLab(w.ctx, run))
	}
	list, err := w.store.LabRuns(w.ctx)
	w.must(err)
	if len(list) != 2 || list[0].Backend != "none" || list[1].LeaseMS != 3 {
		t.Errorf("%+v", list)
	}
}
