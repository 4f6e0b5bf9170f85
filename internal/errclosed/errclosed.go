// Package errclosed is for errors that say that a session, a server or a pool is closed: each has its own text, and is net.ErrClosed to
// errors.Is.
package errclosed

import "net"

// Error is an error with this text, for which errors.Is(err, net.ErrClosed) reports true.
type Error string

// Error returns the text.
func (e Error) Error() string { return string(e) }

// Is reports whether target is net.ErrClosed.
func (Error) Is(target error) bool { return target == net.ErrClosed } //nolint:errorlint // it is what errors.Is asks
