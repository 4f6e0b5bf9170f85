//go:build !race

package main_test

// raceDetector says whether these tests are built with the race detector.
const raceDetector = false
