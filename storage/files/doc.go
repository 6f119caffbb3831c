// Package files keeps the immutable objects that attempts write.
//
// An object lies under a name that is used once, ever:
//
//	<root>/<export id>/<token>-<attempt id>/<object>
//
// The root is a folder ([Local]), or a part of a bucket ([S3]).
//
// Every part is made by Fenceline (UUIDs, a number, a name of plain letters), so
// nothing that a tenant or a user types becomes part of a path; all access to a
// folder goes through an [os.Root], so that not even a planted symbolic link leads outside.
//
// Nothing here decides what is current and nothing here deletes by itself: the
// database names the current attempt, and only the sweep calls [Store.Remove],
// for attempts that the database has condemned first.
package files
