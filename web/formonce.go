package web

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/fenceline/fenceline/storage"
)

// formOnce does what a form asks for that makes something anew each time, above all a
// secret that is shown once: the same form sent twice, as by who clicks twice and sees
// the second answer only, does it once and is answered alike. The form has been read
// ([parseForm]), and has a nonce of its page; without one it is sent by no page of ours,
// and does it each time.
//
// What it answers lies sealed in the database, by the nonce, which only the form has.
// do gets the transaction of the answer, and may do more besides: then a crash
// between the two lets the form do it again.
func formOnce[T any](s *Server, r *http.Request, do func(tx storage.Tx) (T, error)) (made T, again bool, err error) {
	nonce := r.PostForm.Get("nonce")
	if nonce == "" {
		err = s.store.Transaction(r.Context(), func(tx storage.Tx) error {
			made, err = do(tx)
			return err
		})
		return made, false, err
	}
	who := of(r).principal
	what := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", who.user, r.URL.Path, r.PostForm.Encode()))
	box, err := formBox(nonce)
	if err != nil {
		return made, false, err
	}
	request := storage.KeyedRequest{Tenant: who.scope.Tenant, Key: "form-" + hex.EncodeToString(what[:]), What: what[:], Wait: true}
	a, again, err := s.store.Once(r.Context(), request, func(tx storage.Tx) (a storage.Answer, err error) {
		if made, err = do(tx); err != nil {
			return a, err
		}
		raw, err := json.Marshal(made)
		if err != nil {
			return a, fmt.Errorf("encode the answer of a form: %w", err)
		}
		return storage.Answer{Status: http.StatusOK, Body: box.Seal(nil, nil, raw, what[:])}, nil
	})
	if err != nil || !again {
		return made, false, err
	}
	raw, err := box.Open(nil, nil, a.Body, what[:])
	if err == nil {
		err = json.Unmarshal(raw, &made)
	}
	if err != nil {
		return made, false, fmt.Errorf("read the answer of a form: %w", err)
	}
	s.log.Info("form answered again", "request_id", of(r).id, "path", r.URL.Path, "who", who.name)
	return made, true, nil
}

// formBox seals with the nonce of a form.
func formBox(nonce string) (cipher.AEAD, error) {
	key := sha256.Sum256([]byte("answer of a form\n" + nonce))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("seal the answer of a form: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// auditIn writes down what a request does in the transaction that does it.
func (s *Server) auditIn(r *http.Request, tx storage.Tx, action string, on object, details map[string]any) error {
	e, err := auditEntry(r, action, on, details)
	if err != nil {
		return err
	}
	return s.store.AuditIn(r.Context(), tx, e)
}

// secretMade is something new with the secret that belongs to it, which is shown once.
type secretMade[T any] struct {
	What   T
	Secret string
}
