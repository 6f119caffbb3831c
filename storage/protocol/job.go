package protocol

import "strconv"

// AddJob is dispatch, with a new export when its key has none. It answers 0 when the
// export was deleted. A job that is asked for later is not due.
func (w *World) AddJob(key, maxAttempts, maxCrashes int, later bool) JobID {
	e := w.ofKey(key)
	if e == 0 {
		w.exports = append(w.exports, Export{Exists: true, Key: key})
		e = w.Exports()
	}
	if w.exports[e].Deleted {
		return 0
	}
	job := Job{Export: e, State: JobQueued, Due: !later, Generation: 1, MaxAttempts: maxAttempts, MaxCrashes: maxCrashes}
	if later {
		job.Waiting = "later"
	}
	w.jobs = append(w.jobs, job)
	return w.Jobs()
}

// MakeDue lets the time pass that a queued job waits for.
func (w *World) MakeDue(j JobID) {
	if w.jobs[j].State == JobQueued {
		w.jobs[j].Due = true
	}
}

// WaitForLease puts a due job off because another attempt works on its export.
func (w *World) WaitForLease(j JobID) {
	if job := &w.jobs[j]; job.State == JobQueued && job.Due {
		job.Waiting, job.Due = "lease", false
		job.Generation++
	}
}

// WakeWaiting makes the oldest job due that waits for the lease on an export.
func (w *World) WakeWaiting(e ExportID) {
	for i := range w.jobs {
		if job := &w.jobs[i]; job.Export == e && job.State == JobQueued && job.Waiting == "lease" && !job.Due {
			job.Due = true
			return
		}
	}
}

// Cancel is cancel_job: the state of the job after it, or unknown.
func (w *World) Cancel(j JobID) Outcome {
	job := &w.jobs[j]
	switch job.State {
	case "":
		return Outcome{Is: Unknown}
	case JobQueued:
		job.State, job.Waiting = JobCancelled, ""
	case JobRunning:
		job.State = JobCancelling
	}
	return Outcome{Is: string(job.State)}
}

// Lost is a job that was handed on.
type Lost struct {
	Job     JobID
	Attempt AttemptID
	State   JobState
	Token   int64
}

// HandOnLost is hand_on_lost: the jobs whose attempt has been silent for long, or
// has lost already, go back to the queue. every takes all attempts for silent. The
// answer is overwritten by the next call.
func (w *World) HandOnLost(every bool) []Lost {
	w.lost = w.lost[:0]
	for j := JobID(1); j <= w.Jobs(); j++ {
		if l, ok := w.handOn(j, every); ok {
			w.lost = append(w.lost, l)
		}
	}
	return w.lost
}

func (w *World) handOn(j JobID, every bool) (Lost, bool) {
	job := &w.jobs[j]
	if job.State != JobRunning && job.State != JobCancelling {
		return Lost{}, false
	}
	a := job.Holder
	t := &w.attempts[a]
	if t.State.Unfinished() && !t.Silent && !every {
		return Lost{}, false
	}
	job.Crashes++
	job.Waiting = ""
	switch {
	case job.State == JobCancelling:
		job.State = JobCancelled
		job.Generation++
	case job.Crashes >= job.MaxCrashes:
		job.State, job.Error = JobFailed, silence(job.Crashes, job.Error)
		job.Generation++
		w.outbox = append(w.outbox, Notice{"job.failed", j, a})
	default:
		job.requeue(true)
	}
	job.Due = true
	return Lost{j, a, job.State, t.Token}, true
}

// silence is the error of a job that too many workers have left.
func silence(crashes int, before string) string {
	text := strconv.Itoa(crashes) + " workers in a row gave no more heartbeat while they ran this job"
	if before != "" {
		text += "; last error: " + before
	}
	return text
}
