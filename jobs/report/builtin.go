package report

import (
	"github.com/fenceline/fenceline/jobs/report/csv"
	"github.com/fenceline/fenceline/jobs/report/jsonl"
	"github.com/fenceline/fenceline/jobs/report/parquet"
	"github.com/fenceline/fenceline/jobs/report/tabular"
	"github.com/fenceline/fenceline/jobs/report/xlsx"
)

// builtin are the formats that come with the package.
func builtin() []tabular.Format {
	return []tabular.Format{csv.Format(), xlsx.Format(), jsonl.Format(), parquet.Format()}
}
