package storage_test

import (
	"testing"

	"github.com/fenceline/fenceline/storage/storagetest"
)

// Both are as they are in production: the store on PostgreSQL, files in a local folder.
func TestLaws(t *testing.T) {
	t.Parallel()
	storagetest.Laws(t, func(t *testing.T) storagetest.Deployment {
		return storagetest.Deploy(t, storagetest.Database(t, migrate))
	})
}
