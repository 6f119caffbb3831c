/*
 * The publication protocol as migrations/00002_protocol.sql implements it: W
 * attempts at J jobs of one export, a clean-up without any grace, and whatever may
 * befall them, in every possible order. Spin looks at all of them; model_test.go
 * runs it, doc.go says how it relates to the tests in Go.
 *
 * What is modelled:
 *   A function in the database is one transaction. Those that lock every row that
 *   they decide by are one step here: until the last lock is won nothing was
 *   written, and from then on nobody can come between. publish_attempt is two
 *   steps, so that others meet its lock on the attempt's row: condemn skips that
 *   row (SKIP LOCKED), end and seal wait for it. Without a lock, what was read is a
 *   step before what is done with it.
 *   The clean-up condemns in one step, looks for what is final in another, and
 *   removes the files in a third.
 *
 * What is not, because it adds nothing to these laws:
 *   Crashes and pauses: a process that is dead or frozen is one that Spin does not
 *   let go on. A transaction that was rolled back is one that has not begun.
 *   Heartbeats and grace: any attempt may be taken for silent at any time.
 *   Leases: a job is begun by whoever comes first (law L9).
 *   Why an attempt lost: fenced, failed and cancelled are all `lost`. A tombstone is
 *   one too: it is probed, which is removing its files once more.
 *   Why a job ended without a publication: superseded, failed, cancelled are `ended`.
 *   Triggers and unique indexes: the functions must hold without them.
 *   Deleted exports: nothing publishes to one any more.
 *   More than one change of the data: freshness that goes back does so across one.
 *   Other names for the same story: attempts are numbered in the order in which they
 *   begin, and the first job to be begun is job 0.
 *
 * Switches, each takes one guard out (-D):
 *   NO_ROW_LOCK       publish reads the attempt's row without locking it
 *   NO_EXPORT_LOCK    publish reads the export's row without locking it
 *   NO_JOB_LOCK       publish reads the job's row without locking it
 *   NO_TOKEN_CHECK    publish does not compare tokens
 *   NO_JOB_FENCE      publish does not ask whose the job is
 *   NO_END_FENCE      end does not ask whose the job is
 *   EARLY_SNAPSHOT    the data are read before the token is drawn
 *   NO_SNAPSHOT_CHECK the snapshot does not ask whether the token is the newest
 *   NO_CONDEMN        the clean-up looks, then removes, and condemns nothing
 *   AGE_ONLY          the clean-up removes whatever is old and not current, at once
 *
 * and with -DRESTORE, where the database is replaced by an older copy of itself:
 *   NO_ROW_CHECK      publish goes by the token alone when there is no row
 *   NO_CONDEMN_ALL    recovery does not condemn what the copy knows as unfinished
 *   NO_KEEP           the clean-up removes what a copy in store still references
 *   NO_IDLE           the clean-up goes on during the restore
 *
 * -DONLY=n asserts law n alone: so a run answers which law a guard protects.
 */

#ifndef W
#define W 2
#endif
#ifndef J
#define J 2
#endif
#ifndef CANCEL
#define CANCEL 1              /* 0: nobody cancels, which makes a restore quick to look at */
#endif

#define NOBODY W

/* Attempts; none is a row that the database does not have. */
mtype = { none, running, sealed, published, superseded, lost };
/* Jobs; running is above. */
mtype = { queued, cancelling, done, ended };

/* The database. */
mtype state[W] = none;        /* attempts.state */
byte token[W];                /* attempts.token */
byte job_of[W];               /* attempts.job_id */
mtype job[J] = queued;        /* jobs.state */
byte holder[J] = NOBODY;      /* jobs.attempt_id */
byte issued_token;            /* exports.issued_token, and the sequence */
byte last_token;              /* exports.last_token */
byte current = NOBODY;        /* exports.attempt_id: the pointer */
bit data;                     /* what the export is made from */
bool locked[W];               /* the attempt's row, by its publish */

