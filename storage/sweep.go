package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
)

// SweepOptions say what the clean-up may take and when.
type SweepOptions struct {
	// Grace is how long an attempt must have been silent before it is condemned.
	Grace time.Duration
	// Quarantine is how long the files of an attempt with a verdict stay.
	Quarantine time.Duration
	// Superseded is how long replaced publications stay, at least as long as the longest download takes.
	Superseded time.Duration
	// Limit bounds the attempts that one run touches; 0 is 10,000. The next run goes on.
	Limit int
	// Tenant limits the run to the exports of one tenant; empty is all.
	Tenant string
	// AfterRecovery is how long nothing is cleaned up after a recovery: whoever restored a backup may
	// have to restore another one, whose rows name files that the first one does not need.
	AfterRecovery time.Duration
	// Worker names who sweeps, for the record.
	Worker string
}

// Sweep is the clean-up (step 7): it removes the files of attempts that lost,
// after the database has given their verdict. One runs at a time.
type Sweep struct {
	store *Store
	files files.Store
	opt   SweepOptions
}

// NewSweep prepares a clean-up of the store's garbage in the given files.
func NewSweep(s *Store, f files.Store, o SweepOptions) *Sweep {
	if o.Limit <= 0 {
		o.Limit = 10_000
	}
	return &Sweep{store: s, files: f, opt: o}
}

// SweepItem is one thing that a clean-up does, with its reason.
type SweepItem struct {
	Action  string       `json:"action"` // condemn, delete, or probe (look again at what was deleted)
	Attempt uuid.UUID    `json:"attempt"`
	Export  uuid.UUID    `json:"export"`
	Token   int64        `json:"token"`
	State   AttemptState `json:"state"`
	Bytes   int64        `json:"bytes"`
	Since   time.Time    `json:"since"` // of the last heartbeat, the verdict, or the replacement
	Why     string       `json:"why"`
}

// SweepResult is what a clean-up did. Planned − Condemned − Deleted − Probed −
// Failed were decided by others meanwhile and are left to the next run.
type SweepResult struct {
	ID        int64    `json:"id"`
	Planned   int      `json:"planned"`
	Condemned int      `json:"condemned"`
	Deleted   int      `json:"deleted"`
	Probed    int      `json:"probed"`
	Bytes     int64    `json:"bytes"` // that were removed
	Failed    int      `json:"failed"`
	Errors    []string `json:"errors,omitempty"`
	// Unknown are names in the folders that were looked at which no attempt accounts for. They stay.
	Unknown []string `json:"unknown,omitempty"`
}

// planSQL is the one source of both the dry run and the run. $1 grace, $2
// quarantine, $3 superseded (seconds), $4 limit, $5 tenant or NULL. Each part is
// bounded by a partial index over what became garbage; nothing here grows with
// what exists.
const planSQL = `SELECT p.action, p.attempt, p.export, p.token, p.state, p.bytes, p.since FROM (
	(SELECT 'condemn' AS action, id AS attempt, export_id AS export, token, state, bytes, heartbeat_at AS since
		FROM fenceline.attempts WHERE state IN ('running', 'sealed') AND heartbeat_at < clock_timestamp() - make_interval(secs => $1)
		ORDER BY heartbeat_at LIMIT $4)
	UNION ALL
	(SELECT 'delete', id, export_id, token, state, bytes, finished_at
		FROM fenceline.attempts WHERE state IN ('fenced', 'failed', 'cancelled', 'condemned') AND finished_at < clock_timestamp() - make_interval(secs => $2)
		ORDER BY finished_at, id LIMIT $4)
	UNION ALL
	(SELECT 'delete', id, export_id, token, state, bytes, replaced_at
		FROM fenceline.attempts WHERE state = 'superseded' AND replaced_at < clock_timestamp() - make_interval(secs => $3)
		ORDER BY replaced_at, id LIMIT $4)
	UNION ALL
	(SELECT 'probe', id, export_id, token, state, 0, deleted_at
		FROM fenceline.attempts WHERE probe_at <= clock_timestamp() ORDER BY probe_at, id LIMIT $4)
	UNION ALL
	(SELECT 'delete', a.id, a.export_id, a.token, a.state, a.bytes, e.deleted_at
		FROM fenceline.exports e JOIN fenceline.attempts a ON a.id = e.attempt_id AND a.state = 'published'
		WHERE e.deleted_at < clock_timestamp() - make_interval(secs => $3) ORDER BY e.deleted_at, e.id LIMIT $4)
	) p WHERE $5::text IS NULL OR EXISTS (SELECT FROM fenceline.exports e WHERE e.id = p.export AND e.tenant = $5)
	LIMIT $4`

