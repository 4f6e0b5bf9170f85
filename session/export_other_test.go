//go:build !linux

package session

// OnLoop reports false: there are no loops.
func OnLoop(*Session) bool { return false }
