package protocol_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage/protocol"
)

// rowsSQL is everything in the tables that the reference knows too, one line a row.
// What is a time is said as whether it has passed.
const rowsSQL = `
	SELECT id, format('export: key %s issued %s last %s current {%s} deleted %s expired %s lost %s pinned %s held %s', key, issued_token, last_token, attempt_id,
		deleted_at IS NOT NULL, expired, files_lost_at IS NOT NULL, pinned_at IS NOT NULL,
		EXISTS (SELECT FROM fenceline.holds WHERE export_id = e.id AND released_at IS NULL))
	FROM fenceline.exports e
	UNION ALL
	SELECT NULL, format('all are held: %s', EXISTS (SELECT FROM fenceline.holds WHERE export_id IS NULL AND released_at IS NULL))
	UNION ALL
	SELECT NULL, format('epoch: %s', CASE WHEN state = 'open' AND fenceline.epoch_trouble() IS NOT NULL THEN 'restored' ELSE state END)
	FROM fenceline.epoch
	UNION ALL
	SELECT id, format('job: of {%s} %s waiting %s due %s generation %s holder {%s} attempts %s failures %s crashes %s error %s ended %s',
		export_id, state, coalesce(waiting_for, '-'), due_at <= clock_timestamp(), generation, attempt_id, attempts, failures, crashes,
		coalesce(error, '-'), finished_at IS NOT NULL)
	FROM fenceline.jobs
	UNION ALL
	SELECT id, format('attempt: of {%s} number %s token %s order %s %s verdict %s step %s rows %s reason %s error %s fenced by %s silent %s probe %s %s files %s ended %s replaced %s pinned %s doomed %s',
		job_id, number, token, coalesce(lease_order_name || ' ' || lease_order_number, '-'), state, coalesce(verdict, '-'), step, rows, coalesce(reason, '-'), coalesce(error, '-'), coalesce(fenced_by, 0),
		heartbeat_at < clock_timestamp() - interval '30 minutes', probes,
		CASE WHEN probe_at IS NULL THEN '-' WHEN probe_at <= clock_timestamp() THEN 'due' ELSE 'later' END,
		(SELECT count(*) FROM fenceline.files WHERE attempt_id = a.id), finished_at IS NOT NULL, replaced_at IS NOT NULL, pinned_at IS NOT NULL, doomed_at IS NOT NULL)
	FROM fenceline.attempts a
	UNION ALL
	SELECT NULL, format('notice: %s for {%s} of {%s}', topic, job_id, attempt_id)
	FROM fenceline.outbox`

// names are the reference's numbers of what the database knows by UUID.
func (p *pair) names() map[uuid.UUID]string {
	names := map[uuid.UUID]string{}
	for i, id := range p.exports {
		names[id] = fmt.Sprint(i)
	}
	for i, job := range p.jobs {
		names[job.ID] = fmt.Sprint(i)
	}
	for i, a := range p.attempts {
		names[a.ID] = fmt.Sprint(i)
	}
	return names
}

// databaseRows are the rows of the product, sorted, by the reference's numbers.
func (p *pair) databaseRows() []string {
	p.t.Helper()
	var named []string
	for id, name := range p.names() {
		named = append(named, "{"+id.String()+"}", name)
	}
	numbers := strings.NewReplacer(append(named, "{}", "0")...)
	found, err := p.conn.Query(p.ctx, rowsSQL)
	p.must(err)
	names := p.names()
	lines, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
		var id *uuid.UUID
		var text string
		err := row.Scan(&id, &text)
		if id != nil {
			kind, rest, _ := strings.Cut(text, ":")
			text = kind + " " + names[*id] + ":" + rest
		}
		return numbers.Replace(text), err
	})
	p.must(err)
	slices.Sort(lines)
	return lines
}

// referenceRows are the same lines as the reference has them.
func referenceRows(w *protocol.World) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for e := protocol.ExportID(1); e <= w.Exports(); e++ {
		if x := w.Export(e); x.Exists {
			add("export %d: key %d issued %d last %d current %d deleted %s expired %s lost %s pinned %s held %s", e, x.Key, x.Issued, x.Last, x.Current,
				tf(x.Deleted), tf(x.Expired), tf(x.FilesLost), tf(x.Pinned), tf(x.Held))
		}
	}
	add("epoch: %s", w.Epoch())
	add("all are held: %s", tf(w.HeldAll()))
	for j := protocol.JobID(1); j <= w.Jobs(); j++ {
		if x := w.Job(j); x.State != "" {
			add("job %d: of %d %s waiting %s due %s generation %d holder %d attempts %d failures %d crashes %d error %s ended %s", j, x.Export, x.State,
				dash(x.Waiting), tf(x.Due), x.Generation, x.Holder, x.Attempts, x.Failures, x.Crashes, dash(x.Error), tf(x.State.Ended()))
		}
	}
	for a := protocol.AttemptID(1); a <= w.Attempts(); a++ {
		if x := w.Attempt(a); x.State != "" {
			add("attempt %d: of %d number %d token %d order %s %s verdict %s step %s rows %d reason %s error %s fenced by %d silent %s probe %d %s files %d ended %s replaced %s pinned %s doomed %s",
				a, x.Job, x.Number, x.Token, orderOf(x), x.State, dash(string(x.Verdict)), x.Step, x.Rows, dash(x.Reason), dash(x.Error), x.FencedBy, tf(x.Silent),
				x.Probes, dash(string(x.Probe)), min(x.AsOf, 1), tf(!x.State.Unfinished()), tf(x.Verdict == protocol.AttemptSuperseded),
				tf(x.Pinned), tf(x.Doomed))
		}
	}
	for _, n := range w.Outbox() { // their order is that of one statement's rows: none
		add("notice: %s for %d of %d", n.Topic, n.Job, n.Attempt)
	}
	slices.Sort(lines)
	return lines
}

func tf(b bool) string { return fmt.Sprint(b)[:1] }

func orderOf(a protocol.Attempt) string {
	if a.Order == 0 {
		return "-"
	}
	return fmt.Sprintf("revision %d", a.Order)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// difference is what the product has and the reference has not, and the other way
// round; empty when rows and files are equal.
func (p *pair) difference() string {
	p.t.Helper()
	product, reference := p.databaseRows(), referenceRows(p.ref)
	for a := protocol.AttemptID(1); a <= p.ref.Attempts(); a++ {
		present, err := p.local.Present(p.ctx, p.place(a))
		p.must(err)
		product = append(product, fmt.Sprintf("file of attempt %d: %s", a, tf(present)))
		reference = append(reference, fmt.Sprintf("file of attempt %d: %s", a, tf(p.ref.Present(a))))
	}
	mark, err := p.local.ReadMark(p.ctx)
	p.must(err)
	product = append(product, fmt.Sprintf("files have heard of token %d", mark.Token))
	reference = append(reference, fmt.Sprintf("files have heard of token %d", max(p.ref.Told(), 0)))
	return without("product  ", product, reference) + without("reference", reference, product)
}

// without are the lines of a that b has not, as often as a has them.
func without(whose string, a, b []string) string {
	var text strings.Builder
	rest := slices.Clone(b)
	for _, line := range a {
		if i := slices.Index(rest, line); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			fmt.Fprintf(&text, "%s  %s\n", whose, line)
		}
	}
	return text.String()
}
