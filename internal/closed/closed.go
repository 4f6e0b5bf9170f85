// Package closed has the errors of what is closed.
package closed

import "net"

// Error says in its own words that something is closed, and is a net.ErrClosed as errors.Is tells.
type Error string

// Error returns the words.
func (e Error) Error() string { return string(e) }

// Is reports whether target is net.ErrClosed.
func (Error) Is(target error) bool { return target == net.ErrClosed } //nolint:errorlint // it is what errors.Is asks
