package web

import (
	"net/http"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// maxRuns is how many clean-ups the page lists.
const maxRuns = 50

// cleanupView is the page of the clean-up.
type cleanupView struct {
	Runs []sweepRow
}

type sweepRow struct {
	storage.SweepRun
	Chip chip
}

// Took is how long a clean-up took, or has been at it.
func (r sweepRow) Took(now time.Time) string {
	if r.FinishedAt != nil {
		now = *r.FinishedAt
	}
	return showDuration(now.Sub(r.StartedAt))
}

// cleanupPage shows what the clean-up did for all tenants at once, to those who see them all.
func (s *Server) cleanupPage(w http.ResponseWriter, r *http.Request) error {
	if !of(r).principal.scope.All {
		return errMissing
	}
	runs, err := s.store.SweepRuns(r.Context(), maxRuns)
	if err != nil {
		return err
	}
	v := cleanupView{}
	for _, run := range runs {
		v.Runs = append(v.Runs, sweepRow{run, sweepChip(run)})
	}
	return s.render(w, r, http.StatusOK, "cleanup", v)
}

func sweepChip(r storage.SweepRun) chip {
	switch {
	case r.Error != nil:
		return chip{"failed", "stopped"}
	case r.FinishedAt == nil:
		return chip{"running", "running"}
	case r.Failed > 0:
		return chip{"fenced", "incomplete"}
	}
	return chip{"published", "done"}
}