// Plan answers what [Sweep.Run] would do now, and changes nothing.
func (sw *Sweep) Plan(ctx context.Context) ([]SweepItem, error) {
	rows, err := sw.store.pool.Query(ctx, planSQL, sw.opt.Grace.Seconds(), sw.opt.Quarantine.Seconds(), sw.opt.Superseded.Seconds(), sw.opt.Limit, nullable(sw.opt.Tenant))
	if err != nil {
		return nil, fmt.Errorf("plan the clean-up: %w", err)
	}
	defer rows.Close()
	items := []SweepItem{}
	for rows.Next() {
		var it SweepItem
		if err := rows.Scan(&it.Action, &it.Attempt, &it.Export, &it.Token, &it.State, &it.Bytes, &it.Since); err != nil {
			return nil, fmt.Errorf("plan the clean-up: %w", err)
		}
		it.Why = sw.why(it)
		items = append(items, it)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("plan the clean-up: %w", err)
	}
	return items, nil
}

func (sw *Sweep) why(it SweepItem) string {
	switch {
	case it.Action == "condemn":
		return fmt.Sprintf("gave no heartbeat for more than %s", sw.opt.Grace)
	case it.Action == "probe":
		return "was deleted; looked at again, in case a frozen worker wrote after that"
	case it.State == AttemptPublished:
		return fmt.Sprintf("belongs to an export that was deleted more than %s ago", sw.opt.Superseded)
	case it.State == AttemptSuperseded:
		return fmt.Sprintf("was replaced by a newer publication more than %s ago", sw.opt.Superseded)
	}
	return fmt.Sprintf("was %s more than %s ago and can never be published", it.State, sw.opt.Quarantine)
}

// Run cleans up: what [Sweep.Plan] says, in that order, until it says nothing
// new or the limit is reached. [ErrBusy] means
// that another run is in progress; [ErrUnsafe] that something does not fit
// together (see the protocol, step 7) and nothing more was deleted. Items that
// failed are in the result, not in the error; the next run tries them again.
func (sw *Sweep) Run(ctx context.Context) (SweepResult, error) {
	var res SweepResult
	unlock, err := sw.store.tryLock(ctx, sweepLock)
	if err != nil {
		return res, err
	}
	defer unlock()
	if err := sw.checkSafe(ctx); err != nil {
		_, _ = sw.store.pool.Exec(ctx, "INSERT INTO fenceline.sweeps (worker, tenant, finished_at, error) VALUES ($1, $2, clock_timestamp(), $3)",
			sw.opt.Worker, nullable(sw.opt.Tenant), err.Error()) // so that it is seen; a standby refuses even that
		return res, err
	}
	if err := sw.store.pool.QueryRow(ctx, "INSERT INTO fenceline.sweeps (worker, tenant) VALUES ($1, $2) RETURNING id", sw.opt.Worker, nullable(sw.opt.Tenant)).Scan(&res.ID); err != nil {
		return res, fmt.Errorf("record the clean-up: %w", err)
	}
	err = sw.run(ctx, &res)
	return res, errors.Join(err, sw.record(context.WithoutCancel(ctx), res, err))
}

// run plans and acts until nothing new is due: what it condemns with a
// quarantine of zero is deleted by the same run.
func (sw *Sweep) run(ctx context.Context, res *SweepResult) error {
	type deed struct {
		action  string
		attempt uuid.UUID
	}
	tried, checked := map[deed]bool{}, map[uuid.UUID]bool{}
	for res.Planned < sw.opt.Limit {
		items, err := sw.Plan(ctx)
		if err != nil {
			return err
		}
		before := res.Planned
		for _, it := range items {
			if tried[deed{it.Action, it.Attempt}] {
				continue
			}
			tried[deed{it.Action, it.Attempt}] = true
			res.Planned++
			if err := sw.item(ctx, it, checked, res); err != nil {
				return err
			}
		}
		if res.Planned == before {
			return nil
		}
	}
	return nil
}

func (sw *Sweep) item(ctx context.Context, it SweepItem, checked map[uuid.UUID]bool, res *SweepResult) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !checked[it.Export] {
		checked[it.Export] = true
		if err := sw.checkExport(ctx, it.Export, res); err != nil {
			return err
		}
	}
	if err := sw.act(ctx, it, res); err != nil {
		res.Failed++
		res.Errors = append(res.Errors, err.Error())
	}
	return nil
}

func (sw *Sweep) act(ctx context.Context, it SweepItem, res *SweepResult) error {
	if it.Action == "condemn" {
		tag, err := sw.store.pool.Exec(ctx, "SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], $2)", it.Attempt, sw.opt.Grace.Seconds())
		if err != nil {
			return fmt.Errorf("condemn attempt %s: %w", it.Attempt, recoveryNeeded(err))
		}
		res.Condemned += int(tag.RowsAffected())
		return nil
	}
	bytes, err := sw.files.Remove(ctx, files.Place{Export: it.Export, Token: it.Token, Attempt: it.Attempt})
	if err != nil {
		return fmt.Errorf("delete the files of attempt %s: %w", it.Attempt, err)
	}
	res.Bytes += bytes
	if err := sw.store.bury(ctx, it); err != nil {
		return err
	}
	if it.Action == "probe" {
		res.Probed++
	} else {
		res.Deleted++
	}
	return nil
}

