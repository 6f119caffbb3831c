// Package storage is what is real: the exports, their jobs and attempts in
// PostgreSQL, and which files count. Package jobs decides who should be working;
// this package decides what counts.
//
// # The laws
//
//	L1  The pointer names an attempt whose files all exist, with the recorded size and SHA-256.
//	L2  The tokens an export has published only rise; the database itself refuses a lower one.
//	L3  Freshness never goes back: later publications do not hold older data.
//	L4  A job has at most one published attempt, however often it is delivered.
//	L5  A job that was accepted is never lost: it ends published, superseded, failed or cancelled.
//	L6  A stale attempt changes no state of its job.
//	L7  Clean-up deletes only files whose attempt was condemned first, or that retention has expired.
//	L8  Side effects leave only through an outbox row written by the publish transaction.
//	L9  No law depends on Redis, a lease, a TTL, or any clock but that of the PostgreSQL primary.
//
// # Who may write what
//
// Each step of the protocol is one function in the database (see the migrations)
// and one method here. Nothing else writes the tables they decide over.
//
//	step      method                 writes
//	dispatch  Store.InsertJob        exports (new), jobs
//	token     Store.BeginAttempt     exports.issued_token, attempts (new), jobs
//	read      Store.Snapshot         nothing
//	write     files.Store.Create     files on disk, under names used once
//	seal      Store.Seal             files, attempts
//	publish   Store.Publish          exports.last_token and pointer, attempts, jobs, outbox
//	give up   Store.EndAttempt       attempts, jobs, outbox
//	hand on   Store.HandOnLost       jobs
//	fence     Store.Fence, its Write fences, and what the application writes
//	sweep     Sweep.Run              attempts, files on disk
//	recover   Recover                epoch, attempts, jobs, exports, the mark of the files; deletes nothing
//	tell      Store.FanOut           outbox (pending), deliveries (new)
//	          Store.RecordDelivery   deliveries, notify_targets
//
// Row locks are taken in the order attempt, export, job. Everything runs in READ
// COMMITTED; the functions refuse any other level.
//
// # Fences
//
// A [Fence] is the same idea for rows of the application: a token that only rises,
// drawn in a transaction of its own, and compared in the transaction that writes, on
// a row that is locked from the comparison to the commit. Tokens and writes are
// numbered by one sequence, so the row says of any token whether somebody has
// written since it was drawn. The functions fenceline.fence_token and
// fenceline.fence_write are all of it; a program in another language calls them itself.
// A fence's row is locked before any other, and by nothing else in this package.
//
// # When something dies
//
//	before token       the job is still queued; the relay rings again
//	before seal        the attempt falls silent, its job is handed on; its files are swept after condemnation
//	before publish     the same: a sealed attempt is complete but counts for nothing
//	during publish     PostgreSQL has committed or it has not; asking again answers which
//	after publish      nothing is left to do
//	a frozen worker    wakes up to be refused: its job has another attempt, or its export a newer publication
//	the sweep          deleting is repeated until the tombstone is written
//	the database       restored, promoted or copied: nothing is published or deleted until [Recover] has run
//	a recovery         the database stays closed; it is run again and begins the same epoch
//
// # What is assumed
//
// The laws hold as far as this does; `fenceline doctor` checks what can be checked.
//
//   - PostgreSQL is one primary that takes writes, with fsync and full_page_writes on, and
//     synchronous_commit on for our sessions: what it has answered survives a crash of the machine.
//     A standby that is promoted without having received everything has lost what it did not
//     receive; attempts of the lost timeline cannot publish there, but publications may be missing.
//   - Its triggers, indexes and functions are those of the migrations, and nobody with superuser
//     rights or write access to our tables works against them.
//   - The disk keeps what fsync has promised, for files and for folders.
//   - The file system has hard links, and link(2) refuses to replace (or an object store has an
//     equal condition); a worker that was told so cannot write under that name later.
//   - Readers take the pointer from the primary and finish a download within the time that replaced
//     publications are kept.
//   - A source outside this database gives data that is not older than the moment it was asked.
//   - A restore of the database is recognised by its timeline, identifier or oid, or, where it keeps them,
//     by what the mark of the files has heard of it: at most a minute before. Then [Recover] is demanded.
//     A replaced publication is kept for longer than the oldest backup that may be restored.
package storage
