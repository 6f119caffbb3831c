package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

func askEpoch(ctx context.Context, d *doctor) (finding, error) {
	e, err := d.postgres.Epoch(ctx)
	if err != nil {
		return finding{}, err
	}
	return judgeEpoch(e, d.mark(ctx)), nil
}

// mark is what the files remember of the database; zero when they cannot be read, which files.folder says.
func (d *doctor) mark(ctx context.Context) files.Mark {
	if l, is := d.bucket(); is {
		f, _ := files.LookAtBucket(ctx, l)
		return f.Mark
	}
	f, _ := files.LookAt(d.conf.Files)
	return f.Mark
}

func judgeEpoch(e storage.Epoch, m files.Mark) finding {
	const law = "L1–L3, L7: nothing is published and nothing cleaned up until then; jobs wait"
	const do = "make sure that no other database uses these files, then `fenceline recover --dry-run` and `fenceline recover`"
	why := e.Trouble
	switch {
	case why != "":
	case m.Epoch != uuid.Nil && m.Epoch != e.ID:
		why = fmt.Sprintf("the files are of epoch %s, the database of %s", m.Epoch, e.ID)
	case m.Epoch != uuid.Nil && (m.Beat > e.Beats || m.Token > e.Token):
		why = "the database is older than its files"
	case m.Epoch != uuid.Nil && m.Beat < e.Confirmed:
		why = "the files are older than the database"
	}
	if why != "" {
		return danger("recovery is needed: "+why, law, do)
	}
	if system, line := e.Known(); !system || !line {
		return warning(fmt.Sprintf("epoch %d, but the server does not tell its identifier or timeline (%s)", e.Number, e.Here),
			"a restored database is recognised only by what the files remember of it, up to a minute before",
			"GRANT EXECUTE ON FUNCTION pg_control_system() TO the role, where that is possible; after every restore run `fenceline recover`")
	}
	return fine("epoch %d, since %s", e.Number, e.BeganAt.UTC().Format("2006-01-02 15:04Z"))
}
