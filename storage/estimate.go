package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Estimate asks the planner how many rows a statement will give. It is a guess
// from statistics, made without reading the rows: good for a progress bar and for
// the word "about", for nothing else. What PostgreSQL refuses is a [*QueryError].
func (sn *Snapshot) Estimate(ctx context.Context, query string, args []*string) (int64, error) {
	const explain = "EXPLAIN (FORMAT JSON) "
	res := sn.conn.PgConn().ExecParams(ctx, explain+query, textValues(args), nil, nil, nil).Read()
	var refused *QueryError
	if err := queryError(res.Err); errors.As(err, &refused) {
		refused.Position = max(refused.Position-len(explain), 0)
		return 0, refused
	} else if err != nil {
		return 0, fmt.Errorf("ask for an estimate: %w", err)
	}
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		}
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 1 || json.Unmarshal(res.Rows[0][0], &plans) != nil || len(plans) != 1 {
		return 0, errors.New("ask for an estimate: PostgreSQL answered in a form that is not known here")
	}
	return int64(math.Min(max(plans[0].Plan.Rows, 0), 1e15)), nil
}
