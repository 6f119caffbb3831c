package storage

import (
	"context"
	"errors"
	"fmt"
)

// ErrAfterRecovery means that the clean-up waits because a recovery was not long ago.
var ErrAfterRecovery = errors.New("nothing is cleaned up so soon after a recovery")

// Refused says why [Sweep.Run] would not begin now although nothing is wrong: [ErrOff] or [ErrAfterRecovery]. nil says
// that neither is so.
func (sw *Sweep) Refused(ctx context.Context) error {
	if err := sw.checkOn(ctx); err != nil {
		return err
	}
	return sw.recovered(ctx)
}

// recovered refuses to clean up what does not fit together, and what a backup that
// may still be restored could name.
func (sw *Sweep) recovered(ctx context.Context) error {
	if _, err := sw.store.compare(ctx, sw.files); err != nil {
		return err
	}
	e, err := sw.store.Epoch(ctx)
	if err != nil || e.RecoveredAt == nil {
		return err
	}
	if until := e.RecoveredAt.Add(sw.opt.AfterRecovery); e.now.Before(until) {
		return fmt.Errorf("%w: it waits until %s", ErrAfterRecovery, utc(&until))
	}
	return nil
}
