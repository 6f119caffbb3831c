//go:build !race

package xlsx

// raceDetector takes a part of the memory and most of the time.
const raceDetector = false
