package notify

// sealSecret and openSecret are where secrets go into the database and come out
// of it, and the only such places. Kept as they are for now: whoever reads the
// database can sign.

func sealSecret(secret string) (string, error) { return secret, nil }

func openSecret(kept string) (string, error) { return kept, nil }
