//go:build race

package xlsx

const raceDetector = true
