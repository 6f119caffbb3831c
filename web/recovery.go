package web

import (
	"context"
	"errors"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// recoveryNeeded says to a viewer why nothing is published; empty when all is
// well. The cause is about the servers, and only for those who see every tenant.
func (s *Server) recoveryNeeded(ctx context.Context, scope storage.Scope) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var why *storage.RecoveryError
	switch err := s.store.Paired(ctx); {
	case !errors.As(err, &why):
		return ""
	case !scope.All:
		return "Jobs are accepted and wait; what was published stays. The operators have to see to it."
	}
	return "Jobs are accepted and wait. Found: " + why.Why + ". See “fenceline recover --help”."
}
