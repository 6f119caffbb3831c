// Package parquet writes rows as Apache Parquet.
//
// Columns are named by their key, and all are optional: NULL is NULL.
//
//	PostgreSQL                        Parquet
//	bool                              BOOLEAN
//	int2, int4                        INT32, INT(16) and INT(32)
//	int8, oid                         INT64
//	float4, float8                    FLOAT, DOUBLE; NaN, infinities and -0 as they are
//	numeric(p,s)                      DECIMAL(p,s), up to 38 digits
//	numeric with declared decimals    DECIMAL(38,decimals); of a percentage, whose
//	                                  decimals count after * 100, DECIMAL(38,decimals+2)
//	numeric of any size               STRING of its exact digits: declare decimals, or
//	                                  cast, to get numbers
//	date                              DATE
//	timestamptz                       TIMESTAMP(MICROS, adjusted to UTC)
//	timestamp                         TIMESTAMP(MICROS, local)
//	time                              TIME(MICROS, local)
//	uuid                              UUID
//	json, jsonb, arrays               JSON, compact
//	bytea                             BYTE_ARRAY
//	everything else                   STRING
//
// Columns of the kinds text, code and enum are STRING whatever their type; an
// enum with labels holds the labels.
//
// Infinite dates and times, and those that the type's integer cannot count (years
// after 294246), are no points in time for any reader: NULL, and counted. So are
// NaN and the infinities in a DECIMAL, and 24:00:00, which readers refuse. A finite
// number that does not fit its DECIMAL fails the file: as NULL it would silently
// be missing from every sum.
//
// The pages are compressed with zstd, repeating values are in dictionaries, every
// column of a row group has its bounds. Memory is bounded by bytes and does not
// depend on the number of rows.
//
// Types, metadata and level encoding come from parquet-go. Its writer is not
// used: it compares negative 128-bit decimals as unsigned bytes, so that readers
// which skip by bounds lose rows, keeps bounds as long as the values in memory
// until the end, and cannot tell early that a dictionary does not pay.
package parquet