// bury turns an attempt into a tombstone. The tombstone is probed after ten
// minutes, an hour and a day: until then a worker that was frozen in the middle
// of a write may wake up and finish it.
func (s *Store) bury(ctx context.Context, it SweepItem) error {
	_, err := s.pool.Exec(ctx, `UPDATE fenceline.attempts SET state = 'deleted', deleted_at = coalesce(deleted_at, clock_timestamp()),
			probes = CASE WHEN state = 'deleted' THEN probes + 1 ELSE probes END,
			probe_at = coalesce(deleted_at, clock_timestamp()) + (ARRAY['10 minutes', '1 hour', '1 day']::interval[])[
				CASE WHEN state = 'deleted' THEN probes + 2 ELSE 1 END]
		WHERE id = $1 AND state IN ('fenced', 'failed', 'cancelled', 'condemned', 'superseded', 'published', 'deleted')`, it.Attempt)
	if err != nil {
		return fmt.Errorf("record that the files of attempt %s are gone: %w", it.Attempt, recoveryNeeded(err))
	}
	return nil
}

func (sw *Sweep) record(ctx context.Context, res SweepResult, failure error) error {
	var text *string
	if failure != nil {
		text = new(failure.Error())
	}
	_, err := sw.store.pool.Exec(ctx, `UPDATE fenceline.sweeps SET finished_at = clock_timestamp(), condemned = $2, deleted = $3,
		bytes = $4, failed = $5, error = $6 WHERE id = $1`, res.ID, res.Condemned, res.Deleted, res.Bytes, res.Failed, text)
	if err != nil {
		return fmt.Errorf("record the clean-up: %w", err)
	}
	return nil
}

// checkSafe looks at the whole: a standby, a folder of another installation or
// a database that knows nothing about the files it is asked to clean up.
func (sw *Sweep) checkSafe(ctx context.Context) error {
	if err := sw.store.Ping(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	id, err := sw.store.Installation(ctx)
	if err != nil {
		return err
	}
	if err := sw.files.CheckMarker(ctx, id); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	if err := sw.recovered(ctx); err != nil {
		return err
	}
	var known bool
	if err := sw.store.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM fenceline.attempts)").Scan(&known); err != nil {
		return fmt.Errorf("look for attempts: %w", err)
	}
	if known {
		return nil
	}
	empty, err := sw.files.Empty(ctx)
	if err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: the files folder is not empty but the database knows no attempt; was it restored or replaced?", ErrUnsafe)
	}
	return nil
}

// checkExport looks at one export's folder: a token that the database has not
// given out yet means that the database is older than its files.
func (sw *Sweep) checkExport(ctx context.Context, export uuid.UUID, res *SweepResult) error {
	places, unknown, err := sw.files.Places(ctx, export)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	for _, name := range unknown {
		res.Unknown = append(res.Unknown, export.String()+"/"+name)
	}
	ids := make([]string, len(places))
	for i, p := range places {
		ids[i] = p.Attempt.String()
	}
	var issued int64
	var known []uuid.UUID
	err = sw.store.pool.QueryRow(ctx, `SELECT issued_token, ARRAY(SELECT id FROM fenceline.attempts WHERE export_id = $1 AND id = ANY ($2::uuid[]))
		FROM fenceline.exports WHERE id = $1`, export, ids).Scan(&issued, &known)
	if err != nil {
		return fmt.Errorf("look up export %s: %w", export, err)
	}
	ours := make(map[uuid.UUID]bool, len(known))
	for _, id := range known {
		ours[id] = true
	}
	for _, p := range places {
		if p.Token > issued {
			return fmt.Errorf("%w: %s carries token %d, but the database has given out %d at most: it is older than its files", ErrUnsafe, p, p.Token, issued)
		}
		if !ours[p.Attempt] {
			res.Unknown = append(res.Unknown, p.String())
		}
	}
	return nil
}

// SweepRun is the record of a clean-up.
type SweepRun struct {
	ID         int64      `json:"id"`
	Worker     string     `json:"worker"`
	Tenant     *string    `json:"tenant,omitempty"` // nil: all of them
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Condemned  int64      `json:"condemned"`
	Deleted    int64      `json:"deleted"`
	Bytes      int64      `json:"bytes"`
	Failed     int64      `json:"failed"`
	Error      *string    `json:"error,omitempty"`
}

// TableName names the table for gorm.
func (SweepRun) TableName() string { return "fenceline.sweeps" }

// SweepRuns lists the newest clean-ups, at most limit.
func (s *Store) SweepRuns(ctx context.Context, limit int) ([]SweepRun, error) {
	var runs []SweepRun
	if err := s.db.WithContext(ctx).Order("id DESC").Limit(limit).Find(&runs).Error; err != nil {
		return nil, fmt.Errorf("list clean-ups: %w", err)
	}
	return runs, nil
}
