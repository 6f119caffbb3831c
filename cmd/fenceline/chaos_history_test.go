package main

import (
	"regexp"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// pointerOp is an operation on one export's pointer: a publication of a token,
// or a read (token 0).
type pointerOp struct {
	export uuid.UUID
	token  int64
}

// pointerModel is the specification: a register that only moves up.
func pointerModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			by := map[uuid.UUID][]porcupine.Operation{}
			for _, op := range history {
				e := op.Input.(pointerOp).export
				by[e] = append(by[e], op)
			}
			var parts [][]porcupine.Operation
			for _, p := range by {
				parts = append(parts, p)
			}
			return parts
		},
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			in, at := input.(pointerOp), state.(int64)
			if in.token == 0 {
				return output.(int64) == at, at
			}
			return in.token > at, in.token
		},
	}
}

// published finds in a worker's log when it had the answer to a publish.
var published = regexp.MustCompile(`time=(\S+) level=INFO msg=published .* token=(\d+) `)

// checkHistory: the reads of the pointers and the publications, as they
// overlapped in time, are those of a register that only moves up.
//
// A publication begins at the earliest when its attempt was sealed, by
// PostgreSQL's clock, which on one machine is the readers' clock too. It ends
// when the worker had the answer; where that was lost, it may have taken effect
// at any later time.
func (c *chaos) checkHistory() {
	c.t.Helper()
	ends := map[int64]time.Time{}
	for _, log := range c.workLog {
		for _, m := range published.FindAllStringSubmatch(log.String(), -1) {
			at, err := time.Parse(time.RFC3339Nano, m[1])
			c.must(err)
			token, err := strconv.ParseInt(m[2], 10, 64)
			c.must(err)
			ends[token] = at.Add(time.Millisecond) // the log has milliseconds, cut off
		}
	}
	end := time.Now().Add(time.Hour).UnixNano()
	var history []porcupine.Operation
	conn, err := pgx.Connect(c.t.Context(), c.pg.url)
	c.must(err)
	defer conn.Close(c.t.Context())
	rows, err := conn.Query(c.t.Context(), "SELECT export_id, token, sealed_at FROM fenceline.attempts WHERE verdict IN ('published', 'superseded')")
	c.must(err)
	for rows.Next() {
		var op pointerOp
		var sealed time.Time
		c.must(rows.Scan(&op.export, &op.token, &sealed))
		ret := end
		if at, ok := ends[op.token]; ok {
			ret = at.UnixNano()
		}
		history = append(history, porcupine.Operation{Input: op, Call: sealed.UnixNano(), Output: op.token, Return: ret})
	}
	c.must(rows.Err())
	c.stats["published"] = len(history)
	for _, r := range c.reads {
		history = append(history, porcupine.Operation{Input: pointerOp{export: r.export}, Call: r.call.UnixNano(), Output: r.token, Return: r.ret.UnixNano()})
	}
	if got := porcupine.CheckOperationsTimeout(pointerModel(), history, time.Minute); got != porcupine.Ok {
		c.t.Errorf("the history of %d operations is not linearizable: %s", len(history), got)
	}
}
