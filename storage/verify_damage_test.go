package storage_test

import (
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// rowDamages are what broken code, or somebody with a superuser's rights, could do to the rows.
func rowDamages() []damage {
	return []damage{
		{"pointer to nothing", "L1", "does not exist", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.exports SET attempt_id = gen_random_uuid() WHERE id = $1", d.export)
		}},
		{"pointer back to the replaced attempt", "L1", "is superseded and not published", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.exports SET attempt_id = $2, last_token = $3 WHERE id = $1", d.export, d.old.ID, d.old.Token)
		}},
		{"no file recorded", "L1", "no file is recorded", func(s *swept, d *damaged) {
			s.force("DELETE FROM fenceline.files WHERE attempt_id = $1", d.cur.ID)
		}},
		{"pointer with another token", "L2", "but its attempt has token", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.exports SET last_token = $2 WHERE id = $1", d.export, d.old.Token)
		}},
		{"last token above all", "L2", "but the highest token that was published is", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.exports SET last_token = 100000, issued_token = 100000 WHERE id = $1", d.export)
		}},
		{"pointer to another export's attempt", "L2", "of export", func(s *swept, d *damaged) {
			_, b := s.publishedTrue("another")
			s.force("UPDATE fenceline.exports SET attempt_id = $2, last_token = $3, issued_token = $3 WHERE id = $1", d.export, b.ID, b.Token)
		}},
		{"issued token set back", "L2", "was given out", func(s *swept, d *damaged) {
			d.more(s)
			s.force("UPDATE fenceline.exports SET issued_token = last_token WHERE id = $1", d.export)
		}},
		{"two published", "L2", "beside the current one", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.attempts SET state = 'published' WHERE id = $1", d.old.ID)
		}},
		{"published in another order", "L2", "was published after token", func(s *swept, d *damaged) {
			s.force(`UPDATE fenceline.outbox SET attempt_id = CASE attempt_id WHEN $2 THEN $3::uuid ELSE $2::uuid END,
				job_id = CASE job_id WHEN $4 THEN $5::uuid ELSE $4::uuid END WHERE export_id = $1`, d.export, d.old.ID, d.cur.ID, d.oldJob.ID, d.job.ID)
		}},
		{"older data", "L3", "before it had data of", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.attempts SET data_as_of = now() - interval '1 year' WHERE id = $1", d.cur.ID)
		}},
		{"data of no time", "L3", "without saying of when", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.attempts SET data_as_of = NULL WHERE id = $1", d.cur.ID)
		}},
		{"two publications of a job", "L4", "2 attempts of the job were published", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.attempts SET job_id = $2, number = 2 WHERE id = $1", d.old.ID, d.job.ID)
		}},
		{"done without a publication", "L4", "no attempt of it was published", func(s *swept, d *damaged) {
			job, _ := d.more(s)
			s.force("UPDATE fenceline.jobs SET state = 'done', finished_at = now() WHERE id = $1", job.ID)
		}},
		{"an attempt of no job", "L4", "a job that does not exist", func(s *swept, d *damaged) {
			_, b := d.more(s)
			s.force("UPDATE fenceline.attempts SET job_id = gen_random_uuid() WHERE id = $1", b.ID)
		}},
		{"an attempt of another export's job", "L4", "belongs to a job of export", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.attempts SET job_id = $2, number = 9 WHERE id = $1", d.old.ID, s.insert(newJob("elsewhere")).ID)
		}},
		{"running under nothing", "L5", "nobody will hand it on", func(s *swept, d *damaged) {
			job, _ := d.more(s)
			s.force("UPDATE fenceline.jobs SET attempt_id = gen_random_uuid() WHERE id = $1", job.ID)
		}},
		{"superseded by nothing", "L5", "not refused for a newer publication", func(s *swept, d *damaged) {
			job, _ := d.more(s)
			s.force("UPDATE fenceline.jobs SET state = 'superseded', finished_at = now() WHERE id = $1", job.ID)
		}},
		{"a job of no export", "L5", "an export that does not exist", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.jobs SET export_id = gen_random_uuid() WHERE id = $1", d.job.ID)
		}},
		{"nobody rings", "L5", "stuck: the job was to be rung for", func(s *swept, d *damaged) {
			job := s.insert(newJob("nobody rings"))
			s.force("UPDATE fenceline.jobs SET due_at = now() - interval '2 hours', ring_at = now() - interval '2 hours' WHERE id = $1", job.ID)
		}},
		{"silent", "L5", "stuck: the job is running, but its attempt gave no heartbeat since", func(s *swept, d *damaged) {
			_, b := d.more(s)
			s.force("UPDATE fenceline.attempts SET heartbeat_at = now() - interval '2 hours' WHERE id = $1", b.ID)
		}},
		{"condemned and not handed on", "L5", "stuck: the job is running, but its attempt was condemned", func(s *swept, d *damaged) {
			_, b := d.more(s)
			s.force("UPDATE fenceline.attempts SET state = 'condemned', verdict = 'condemned', finished_at = now() - interval '2 hours' WHERE id = $1", b.ID)
		}},
		{"failed although published", "L6", "the job is failed, but", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.jobs SET state = 'failed', error = 'x' WHERE id = $1", d.job.ID)
		}},
		{"done by another attempt", "L6", "another attempt of it was published", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.jobs SET attempt_id = $2 WHERE id = $1", d.job.ID, d.old.ID)
		}},
		{"attempts not counted", "L6", "the job counts 7 attempts", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.jobs SET attempts = 7 WHERE id = $1", d.job.ID)
		}},
		{"running under an older attempt", "L6", "under its attempt number 1", func(s *swept, d *damaged) {
			job, b := d.more(s)
			s.force("UPDATE fenceline.jobs SET state = 'queued', attempt_id = NULL WHERE id = $1", job.ID)
			s.begin(job)
			s.force("UPDATE fenceline.jobs SET attempt_id = $2 WHERE id = $1", job.ID, b.ID)
		}},
		{"deleted although published", "L7", "were deleted although it was published", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.attempts SET state = 'deleted', verdict = 'published' WHERE id = $1", d.old.ID)
		}},
		{"deleted although never condemned", "L7", "were deleted although it was not decided", func(s *swept, d *damaged) {
			_, b := d.more(s)
			s.force("UPDATE fenceline.attempts SET state = 'deleted', verdict = NULL, finished_at = now() WHERE id = $1", b.ID)
		}},
		{"replaced at no time", "L7", "not recorded when", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.attempts SET replaced_at = NULL WHERE id = $1", d.old.ID)
		}},
		{"no notice", "L8", "with 0 notices", func(s *swept, d *damaged) {
			s.force("DELETE FROM fenceline.outbox WHERE attempt_id = $1", d.cur.ID)
		}},
		{"two notices", "L8", "with 2 notices", func(s *swept, d *damaged) {
			s.force("INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id) VALUES ('export.published', $1, $2, $3)", d.export, d.job.ID, d.cur.ID)
		}},
		{"a notice of what never happened", "L8", "was never published", func(s *swept, d *damaged) {
			job, b := d.more(s)
			s.force("INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id) VALUES ('export.published', $1, $2, $3)", d.export, job.ID, b.ID)
		}},
		{"a notice of nothing", "L8", "names no attempt", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.outbox SET attempt_id = gen_random_uuid() WHERE attempt_id = $1", d.cur.ID)
		}},
	}
}

