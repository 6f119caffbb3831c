// Package calendar reads cron expressions and walks the local times that they
// name. It knows neither schedules nor clocks: everything in it is a function of
// its arguments and safe for concurrent use.
//
// # What happens when clocks change
//
// An expression whose hour field is fixed (it holds neither * nor ?, as 0 6 * * 1
// or 30 0-12/3 * * *) names local times, and each of them comes once:
//
//   - A time that is skipped, because the clock is put forward over it, comes at the
//     first instant after the gap. All that one gap skips comes together, as one
//     fire: the hour was lost, so nothing of it is made up several times over.
//   - A time that is repeated, because the clock is put back, comes at its first
//     pass only.
//
// Both follow from one definition: a local time comes at the first instant at
// which the local clock has reached it.
//
// An expression whose hour field has a wildcard (*, */2, @hourly) is meant as "every
// so often" and follows the time that elapses: it comes whenever the local clock shows
// a time that matches, so in both passes of a repeated hour, and not in a gap.
//
// The first rule is that of ISC cron and its descendants (cron(8), "Daylight Saving
// Time and other time changes"), stated for the hour field alone and without their
// limit of three hours, so that it also holds where a whole day was skipped.
package calendar
