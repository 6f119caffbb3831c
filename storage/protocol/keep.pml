/*
 * What keeps files, beside who deletes them, in every possible order: the parts of
 * migrations/00016_epoch.sql, 00017_retention.sql and 00022_keep.sql where others can
 * come between. fence.pml has the rest; model_test.go runs both.
 *
 * One export with its current publication. People put it on hold and release it, delete
 * it and bring it back; a clean-up plans, decides, removes and buries; an attempt
 * is published while a recovery may go on. A transaction is several steps here: what
 * it writes is seen by others when it commits.
 *
 * What is not modelled: pins and rules, which are asked for where holds are; what was
 * replaced, which goes the same way without coming back; batches.
 *
 * Switches, each takes one guard out (-D):
 *   NO_KEEPING_LOCK  who keeps and who decides do not wait for each other
 *   LATE_LOCK        who decides has looked before it waits
 *   NO_HOLD_CHECK    the clean-up asks for holds when it plans, not when it decides
 *   NO_RESTORE_CHECK an export comes back although its files go
 *   NO_EPOCH_CHECK   publish does not ask for the epoch
 *   NO_CONDEMN_ALL   a recovery condemns nothing
 *
 * -DONLY=n asserts law n alone.
 */

byte broken;
#ifdef ONLY
#define ASKED(n) (n == ONLY)
#else
#define ASKED(n) true
#endif

/* The numbers are those of storage/doc.go. */
inline law(n, holds) {
	if
	:: !ASKED(n) || (holds)
	:: else -> broken = n; assert(broken != n)
	fi
}

/* Committed rows, and the files. */
bool held, deleted, doomed, buried;
bool file = true;
mtype = { open, stopped, recovering };
mtype epoch = open;
mtype = { sealed, published, lost };
mtype newer = sealed;         /* an attempt that is on its way */
bool newer_file = true;       /* its file */
bool inside;                  /* its publish is in the database, which a restore ends */
bool looked;                  /* a recovery has looked at the pointers and has not opened yet */

/* lock_keeping: shared for who decides that files go, alone for who keeps them. */
byte sharing;
bool alone;
bool row;                     /* the lock on the row of the attempt that is on its way */

#ifdef NO_KEEPING_LOCK
#define DECIDES skip
#define KEEPS   skip
#define DECIDED skip
#define KEPT    skip
#else
#define DECIDES atomic { !alone -> sharing++ }
#define KEEPS   atomic { !alone && sharing == 0 -> alone = true }
#define DECIDED sharing--
#define KEPT    alone = false
#endif

#define POINTER_IS_WHOLE (deleted || newer == published || file && !doomed)

/* Hold and release, delete and restore. */
proctype People() {
	bool refused;
end_people:
	do
	:: KEEPS; atomic { held = !held; KEPT }
	:: DECIDES;                                             /* delete: guard_held asks */
	   refused = held || deleted;
	   atomic {
		if
		:: !refused -> law(7, !held); deleted = true
		:: else
		fi;
		DECIDED; refused = false
	   }
	:: KEEPS;                                               /* restore: guard_undelete asks */
#ifdef NO_RESTORE_CHECK
	   refused = !deleted;
#else
	   refused = !deleted || doomed || buried;
#endif
	   atomic {
		if
		:: !refused -> deleted = false; law(1, POINTER_IS_WHOLE)
		:: else
		fi;
		KEPT; refused = false
	   }
	od
}

/* The clean-up. Without a grace, so that what was deleted may go at once. */
proctype Sweep() {
	bool goes;
	deleted && !held && newer == sealed;                    /* the plan */
#ifdef LATE_LOCK
	goes = deleted && !held;
	DECIDES;
#else
	DECIDES;                                                /* doom_attempts */
#ifdef NO_HOLD_CHECK
	goes = deleted;
#else
	goes = deleted && !held;
#endif
#endif
	atomic {
		if
		:: goes -> law(7, !held); doomed = true; law(1, POINTER_IS_WHOLE)
		:: else
		fi;
		DECIDED
	}
	if
	:: goes -> atomic { file = false; law(1, POINTER_IS_WHOLE) }
	:: else -> goto out
	fi;
	buried = (epoch == open);                               /* bury_attempts: a recovery keeps it from that */
out:	skip
}

/* publish_attempt: it waits outside while recovery is needed. */
proctype Publish() {
end_publish:
#ifdef NO_EPOCH_CHECK
	inside = true;
#else
	atomic { epoch == open -> inside = true }               /* require_epoch */
#endif
	atomic { !row -> row = true }                           /* attempts … FOR UPDATE */
	atomic {
		if
		:: newer == sealed && !deleted -> newer = published; law(1, newer_file && !looked)
		:: else
		fi;
		row = false; inside = false
	}
}

/* The database is restored, and the file of the attempt is gone, or it only is behind its
 * files. Somebody recovers: what the recovery has seen of pointers must be so when it opens. */
proctype Recover() {
	if
	:: epoch = stopped
	:: atomic { !inside -> epoch = stopped; newer_file = false }
	fi;
	epoch = recovering;
#ifndef NO_CONDEMN_ALL
	atomic {                                                /* condemn_unfinished waits for the row */
		!row ->
		if
		:: newer == sealed -> newer = lost
		:: else
		fi
	}
#endif
	looked = true;
	atomic { looked = false; epoch = open }
}

init {
	atomic { run People(); run Sweep(); run Publish(); run Recover() }
}