/* The files, and what the worker has read. */
bool file[W];
bit read_at[W];
byte begun;                   /* attempts, ever */
/* What the laws remember. */
byte highest_published;
bit freshest_published;
bool was_published[J];
byte broken;

#ifdef ONLY
#define ASKED(n) (n == ONLY)
#else
#define ASKED(n) true
#endif

/* The numbers are those of storage/doc.go. Law 10 is that an attempt is published
 * when and as long as the pointer names it: if not, its files are never collected. */
inline law(n, holds) {
	if
	:: !ASKED(n) || (holds)
	:: else -> broken = n; assert(broken != n)
	fi
}

#define POINTER_IS_WHOLE  (current == NOBODY || file[current])
#define UNFINISHED(k)     (state[k] == running || state[k] == sealed)
#define FINAL(k)          (state[k] == lost || state[k] == superseded)

/* pick leaves any of 0 … n-1 in x. */
inline pick(x, n) {
	x = 0;
	do
	:: x < n - 1 -> x++
	:: break
	od
}

/* begin_attempt: claims a queued job and draws the token. */
inline begin(i) {
	atomic {
		if
		:: begun == i && job[0] == queued -> job_of[i] = 0
#if J > 1
		:: begun == i && job[1] == queued && (i > 0 || job[0] != queued) -> job_of[i] = 1
#endif
		fi;
		begun++;
		issued_token++;
		token[i] = issued_token;
		state[i] = running;
		job[job_of[i]] = running;
		holder[job_of[i]] = i
	}
}

/* The first statement of the snapshot asks whether the token is the newest. */
inline snapshot(i) {
	atomic {
#ifndef NO_SNAPSHOT_CHECK
		if
		:: issued_token != token[i] -> goto out
		:: else
		fi;
#endif
		read_at[i] = data
	}
}

/* seal_attempt */
inline seal(i) {
	atomic {
		if
		:: state[i] == running -> state[i] = sealed
#ifdef NO_ROW_CHECK
		:: state[i] == none
#endif
		:: else -> goto out
		fi
	}
}

/* What publish decides by: the rows, or what it has read of them before. */
#ifdef NO_EXPORT_LOCK
#define LAST    seen_last
#define CURRENT seen_current
#else
#define LAST    last_token
#define CURRENT current
#endif
#ifdef NO_JOB_LOCK
#define JOB    seen_job
#define HOLDER seen_holder
#else
#define JOB    job[job_of[i]]
#define HOLDER holder[job_of[i]]
#endif

/* Its guards: nobody newer, and a job that is still this attempt's. */
#ifdef NO_TOKEN_CHECK
#define NEWER(i, t) true
#else
#define NEWER(i, t) (token[i] > t)
#endif
#ifdef NO_JOB_FENCE
#define OWNS_JOB(i) true
#else
#define OWNS_JOB(i) (HOLDER == i && JOB == running)
#endif

/* move_pointer, and see whether that is lawful. */
inline move_pointer(i) {
	law(2, token[i] > highest_published);
	law(3, read_at[i] >= freshest_published);
	highest_published = token[i];
	freshest_published = read_at[i];
	last_token = token[i];
	current = i;
	law(1, POINTER_IS_WHOLE)
}

inline decide(i) {
	if
	:: NEWER(i, LAST) && OWNS_JOB(i) ->
		law(4, !was_published[job_of[i]]);
		was_published[job_of[i]] = true;
		law(6, holder[job_of[i]] == i && job[job_of[i]] == running);
		job[job_of[i]] = done;
		if
		:: CURRENT != NOBODY -> state[CURRENT] = superseded
		:: else
		fi;
		state[i] = published;
		if
		:: NEWER(i, last_token) -> move_pointer(i)      /* UPDATE exports … WHERE last_token < a.token */
		:: else
		fi;
		law(10, current == i)
	:: else ->
		state[i] = lost;
		if
		:: HOLDER == i && (JOB == running || JOB == cancelling) ->
			law(6, holder[job_of[i]] == i);
			job[job_of[i]] = ended
		:: else
		fi
	fi
}

