// Package report turns a question, written as SQL in a file, into faithful files
// of rows.
//
// A report is a file <name>.sql: a front matter in comments, then one SELECT.
//
//	-- title: Orders
//	-- description: Every order with its customer, by date.
//	-- filename: orders
//	-- param: shop text
//	-- param: from date required "First day"
//	-- param: to date required "Day after the last"
//	-- param: status list(enum(new,paid,shipped,cancelled)) "Only these"
//	-- param: min_total decimal default 0 "At least"
//	-- column: id code width 12 "Order"
//	-- column: ordered_at "Ordered"
//	-- column: status enum(new "New", paid "Paid", shipped "On its way", cancelled) "Status"
//	-- column: total money(EUR) "Total"
//	-- column: shop_id hidden
//	-- format: csv, xlsx
//	-- preset: spreadsheet
//	-- locale: de-DE
//	-- zone: Europe/Berlin
//	-- strict: no
//	-- tenant: shop
//	-- max_rows: 1000000
//	-- timeout: 10m
//	SELECT o.id, o.ordered_at, o.status, o.total, o.shop_id
//	FROM orders o
//	WHERE o.shop = :shop AND o.ordered_at >= :from AND o.ordered_at < :to
//	  AND (:status IS NULL OR o.status = ANY(:status)) AND o.total >= :min_total
//	ORDER BY o.ordered_at, o.id
//
// # Front matter
//
// The front matter is the first block of -- lines. Each of its lines is
// "key: value" or empty; prose goes below a blank line or into /* … */. Words with
// spaces are quoted, a quote in quotes is doubled. Every key may be left out;
// param and column may be given many times, the others once:
//
//   - title, description: for people.
//   - filename: of a download, without its ending.
//   - param: a name, a [Type], then in any order: required or default VALUE, and a
//     label in double quotes. A parameter that is neither required nor has a default
//     is NULL when it is not given. An enum lists its members, list(TYPE) takes any
//     number of values of another type (see [Definition.Canonical]); in the query it
//     is one array: = ANY(:name).
//   - column: a name of the result, then a kind (see [tabular.Kinds]), options and a
//     label in double quotes, each of which may be left out. The kinds money(EUR),
//     decimal(2) and enum(code "Label", …) take more in brackets. The options are
//     width N (characters), hidden (in no file), decimals N (of decimal, money and
//     percent) and show code, show label or show both (of an enum: both makes a
//     second column NAME_label).
//   - format: what a request gets that names none, such as csv, xlsx, jsonl.gz;
//     csv when it is left out. [Formats.Names] are all.
//   - preset: data (the default) or spreadsheet. See package csv.
//   - locale: of the preset spreadsheet, one of [tabular.LocaleNames].
//   - zone: the IANA time zone in which times arrive and are shown; UTC when it is
//     left out.
//   - strict: yes fails where a value would be cut, replaced or turned into text.
//   - tenant: the parameter that takes the tenant of the job, or the word shared when
//     every tenant gets the same rows. Without it the report is for jobs of the
//     tenant [DefaultTenant] only. See [Definition.Given].
//   - source: the name of a [Source] that the program has registered. What stands
//     below the front matter is then that source's own text, not read as SQL, and
//     may be nothing.
//   - max_rows: a report with more rows fails.
//   - timeout: how long the query may run, such as 90s.
//
// # Query
//
// In the query, :name stands for a value. It is bound, never spliced: the text
// that reaches PostgreSQL holds $1::date where the file said :from. Inside
// strings, quoted identifiers, dollar quotes and comments :name is just text,
// and so are the colons of casts (::), of := and of array slices. A colon that a
// space follows never starts a parameter.
//
// # From the file to files
//
// [Parse] reads one file and names every mistake with its line, [Catalog] keeps
// folders of them. A request gives values and a [Choice]: [Definition.Given] adds
// the tenant, [Definition.Choose] and [Definition.Bind] check them,
// [Definition.Key] names what they ask for. A [Source] or PostgreSQL gives the
// columns, [Definition.Layouts] fits them to the front matter, and [Write] reads
// the rows once into every file. Formats of other programs are registered with
// [NewFormats]; the examples show one, and a source. The package knows rows and
// definitions; connections, jobs and tables belong to its callers.
package report
