package delta

import (
	"errors"
	"fmt"
)

var (
	// ErrTooLarge says that the value would exceed the caller's limit. No memory was allocated for it.
	ErrTooLarge = errors.New("the value is larger than the limit")

	// ErrOtherBase says that a delta is well formed, but was made from another value than the one it was applied to, or was damaged on its way.
	// The remedy is the same: request the full value.
	ErrOtherBase = errors.New("the delta was made from another value")
)

// FormatError says that bytes do not have the required format, and where.
type FormatError struct {
	Offset int    // of the byte at which the error was found
	Reason string // a description for people
}

// Error returns the reason and the offset.
func (e *FormatError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }
