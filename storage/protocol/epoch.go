package protocol

// Epoch says whether tokens are given out, and whether anything is published or
// cleaned up: only while it is open.
type Epoch string

// The states of the epoch.
const (
	EpochOpen       Epoch = "open"
	EpochStopped    Epoch = "stopped"  // the files have heard of tokens that the database does not know
	EpochRestored   Epoch = "restored" // the database does not know itself any more
	EpochRecovering Epoch = "recovering"
)

// Epoch reads it.
func (w *World) Epoch() Epoch { return w.epoch }

// Told is the highest token that the files have heard of; -1 before they heard of any.
func (w *World) Told() int64 { return w.told }

// closed reports whether the database refuses because of its epoch.
func (w *World) closed() bool { return w.epoch != EpochOpen && w.has(EpochCheck) }

// fits compares the database with what its files have heard, as every process and
// every clean-up does before it begins, and stops it when it is behind.
func (w *World) fits() bool {
	if w.epoch == EpochOpen && w.told > w.sequence {
		w.epoch = EpochStopped
	}
	return !w.closed()
}

// tell lets the files hear how far the database is.
func (w *World) tell() { w.told = max(w.told, w.sequence) }

// Save puts a copy of the database in store, in place of an earlier one. Files are
// not copied.
func (w *World) Save() {
	w.copy.become(&w.rows)
	w.stored = true
}

// Discard takes the copy out of store: nobody restores it any more.
func (w *World) Discard() { w.stored = false }

// Restore puts the copy back, whether it is in store or was read before. The files
// and what workers know stay. The database notices, and waits for [World.Recover].
func (w *World) Restore() {
	exports, jobs, attempts := len(w.exports), len(w.jobs), len(w.attempts)
	w.become(&w.copy)
	w.exports = grown(w.exports, exports)
	w.jobs = grown(w.jobs, jobs)
	w.attempts = grown(w.attempts, attempts)
	for i := range w.attempts {
		w.attempts[i].locked = false // what was in flight was rolled back
	}
	w.stored = false
	if w.epoch == EpochOpen {
		w.epoch = EpochRestored
	}
}

func (r *rows) become(from *rows) {
	r.exports = append(r.exports[:0], from.exports...)
	r.jobs = append(r.jobs[:0], from.jobs...)
	r.attempts = append(r.attempts[:0], from.attempts...)
	r.outbox = append(r.outbox[:0], from.outbox...)
	r.sequence, r.epoch = from.sequence, from.epoch
	r.rule, r.heldAll = from.rule, from.heldAll
}

// grown pads a table with rows that do not exist, for their numbers are taken.
func grown[T any](table []T, n int) []T {
	for len(table) < n {
		var none T
		table = append(table, none)
	}
	return table
}
