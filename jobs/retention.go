package jobs

import (
	"fmt"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// mostDays and mostKept bound the rules of retention.
const (
	mostDays = 36500
	mostKept = 1000
)

// CheckRetention refuses a rule that cannot be: also one that is shorter than
// readers, the longest time for which a link opens or a replaced publication stays
// for its readers. name is what the caller's users call the fields current_days,
// superseded_days and superseded_keep.
func CheckRetention(r storage.RetentionRule, readers time.Duration, name func(field string) string) error {
	var bad invalid.Error
	least := int((readers + 24*time.Hour - 1) / (24 * time.Hour))
	days := func(field string, n *int, least int, why string) {
		if n != nil && (*n < least || *n > mostDays) {
			bad.Add(name(field), fmt.Sprint(*n), "must be from %d to %d days%s", least, mostDays, why)
		}
	}
	days("current_days", r.CurrentDays, 1, "; leave it out to keep them for ever")
	days("superseded_days", r.SupersededDays, max(least, 1), ": not shorter than LINK_MAX and SWEEP_SUPERSEDED, or a link would open nothing; leave it out to keep them for ever")
	if r.SupersededKeep < 0 || r.SupersededKeep > mostKept {
		bad.Add(name("superseded_keep"), fmt.Sprint(r.SupersededKeep), "must be from 0 to %d publications", mostKept)
	}
	if r.SupersededDays == nil && r.SupersededKeep > 0 {
		bad.Add(name("superseded_keep"), fmt.Sprint(r.SupersededKeep), "means nothing when replaced publications stay for ever: set the days too, or leave it out")
	}
	return bad.OrNil()
}