/* publish_attempt. Asked again, it answers what was decided and changes nothing. */
inline publish(i) {
#ifdef NO_ROW_CHECK
	atomic {
		if
		:: state[i] == none && token[i] > last_token -> move_pointer(i); goto out
		:: else
		fi
	}
#endif
	atomic {                                                /* attempts … FOR UPDATE */
		if
		:: state[i] == sealed
		:: else -> goto out
		fi;
#ifndef NO_ROW_LOCK
		locked[i] = true
#endif
	}
#ifdef NO_EXPORT_LOCK
	d_step { seen_last = last_token; seen_current = current }
#endif
#ifdef NO_JOB_LOCK
	d_step { seen_job = job[job_of[i]]; seen_holder = holder[job_of[i]] }
#endif
	d_step {                                                /* exports, jobs … FOR NO KEY UPDATE; COMMIT */
		decide(i);
		locked[i] = false
	}
}

/* A worker with one attempt. When its job has long been another's it goes on all
 * the same, as one does that was frozen. */
proctype Worker(byte i) {
#ifdef NO_EXPORT_LOCK
	byte seen_last, seen_current;
#endif
#ifdef NO_JOB_LOCK
	mtype seen_job;
	byte seen_holder;
#endif
#ifdef EARLY_SNAPSHOT
	read_at[i] = data;
#endif
end_idle:
	begin(i);
#ifndef EARLY_SNAPSHOT
	snapshot(i);
#endif
	file[i] = true;                                         /* link(2): it is there under its name */
	seal(i);
	do
	:: publish(i)                                           /* and again: the reply was lost */
	od;
out:	skip
}

/* end_attempt, by the worker that runs attempt k or by one that has given its
 * handler up while that goes on; with or without another try. */
inline end(k) {
	if
	:: UNFINISHED(k) && !locked[k] ->
		state[k] = lost;
		if
#ifdef NO_END_FENCE
		:: job[job_of[k]] == running ->
#else
		:: holder[job_of[k]] == k && job[job_of[k]] == running ->
#endif
			law(6, holder[job_of[k]] == k);
			if
			:: job[job_of[k]] = queued; holder[job_of[k]] = NOBODY
			:: job[job_of[k]] = ended
			fi
		:: holder[job_of[k]] == k && job[job_of[k]] == cancelling -> job[job_of[k]] = ended
		:: else
		fi
	:: else
	fi
}

/* hand_on_lost: the job of an attempt that is taken for silent goes back to the
 * queue, or fails because that has happened too often. */
inline hand_on(j) {
	if
	:: job[j] == running -> job[j] = queued; holder[j] = NOBODY
	:: job[j] == running -> job[j] = ended
	:: job[j] == cancelling -> job[j] = ended
	:: else
	fi
}

/* cancel_job */
inline cancel(j) {
	if
	:: job[j] == queued -> job[j] = ended
	:: job[j] == running -> job[j] = cancelling
	:: else
	fi
}

/* Whatever else happens to the database. */
proctype Others() {
	byte k;
end_others:
	do
	:: data == 0 -> data = 1
	:: atomic { pick(k, W); end(k); k = 0 }
	:: atomic { pick(k, J); hand_on(k); k = 0 }
#if CANCEL
	:: atomic { pick(k, J); cancel(k); k = 0 }
#endif
	od
}

/* A restore: at some time a copy of the database is made, at a later time it is put
 * back. The data and the tokens go back with it; files and workers do not. What then
 * keeps the laws are four parts: publish knows only attempts that have a row;
 * recovery condemns what the copy takes for unfinished; what a copy in store
 * references is kept; the clean-up is idle from the start of the restore until
 * recovery is done. */
#ifdef RESTORE
bool in_store, restoring, sweeping;
mtype copy_state[W] = none, copy_job[J] = queued;
byte copy_holder[J] = NOBODY, copy_issued, copy_last, copy_current = NOBODY;
bit copy_data;

