// Package jobs decides who should be working. What counts is decided elsewhere:
// package storage refuses the stale, whatever this package believed.
//
// # From dispatch to publish
//
//	① dispatch   [Dispatcher.Dispatch] checks a request and inserts its job, in the caller's transaction if it has one
//	   ring      PostgreSQL tells every [Relay] at commit; one of them puts a bell into Redis (an asynq task)
//	   answer    asynq wakes a [Worker], PostgreSQL lets it claim the job or not
//	② lease      the worker takes the lease on the export; busy means the job waits, which is no attempt
//	③ token      the database gives the attempt its token
//	④ write      the kind's code reads a snapshot and writes files under names of their own
//	⑤ publish    the database moves the pointer, or refuses
//	⑥ sweep      the [Scheduler] removes what lost
//
// Redis holds bells and leases and nothing else. It may be emptied, restarted or
// replaced at any moment: the relay rings again for whatever is due and has no
// attempt that beats, and a lease that is lost costs work, never a file.
//
// # What a lease does not promise
//
// That its holder is the only one. A process can be frozen between any two
// instructions for longer than any lease, by its garbage collector, its
// hypervisor or a slow disk, and go on as if nothing had happened. Whoever
// relies on a lock alone for what must not be overwritten will be overwritten.
// Here the lease keeps two workers from doing the same work; [AlwaysLeaser],
// which lets everybody work, is slower and just as right.
//
// # Waiting, failing, crashing
//
// A job's failures are the errors of its own work: they use up its attempts. A
// worker that falls silent is a crash, counted apart; a worker that is stopped
// and a lease that is lost count as nothing, and neither does waiting.
//
// # Plain jobs
//
// A kind that [Handle] makes does work and publishes nothing. Its jobs need no
// token and no attempt row: a bell names their queue, and a slot of the worker that
// hears it claims one job after the other until there are none. What the slots of a
// worker claim and end within the same few milliseconds goes to PostgreSQL in one
// statement and one commit, and so do the dispatches of a [Dispatcher]. Each run has
// a random name; only who carries the newest one ends the job (L6). A worker beats once
// for all of them. What must not be overtaken is written behind [Work.Fence].
//
// Chains and batches are rows like all others: the end of a job makes the next one of
// its chain ready in the same transaction, and what has become of a batch is looked
// up by the relays, never counted along, so nobody who dies can leave it hanging.
//
// # By the clock
//
// [Schedules] keeps and fires schedules; the database locks each for whoever looks
// first, and a row for each fire time decides. Package calendar says when a cron
// expression comes, also when clocks change. A [Scheduler] does so for ever.
//
// # Limits
//
// A kind may be inside [Middleware], the first outermost: [RateLimit],
// [WithoutOverlapping], [ThrottleExceptions], [WithTimeout], [SkipWhen],
// [SkipCancelled], and whatever a program writes itself. One that answers
// [Release] lets the job wait, which is no attempt. The order matters: skip what
// need not run, then the circuit, then the hold, then the rate, where the job
// really starts, then the timeout, around the work alone. A panic anywhere is an
// error, with its stack, for all that is outside of it.
//
// All of it is counted in PostgreSQL, by its clock, in one round trip each. A hold
// or a probe belongs to a run and is valid while that run lives in the jobs'
// table, so none can be left behind. Like a lease they keep work from being done
// twice and guard nothing (law L9).
//
// # Kinds
//
// A [Kind] turns a payload into files, or is plain. [Reports] reads a source once and writes
// every format that was asked for; package report knows definitions and formats,
// and programs add sources and formats of their own. [InvoiceKind] renders one
// document as PDF and e-invoice. [InvoiceRuns] issues the invoices of a source,
// each with a number that its transaction takes, and asks for their files in one
// batch; what the run itself publishes is its manifest. [BatchZIPKind] packs what
// a batch has published.
package jobs