func fileDamages() []damage {
	return []damage{
		{"missing", "L1", "is published, but file \"orders.csv\"", func(s *swept, d *damaged) {
			s.must(os.Remove(filepath.Join(d.current, "1-orders.csv")))
		}},
		{"folder missing", "L1", "is missing", func(s *swept, d *damaged) { s.must(os.RemoveAll(d.current)) }},
		{"of a deleted export, too soon", "L1", "is missing", func(s *swept, d *damaged) {
			s.must(s.store.DeleteExport(s.ctx, everything, d.export))
			s.must(os.RemoveAll(d.current))
		}},
		{"truncated", "L1", "has 3 bytes, but 5 were recorded", func(s *swept, d *damaged) {
			s.must(os.Truncate(filepath.Join(d.current, "1-orders.csv"), 3))
		}},
		{"other bytes", "L1", "has SHA-256", func(s *swept, d *damaged) { s.writeFile(filepath.Join(d.current, "1-orders.csv"), "12346") }},
		{"a replaced version taken too soon", "L7", "is superseded, but file", func(s *swept, d *damaged) { s.must(os.RemoveAll(d.oldPlace)) }},
		{"a sealed attempt's file taken", "L7", "is sealed, but file", func(s *swept, d *damaged) {
			job, b := d.more(s)
			s.sealTrue(b)
			_, err := s.local.Remove(s.ctx, s.place(job, b))
			s.must(err)
		}},
		{"a tombstone's files, for ever", "L7", "no clean-up will look again", func(s *swept, d *damaged) {
			_, b := d.more(s)
			s.force("UPDATE fenceline.attempts SET state = 'deleted', verdict = 'condemned', finished_at = now(), deleted_at = now() WHERE id = $1", b.ID)
		}},
	}
}

