package web

import (
	"fmt"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// pace says how fast an attempt writes, and when it may be done.
type pace struct {
	PerSecond int64         // rows; 0 when nobody can say yet
	Left      time.Duration // 0 when nobody can say
}

// leastPaced is how long an attempt must have been at it before its pace means something.
const leastPaced = 2 * time.Second

// paceOf measures from the start of the attempt to its last heartbeat, which
// brought the number of rows; of one that has ended, to its end.
func paceOf(a storage.Attempt) pace {
	until := a.HeartbeatAt
	if a.SealedAt != nil {
		until = *a.SealedAt
	}
	took := until.Sub(a.StartedAt)
	if a.Rows <= 0 || took <= 0 || a.FinishedAt == nil && took < leastPaced {
		return pace{}
	}
	perSecond := float64(a.Rows) / took.Seconds()
	p := pace{PerSecond: int64(perSecond)}
	if a.FinishedAt == nil && a.SealedAt == nil && a.RowsExpected != nil && *a.RowsExpected > a.Rows {
		p.Left = time.Duration(float64(*a.RowsExpected-a.Rows) / perSecond * float64(time.Second))
	}
	return p
}

// String is the pace in words; empty when there is none.
func (p pace) String() string {
	if p.PerSecond <= 0 {
		return ""
	}
	text := showNumber(p.PerSecond) + " rows/s"
	if p.Left > 0 {
		text += fmt.Sprintf(", about %s left at this pace", roughly(max(p.Left, time.Second)))
	}
	return text
}
