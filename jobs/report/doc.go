// Package report turns a question, written as SQL in a file, into a faithful
// file of rows.
//
// A report is a file <name>.sql: a front matter in comments, then one SELECT.
//
//	-- title: Orders
//	-- description: Every order with its customer, by date.
//	-- param: from date required "First day"
//	-- param: to date required "Day after the last"
//	-- param: status enum(new,paid,shipped,cancelled) "Only this status"
//	-- param: min_total decimal default 0 "At least"
//	-- filename: orders
//	SELECT o.id, o.ordered_at, o.total
//	FROM orders o
//	WHERE o.ordered_at >= :from AND o.ordered_at < :to
//	  AND (:status IS NULL OR o.status = :status) AND o.total >= :min_total
//	ORDER BY o.ordered_at, o.id
//
// The front matter is the first block of -- lines. Each of its lines is
// "key: value" or empty; prose goes below a blank line or into /* … */. A param
// is a name, a type, then in any order: required or default VALUE, and a label
// in double quotes. Values with spaces are quoted, a quote in quotes is doubled.
// A parameter that is neither required nor has a default is NULL when it is not
// given.
//
// In the query, :name stands for a value. It is bound, never spliced: the text
// that reaches PostgreSQL holds $1::date where the file said :from. Inside
// strings, quoted identifiers, dollar quotes and comments :name is just text,
// and so are the colons of casts (::), of := and of array slices. A colon that a
// space follows never starts a parameter.
//
// [Parse] reads one file and names every mistake with its line, [Catalog] keeps
// folders of them, [Definition.Bind] checks the values that a person gave, and
// [WriteCSV] writes the rows of any source that can speak PostgreSQL's text
// format. The package knows rows and definitions; connections, jobs and tables
// belong to its callers.
package report
