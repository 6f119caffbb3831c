// Package protocol holds the publication protocol twice more than the product
// does, so that it can be looked at from all sides: as models for the Spin model
// checker (fence.pml, and keep.pml for those who keep files beside those who delete
// them), and as a reference in Go, [World], that keeps exports, jobs, attempts and
// files in memory and has one method for each step.
//
// The methods of a [World] answer exactly what the functions in the database
// answer (migrations/00002_protocol.sql, 00016_epoch.sql, 00017_retention.sql,
// 00022_keep.sql), and what package storage makes of it, and leave exactly the rows behind. No
// product code uses it. It is there for two tests, and either would say little
// without the other:
//
//   - The simulation takes three workers, a clean-up without grace, someone who
//     cancels, people who pin, hold, delete, restore and set rules, and a restore of the
//     database with its recovery through random interleavings on the reference, more
//     than a hundred thousand of them in seconds, and asks [Laws] after every step. It is
//     deterministic: a seed is a story, and one that breaks a law is told in the
//     fewest steps that still do.
//   - The conformance test takes random steps on the reference and on a real
//     PostgreSQL through package storage, and compares every answer and every row.
//     It ties what the simulation has found to the product.
//
// The model differs from both in what it promises: Spin goes through all orders of
// steps, also of those inside a publish, but only for two attempts (three with make
// model) and with much left out. Where the reference and the model say the same
// thing, the model is the shorter text.
//
// How to run them, and again what they have found:
//
//	go test ./storage/protocol
//	go test ./storage/protocol -run TestSimulation -args -interleavings=10000000
//	go test ./storage/protocol -run TestSimulation -args -interleavings=1 -seed=<seed>
//	go test ./storage/protocol -run TestProductConforms -args -sequences=5000
//	go test ./storage/protocol -run TestProductConforms -args -sequences=1 -sequence=<seed>
//	make model
//
// # Guards
//
// A test of laws is worth what it catches. Therefore each [Guard] of the protocol
// can be taken out, of the reference with [New] and of the model with a switch, and
// the tests demand that a law breaks then. The model shows which one.
//
// # Where to read what
//
// The way of an attempt is in attempt.go, publish.go and job.go. What keeps files and
// how they are given up is in keep.go, with the clean-up around it in sweep.go: it
// plans, asks again when it decides ([World.Doom], [World.Expire]), removes, and
// buries. epoch.go and recover.go are for a database that was restored: it holds still until
// [World.Recover]. What must hold in all of this is in laws.go.
//
// # What is not in it
//
// What tells a database that it was restored: it knows, or the files have heard of a
// token that it does not know. Time: an attempt has been silent for too long or it has not, a job is due or it is
// not, and tests decide which. Leases and Redis: no law depends on them (L9); the order
// of a lease is kept with its attempt and never looked at. The sizes and hashes of
// files: a file is there or it is not. Transactions that are rolled back: they have
// not happened.
package protocol
