package storage

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// AnswersKept is for how long an answer stands for its idempotency key.
const AnswersKept = 7 * 24 * time.Hour

// KeyedRequest is a request that came with an idempotency key.
type KeyedRequest struct {
	Tenant string // of the caller; empty sees all
	Key    string
	// What is all that the request asks for: another one with the same key is refused.
	What []byte
	// Wait for a request with the key that is at work, instead of failing with [ErrKeyInUse].
	Wait bool
}

// Answer is what was answered to a request.
type Answer struct {
	Status   int    // of HTTP, 2xx
	Location string // empty for none
	Body     []byte
}

// Once does what a request asks for and keeps the answer, both in the
// transaction that do gets, or answers again (true) what was answered to the same
// request before, for at least [AnswersKept]. While another request with the key
// is at work, in whichever process, the error is [ErrKeyInUse]; after another
// request with the key it is [ErrKeyReused]. After an error of do the key is free.
func (s *Store) Once(ctx context.Context, r KeyedRequest, do func(Tx) (Answer, error)) (a Answer, again bool, err error) {
	key := sha256.Sum256([]byte(r.Key))
	mac := hmac.New(sha256.New, []byte(r.Key))
	mac.Write(r.What)
	what := mac.Sum(nil)
	err = s.Transaction(ctx, func(tx Tx) error {
		if err := r.hold(tx, key[:]); err != nil {
			return err
		}
		if a, again, err = answered(tx, r.Tenant, key[:], what); err != nil || again {
			return err
		}
		if a, err = do(tx); err != nil {
			return err
		}
		err = tx.Exec("INSERT INTO fenceline.requests (tenant, key_hash, request_hash, status, location, answer) VALUES (?, ?, ?, ?, ?, ?)",
			r.Tenant, key[:], what, a.Status, a.Location, a.Body).Error
		if err != nil {
			return fmt.Errorf("keep an answer: %w", err)
		}
		return nil
	})
	return a, again && err == nil, err
}

// hold keeps others with the key out until the transaction ends.
func (r KeyedRequest) hold(tx Tx, key []byte) error {
	const lock = "advisory_xact_lock(hashtextextended(?::text, 20261201))"
	name := r.Tenant + "\x01" + hex.EncodeToString(key)
	free := true
	var err error
	if r.Wait {
		err = tx.Exec("SELECT pg_"+lock, name).Error
	} else {
		err = tx.Raw("SELECT pg_try_"+lock, name).Row().Scan(&free)
	}
	if err != nil {
		return fmt.Errorf("hold an idempotency key: %w", err)
	}
	if !free {
		return ErrKeyInUse
	}
	return nil
}

// answered reads what was answered to the key before, when it was the same request.
func answered(tx Tx, tenant string, key, what []byte) (a Answer, there bool, err error) {
	var rows []struct {
		RequestHash []byte
		Status      int
		Location    string
		Answer      []byte
	}
	err = tx.Raw("SELECT request_hash, status, location, answer FROM fenceline.requests WHERE tenant = ? AND key_hash = ?", tenant, key).Scan(&rows).Error
	if err != nil {
		return a, false, fmt.Errorf("look up an idempotency key: %w", err)
	}
	if len(rows) == 0 {
		return a, false, nil
	}
	if !bytes.Equal(rows[0].RequestHash, what) {
		return a, false, ErrKeyReused
	}
	return Answer{rows[0].Status, rows[0].Location, rows[0].Answer}, true, nil
}

// PruneRequests forgets answers that are older than [AnswersKept].
func (s *Store) PruneRequests(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM fenceline.requests WHERE made_at < clock_timestamp() - make_interval(secs => $1)", AnswersKept.Seconds())
	if err != nil {
		return fmt.Errorf("prune answers: %w", err)
	}
	return nil
}
