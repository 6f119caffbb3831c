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
// # What to ask of a lock, and the answers
//
//   - What is protected? One row: which attempt's files an export has. The lease protects nothing; it saves work.
//   - What if the holder crashes? Nobody renews the lease, so it ends by itself within its time
//     ([LeaseOptions]), or with the holder's connection. The job goes on by its own heartbeat in
//     PostgreSQL, not by the lease: the relay hands it to another worker.
//   - What if the lease ends while the holder works? Its context ends, with [ErrLeaseLost] as the cause.
//     A renewal never takes the lease anew. A holder that does not notice goes on, and is refused.
//   - What of a stale writer? It finishes its files, under names that nobody else has, and publish_attempt
//     refuses it: the token of the pointer is higher. Nothing of it was ever visible.
//   - Who makes the token, and who checks it? PostgreSQL does both, under one row lock: begin_attempt draws it from a sequence,
//     publish_attempt compares it where the pointer moves, and the trigger guard_export refuses whoever
//     goes around that. An order of the lock service's own ([LeaseOrder]) is shown and never checked: the
//     row is not there.
//   - What of a partition? Cut off from the lock service, a worker loses its lease and stops; cut off from PostgreSQL, it can
//     publish nothing. Somebody else may hold the lease meanwhile. That is two who work, and one who counts.
//   - What of a failover of the lock service? A replica that never saw the lock gives it to a second holder: as above.
//     A failover of PostgreSQL to a standby that lacks commits is another matter, and the one that matters:
//     an epoch and the marks beside the files notice it, and nothing is published before fenceline recover.
//   - What of a pause? Between any check and the write after it a process can stand still for minutes. So
//     the check is in the transaction of the write.
//   - What of a retry? Each attempt has a token of its own, and a higher one. A publish whose answer was lost is
//     sent again and answered as it was decided.
//   - Is it idempotent? A job is published at most once however often it is delivered (L4): an index says so.
//     A request that is sent twice makes one job, by its idempotency key. What a plain job does is
//     its own affair: [Work.Fence], [storage.Fence.Once].
//   - Could the database alone do it? Yes: LEASE_URL=none is that, and LEASE_URL=postgres is a lease from the same
//     database. All laws hold with either. A lease from elsewhere is for those who run that service anyway.
//
// # Where a lock is not the tool
//
// Most of what locks are asked to do is done by the database in the transaction
// that writes, with nothing that could expire. This is what Fenceline uses:
//
//   - A unique constraint, where there may be only one: the current publication of an
//     export (attempts_one_published) and of a job (attempts_one_publication_per_job), a request with an
//     idempotency key (jobs_idempotency), one run of a schedule for each fire time (schedule_runs_pkey,
//     in [storage.Store.RecordRun]): schedulers need no leader.
//   - FOR UPDATE, where a decision must not overlap another one about the same row: publish_attempt and condemn_attempts
//     lock the attempt, so that it is either published or cleaned up. With SKIP LOCKED it shares work
//     out: claim_runs, hand_on_lost.
//   - An advisory lock, where there is no row to lock yet: [storage.Migrate] and [storage.Sweep.Run] run
//     once at a time; lock_caps lets one transaction count what is under a cap, and claim. It ends with its transaction or
//     session, so nobody has to guess whether its holder lives.
//   - Optimistic concurrency, where a conflict is rare or the loser should know: publish_attempt moves the pointer
//     only WHERE last_token is lower, fence_write compares tokens in the transaction of an application's own
//     write ([storage.Fence.Write]), and [storage.Store.NewGeneration] renames a bell only if nobody
//     else has.
//
// A lease is for what is left: work that takes long, whose doubling is a waste and no fault.
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
