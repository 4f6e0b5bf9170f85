//go:build !linux

package session_test

// openFiles cannot be told here.
func openFiles() int { return 0 }
