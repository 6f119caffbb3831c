package protocol_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/protocol"
)

// wants is what an outcome is in the words of told.
func wants(out protocol.Outcome) string {
	switch out.Is {
	case "published", "superseded", "created", "granted", "done":
		return "ok"
	case "fenced":
		return fmt.Sprintf("fenced %s by %d", out.Reason, out.By)
	case "unknown":
		return "not found"
	case "not_due", "held", "gone", "condemned", "cancelled", "exists", "sequence_behind", "recovery_needed",
		"pinned", "on_hold", "held_already", "cannot_restore":
		return strings.ReplaceAll(out.Is, "_", " ")
	}
	return "is " + out.Is
}

// wantsFound is what a step answers that found its attempt decided, and does not know more.
func wantsFound(state string) string {
	switch state {
	case "sealed":
		return "ok"
	case "published", "superseded":
		return "is " + state
	case "fenced":
		return "fenced handed_on by 0"
	case "deleted":
		return "condemned"
	}
	return wants(protocol.Outcome{Is: state})
}

var foundAs = regexp.MustCompile(`attempt [0-9a-f-]{36} (is \w+)$`)

// told is an error of the product in a few words.
func told(err error) string {
	var fenced *storage.FencedError
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &fenced):
		return fmt.Sprintf("fenced %s by %d", fenced.Reason, fenced.By)
	case errors.As(err, &pg) && pg.Code == "FL004":
		return "recovery needed"
	}
	for word, known := range map[string]error{
		"not found": storage.ErrNotFound, "not there": pgx.ErrNoRows, "not due": storage.ErrNotDue, "held": storage.ErrHeld, "recovery needed": storage.ErrRecoveryNeeded, "gone": storage.ErrGone, "condemned": storage.ErrCondemned,
		"cancelled": storage.ErrCancelled, "sequence behind": storage.ErrSequenceBehind, "unsafe": storage.ErrUnsafe, "exists": files.ErrExists,
		"pinned": storage.ErrPinned, "on hold": storage.ErrOnHold, "held already": storage.ErrHeldAlready, "cannot restore": storage.ErrCannotRestore,
	} {
		if errors.Is(err, known) {
			return word
		}
	}
	if m := foundAs.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return err.Error()
}