// leftDamages are garbage that a clean-up had to take.
func leftDamages() []damage {
	end := func(s *swept, d *damaged, state storage.AttemptState) {
		_, b := d.more(s)
		s.force("UPDATE fenceline.attempts SET state = $2, verdict = $2, finished_at = now() - interval '1 minute' WHERE id = $1", b.ID, string(state))
	}
	list := []damage{
		{"silent", "L7", "did not condemn it", func(s *swept, d *damaged) {
			_, b := d.more(s)
			s.force("UPDATE fenceline.attempts SET heartbeat_at = now() - interval '61 minutes' WHERE id = $1", b.ID)
			s.force("UPDATE fenceline.jobs SET state = 'failed', error = 'x', finished_at = now() WHERE attempt_id = $1", b.ID)
		}},
		{"replaced", "L7", "it was replaced or", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.attempts SET replaced_at = now() - interval '25 hours' WHERE id = $1", d.old.ID)
		}},
		{"of a deleted export", "L7", "or its export deleted at", func(s *swept, d *damaged) {
			s.force("UPDATE fenceline.exports SET deleted_at = now() - interval '25 hours' WHERE id = $1", d.export)
		}},
		{"a tombstone's files", "L7", "it will look again at", func(s *swept, d *damaged) {
			_, b := d.more(s)
			s.force(`UPDATE fenceline.attempts SET state = 'deleted', verdict = 'condemned', finished_at = now(), deleted_at = now(),
				probe_at = now() + interval '1 hour' WHERE id = $1`, b.ID)
		}},
		{"a temporary name", "L7", ".1-orders.csv.partial\" is in the folder", func(s *swept, d *damaged) {
			s.writeFile(filepath.Join(d.current, ".1-orders.csv.partial"), "12")
		}},
	}
	for _, state := range []storage.AttemptState{storage.AttemptFenced, storage.AttemptFailed, storage.AttemptCancelled, storage.AttemptCondemned} {
		list = append(list, damage{string(state), "L7", "it was " + string(state), func(s *swept, d *damaged) { end(s, d, state) }})
	}
	return list
}

func strangeDamages() []damage {
	return []damage{
		{"an unknown attempt", "L7", "there is no such attempt", func(s *swept, d *damaged) {
			s.write(d.job, storage.Begun{ID: uuid.New(), Token: d.old.Token})
		}},
		{"another token of a known attempt", "L7", "there is no such attempt", func(s *swept, d *damaged) {
			s.write(d.job, storage.Begun{ID: d.cur.ID, Token: d.old.Token})
		}},
		{"a token that was never given out", "L7", "the database is older than its files", func(s *swept, d *damaged) {
			s.write(d.job, storage.Begun{ID: uuid.New(), Token: d.cur.Token + 1000})
		}},
		{"a file in an export's folder", "L7", "notes.txt", func(s *swept, d *damaged) {
			s.writeFile(filepath.Join(filepath.Dir(d.current), "notes.txt"), "mine")
		}},
		{"a file in an attempt's folder", "L7", "which did not record it", func(s *swept, d *damaged) {
			s.writeFile(filepath.Join(d.current, "2-more.csv"), "more")
		}},
	}
}
