package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
)

const (
	// pairEvery is how long the answer of a comparison holds.
	pairEvery = 5 * time.Second
	// beatAfter is after how long tokens that were given out are told to the files.
	// A database that was restored to a state of so long before the loss is recognised.
	beatAfter = time.Minute
)

// pairing is a database and the file store that belongs to it.
type pairing struct {
	files files.Store
	turn  chan struct{} // holds one; who compares
	at    time.Time     // of the last comparison; zero asks for one
	epoch uuid.UUID     // in which both were found to be
	err   error         // what was found, a [*RecoveryError] or nil
}

// Pair compares what the database and its file store remember of each other, and
// from now on [Store.Publish] publishes in the epoch that both are in and
// [Store.Paired] compares again. A store that is new, or that an older version
// marked, is told. The error is a [*RecoveryError] when they do not fit; the
// store remembers the pairing all the same. It is called once, before the store
// is used.
func (s *Store) Pair(ctx context.Context, f files.Store) error {
	s.pair.Store(&pairing{files: f, turn: make(chan struct{}, 1)})
	return s.Paired(ctx)
}

// Paired answers nil while the database and its file store fit together, and a
// [*RecoveryError] otherwise. The answer may be some seconds old. A file store or
// a database that does not answer is no contradiction: nil. Without [Store.Pair]
// it is nil.
func (s *Store) Paired(ctx context.Context) error {
	p := s.pair.Load()
	if p == nil {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-p.turn }()
	if !p.at.IsZero() && time.Since(p.at) < pairEvery {
		return p.err
	}
	epoch, err := s.compare(ctx, p.files)
	if err != nil && !errors.Is(err, ErrRecoveryNeeded) {
		return p.err
	}
	p.at, p.err = time.Now(), err
	if err == nil {
		p.epoch = epoch
	}
	return p.err
}

// believed is the epoch that this process is in; nil when it does not know.
func (s *Store) believed(ctx context.Context) *string {
	p := s.pair.Load()
	if p == nil {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-p.turn }()
	if p.epoch == uuid.Nil {
		return nil
	}
	return new(p.epoch.String())
}

// forget makes the next [Store.Paired] compare.
func (s *Store) forget(ctx context.Context) {
	if p := s.pair.Load(); p != nil {
		select {
		case p.turn <- struct{}{}:
			p.at = time.Time{}
			<-p.turn
		case <-ctx.Done():
		}
	}
}

// compare reads both sides and answers the epoch that both are in.
func (s *Store) compare(ctx context.Context, f files.Store) (uuid.UUID, error) {
	mark, err := f.ReadMark(ctx)
	if errors.Is(err, files.ErrNotFound) {
		return uuid.Nil, &RecoveryError{Why: "the files carry no mark any more: another folder or bucket is in their place"}
	}
	if err != nil {
		return uuid.Nil, err
	}
	e, err := s.Epoch(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	if mark.Beat < e.Confirmed { // or another process wrote between our two looks
		if mark, err = f.ReadMark(ctx); err != nil {
			return uuid.Nil, err
		}
	}
	if err := s.fits(ctx, mark, e); err != nil {
		return uuid.Nil, err
	}
	if e.Fingerprint == "" || mark.Epoch == uuid.Nil || e.Token > mark.Token && e.now.Sub(mark.At) >= beatAfter {
		return e.ID, s.beat(ctx, f, mark.Installation)
	}
	return e.ID, nil
}

// fits says what of a mark contradicts the database.
func (s *Store) fits(ctx context.Context, mark files.Mark, e Epoch) error {
	switch {
	case e.Trouble != "":
		return &RecoveryError{Why: e.Trouble}
	case mark.Epoch == uuid.Nil && e.Confirmed == 0: // new, or of an older version
		return nil
	case mark.Epoch == uuid.Nil:
		return &RecoveryError{Why: "the files do not know this database: their folder or bucket is new, or was restored from before"}
	case mark.Epoch != e.ID:
		return &RecoveryError{Why: fmt.Sprintf("the files are of epoch %s (number %d, database %s), the database is of epoch %s (number %d)",
			mark.Epoch, mark.Number, mark.Database, e.ID, e.Number)}
	case mark.Beat > e.Beats || mark.Token > e.Token:
		why := fmt.Sprintf("the database is older than its files: it has given out token %d (beat %d), the files have heard of token %d (beat %d)",
			e.Token, e.Beats, mark.Token, mark.Beat)
		return errors.Join(&RecoveryError{Why: why}, s.stop(ctx, e, mark, why))
	case mark.Beat < e.Confirmed:
		return &RecoveryError{Why: fmt.Sprintf("the files are older than the database: their mark is at beat %d, and was at %d before", mark.Beat, e.Confirmed)}
	}
	var other *string
	if err := s.pool.QueryRow(ctx, "SELECT fenceline.other_database($1, $2)", mark.Fingerprint, e.Here).Scan(&other); err != nil {
		return fmt.Errorf("compare fingerprints: %w", err)
	}
	if other != nil {
		return &RecoveryError{Why: *other}
	}
	return nil
}

// stop lets the database itself refuse, whoever asks it: that it is older than
// its files it cannot see.
func (s *Store) stop(ctx context.Context, e Epoch, mark files.Mark, why string) error {
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.epoch SET state = 'stopped', reason = $2 WHERE state = 'open' AND id = $1
		AND (beats < $3 OR (SELECT last_value FROM fenceline.fence_tokens) < $4)`, e.ID, why, mark.Beat, mark.Token)
	if err != nil {
		return fmt.Errorf("stop publishing: %w", err)
	}
	return nil
}

// beat tells the files how far the database is. First the database counts, for
// good, then the mark is written, then the database remembers that it was: so a
// database that has counted less, or a mark that stands lower, was set back.
func (s *Store) beat(ctx context.Context, f files.Store, installation uuid.UUID) error {
	unlock, err := s.tryLock(ctx, beatLock)
	if errors.Is(err, ErrBusy) { // somebody else is at it
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	m := files.Mark{Installation: installation}
	err = s.pool.QueryRow(ctx, `UPDATE fenceline.epoch SET beats = beats + 1, fingerprint = coalesce(fingerprint, fenceline.database_here()),
			database = coalesce(database, current_database()) WHERE state = 'open'
		RETURNING id::text, number, fingerprint, database, beats, clock_timestamp(), (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM fenceline.fence_tokens)`).
		Scan(&m.Epoch, &m.Number, &m.Fingerprint, &m.Database, &m.Beat, &m.At, &m.Token)
	if err != nil {
		return fmt.Errorf("count a beat of the epoch: %w", err)
	}
	return s.tell(ctx, f, m)
}

// tell writes a mark and remembers that it stands.
func (s *Store) tell(ctx context.Context, f files.Store, m files.Mark) error {
	if err := f.WriteMark(ctx, m); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "UPDATE fenceline.epoch SET confirmed = greatest(confirmed, $1) WHERE beats >= $1", m.Beat); err != nil {
		return fmt.Errorf("remember what the files were told: %w", err)
	}
	return nil
}
