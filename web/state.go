package web

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fenceline/fenceline/storage"
)

// chip is a state as a coloured word. Class names the shape and the hue.
type chip struct {
	Class, Text string
}

func jobChip(s storage.JobState) chip {
	switch s {
	case storage.JobQueued:
		return chip{"queued", "waiting"}
	case storage.JobDone:
		return chip{"published", "published"}
	case storage.JobCancelling:
		return chip{"running", "cancelling"}
	}
	return chip{string(s), string(s)}
}

// plainChip is [jobChip] for a job that publishes nothing.
func plainChip(s storage.JobState) chip {
	if s == storage.JobDone {
		return chip{"published", "done"}
	}
	return jobChip(s)
}

// plainProgress is how far a plain job is by what it has reported.
func plainProgress(j storage.Job) progress {
	var p struct {
		Done, Total int64
		Note        string
	}
	switch {
	case j.State == storage.JobDone:
		return progress{Percent: 100, Step: "done"}
	case j.State.Ended():
		return progress{Step: string(j.State)}
	case j.State == storage.JobQueued:
		return progress{Step: "waiting"}
	case json.Unmarshal(j.Progress, &p) != nil:
		return progress{Step: "at work", Open: true}
	case p.Total <= 0:
		return progress{Step: strings.TrimSpace(showNumber(p.Done) + " done " + p.Note), Open: true}
	}
	share := min(max(float64(p.Done)/float64(p.Total), 0), 1)
	return progress{Percent: int(share * 99), Step: strings.TrimSpace(fmt.Sprintf("%s of %s %s", showNumber(p.Done), showNumber(p.Total), p.Note))}
}

// attemptChip shows how an attempt came out, also when its files are gone since.
func attemptChip(a storage.Attempt) chip {
	state := outcome(a)
	if state == storage.AttemptSealed {
		return chip{"running", "sealed"}
	}
	return chip{string(state), string(state)}
}

// outcome is the verdict of an attempt, or its state while it has none.
func outcome(a storage.Attempt) storage.AttemptState {
	if a.State == storage.AttemptDeleted && a.Verdict != nil {
		return *a.Verdict
	}
	return a.State
}

// progress is how far a job is.
type progress struct {
	// Percent is 100 only when the files are published.
	Percent int
	Step    string // in words
	// Open says that nobody knows how much the step still has to do.
	Open bool
}

// The share of the bar that is behind when a step begins.
const (
	atRead    = 5
	atWrite   = 12
	atSeal    = 88
	atPublish = 95
)

// stepProgress is how far an attempt is by what it reports.
func stepProgress(step string, rows int64, expected *int64) progress {
	written := howMany(rows, "row")
	if rows == 1 {
		written = "1 row"
	}
	switch step {
	case "count":
		return progress{Percent: atRead, Step: "counting rows", Open: true} // after it has begun to read: a bar never goes back
	case "write":
		if expected == nil || *expected <= 0 {
			return progress{Percent: atWrite, Step: "writing, " + written + " so far", Open: true}
		}
		if rows > *expected { // the estimate was too low
			return progress{Percent: atSeal - 1, Step: "writing, " + written + " so far, more than expected", Open: true}
		}
		share := float64(rows) / float64(*expected)
		return progress{Percent: atWrite + int(share*(atSeal-1-atWrite)), Step: fmt.Sprintf("writing, %s of about %s rows", showNumber(rows), showNumber(*expected))}
	case "seal":
		return progress{Percent: atSeal, Step: "sealing " + written}
	case "publish":
		return progress{Percent: atPublish, Step: "publishing " + written}
	}
	return progress{Percent: atRead, Step: "reading", Open: true}
}
