// Package jobstest helps programs to test their jobs. Only tests import it.
//
//   - [NewDispatcher]: what did my code dispatch? A dispatcher that checks like the real
//     one and keeps jobs in memory. No database.
//   - [Run]: what does my handler do? One run of a plain job. No database.
//   - [Overtake]: does my handler survive being overtaken? The run is frozen, another
//     one does the work, the first goes on. A real PostgreSQL, because what refuses
//     is the database.
//   - [Start]: does it all work together? A whole Fenceline in this process.
//   - [Travel]: what happens tomorrow? Time passes in the database.
//
// Give code under test a *[jobs.Dispatcher]: the fake one is a real one that puts jobs
// elsewhere, so no interface of your own is needed.
//
// # Clocks
//
// Fenceline reads one clock, that of PostgreSQL, so there is none to hand to code in a
// test. Where there is a database, [Travel] moves what is written down. Where
// there is none, as with [NewDispatcher] and [Run], testing/synctest moves the clock
// of the code itself: in its bubble a delay of a day takes no time, and
// [Dispatcher.Due] says what could run by then.
//
// # What is needed
//
// [Start] and [Overtake] need the programs of a PostgreSQL server; they run a private one
// for each test process, with a database for each test. Call [Main] from TestMain.
// Where the programs are missing such tests fail: a check that cannot run has not
// passed. Redis is in this process unless the setup names one.
package jobstest
