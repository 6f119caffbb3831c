package report

// Unbound is the query with NULL for every value, for those who only want to
// know what it would give.
func (d *Definition) Unbound() Query {
	return Query{SQL: d.sql, Args: make([]*string, len(d.bound))}
}