#define SWEEPING(yes) sweeping = yes
#ifdef NO_IDLE
#define PAUSED false
#define IDLE   true
#else
#define PAUSED restoring
#define IDLE   (!sweeping)
#endif
#ifdef NO_KEEP
#define KEPT(k) false
#else
#define KEPT(k) (in_store && copy_current == k)
#endif
inline copy_out() {
	k = 0;
	do
	:: k < W -> copy_state[k] = state[k]; k++
	:: else -> break
	od;
	k = 0;
	do
	:: k < J -> copy_job[k] = job[k]; copy_holder[k] = holder[k]; k++
	:: else -> break
	od;
	copy_issued = issued_token; copy_last = last_token; copy_current = current; copy_data = data
}

inline copy_back() {
	k = 0;
	do
	:: k < W ->
		state[k] = copy_state[k]; copy_state[k] = none;
#ifndef NO_CONDEMN_ALL
		if
		:: UNFINISHED(k) -> state[k] = lost             /* recovery */
		:: else
		fi;
#endif
		k++
	:: else -> break
	od;
	k = 0;
	do
	:: k < J ->
		job[k] = copy_job[k]; copy_job[k] = queued;
		holder[k] = copy_holder[k]; copy_holder[k] = NOBODY;
		was_published[k] = (job[k] == done);
		k++
	:: else -> break
	od;
	issued_token = copy_issued; last_token = copy_last; current = copy_current; data = copy_data;
	copy_issued = 0; copy_last = 0; copy_current = NOBODY; copy_data = 0;       /* nobody asks again: fewer states */
	highest_published = last_token;
	if
	:: current == NOBODY -> freshest_published = 0
	:: else -> freshest_published = read_at[current]
	fi
}

proctype Restore() {
	byte k;
	d_step { copy_out(); in_store = true; k = 0 }
	atomic { IDLE -> restoring = true }
	in_store = false;                                       /* it was read; nobody keeps it any longer */
	d_step {
		!locked[0] && !locked[W / 2] && !locked[W - 1] ->   /* publishes in flight were rolled back */
		copy_back();
		restoring = false;
		k = 0;
		law(1, POINTER_IS_WHOLE)
	}
}
#else
#define SWEEPING(yes) skip
#define PAUSED  false
#define KEPT(k) false
#endif

inline remove(k) {
	file[k] = false;
	law(7, FINAL(k));
	law(1, POINTER_IS_WHOLE)
}

/* What the clean-up may remove, by what it sees when it looks. */
#ifdef NO_CONDEMN
#define GARBAGE(k) (FINAL(k) || UNFINISHED(k))
#else
#define GARBAGE(k) FINAL(k)
#endif

/* The clean-up (storage/sweep.go), never pausing, with a grace, a quarantine and a
 * retention of zero. */
proctype Sweep() {
	byte k;
end_sweep:
	do
#ifdef AGE_ONLY
	:: atomic {
		!PAUSED -> pick(k, W);
		if
		:: state[k] != none && k != current -> remove(k)
		:: else
		fi;
		k = 0
	   }
#else
#ifndef NO_CONDEMN
	:: atomic {                                             /* condemn_attempts, SKIP LOCKED */
		!PAUSED -> pick(k, W);
		if
		:: UNFINISHED(k) && !locked[k] -> state[k] = lost
		:: else
		fi;
		k = 0
	   }
#endif
	:: atomic {
		!PAUSED -> pick(k, W);
		if
		:: GARBAGE(k) && !KEPT(k) -> SWEEPING(true)
		:: else -> k = 0; goto end_sweep
		fi
	   }
	   d_step { remove(k); SWEEPING(false); k = 0 }
#endif
	od
}

init {
	atomic {
		byte i = 0;
		do
		:: i < W -> run Worker(i); i++
		:: else -> break
		od;
		i = 0;
		run Others();
		run Sweep();
#ifdef RESTORE
		run Restore()
#endif
	}
}
