//go:build race

package main_test

// raceDetector reports whether these tests are built with the race detector.
const raceDetector = true
