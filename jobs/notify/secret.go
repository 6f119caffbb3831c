package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

// A secret is bound to the address that it signs for: moved to the row of another
// target it does not open. Without keys it is kept as it is, and whoever reads the
// database can sign.

func sealSecret(keys *secret.Keyring, url, plain string) string {
	if keys.Ready() != nil {
		return plain
	}
	return keys.Seal(secret.Context("webhook", url), plain)
}

func openSecret(keys *secret.Keyring, url, kept string) (string, error) {
	if strings.HasPrefix(kept, secretPrefix) {
		return kept, nil
	}
	plain, err := keys.Open(secret.Context("webhook", url), kept)
	return string(plain), err
}

// ResealSecrets seals the secrets of webhooks with the first key, also those that
// were kept as they are, and answers how many it changed. It goes on after one
// that no key opens, and the error names those targets.
func ResealSecrets(ctx context.Context, store *storage.Store, keys *secret.Keyring) (int64, error) {
	if err := keys.Ready(); err != nil {
		return 0, err
	}
	kept, err := store.TargetSecrets(ctx)
	if err != nil {
		return 0, err
	}
	var changed int64
	var failures []error
	for _, k := range kept {
		plain, err := openSecret(keys, k.URL, k.Kept) // also what is sealed well by its name: the key may be another
		if err != nil {
			failures = append(failures, fmt.Errorf("target %s of tenant %s: %w", k.Name, k.Tenant, err))
			continue
		}
		if name, err := secret.KeyOf(k.Kept); err == nil && name == keys.First() {
			continue
		}
		yes, err := store.ResealTarget(ctx, k, sealSecret(keys, k.URL, plain))
		if err != nil {
			return changed, err
		}
		if yes {
			changed++
		}
	}
	return changed, errors.Join(failures...)
}
