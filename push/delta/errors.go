package delta

import (
	"errors"
	"fmt"
)

var (
	// ErrTooLarge says that the value would be larger than the caller's limit. Nothing was allocated for it.
	ErrTooLarge = errors.New("the value is larger than the limit")

	// ErrOtherBase says that a delta is well formed, but was not made from the value it was to be applied to, or was damaged on its
	// way. The remedy is the same: get the value in full.
	ErrOtherBase = errors.New("the delta was made from another value")
)

// FormatError says that bytes are not of the format they should be, and where.
type FormatError struct {
	Offset int    // of the byte at which it shows
	Reason string // for people
}

// Error returns the reason and the place.
func (e *FormatError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }
