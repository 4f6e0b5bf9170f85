package frame

import (
	"errors"
	"fmt"
)

// Errors of this package, to be compared with errors.Is. None of them is io.EOF.
var (
	// ErrDialect says that the first bytes of a frame belong to no dialect: the peer speaks another protocol, or the stream is out of step.
	ErrDialect = errors.New("unknown dialect")
	// ErrTooLarge says that a limit of [Options] or of the format is exceeded.
	ErrTooLarge = errors.New("too large")
	// ErrMalformed says that bytes do not have the form that the dialect gives them.
	ErrMalformed = errors.New("malformed")
	// ErrUnsupported says that the frame is well formed and uses something that this package does not have: a transform, a protocol id, or, when
	// encoding, something that the dialect cannot express.
	ErrUnsupported = errors.New("unsupported")
)

// Error says where a frame breaks a rule. errors.Is tells which of [ErrDialect], [ErrTooLarge], [ErrMalformed] and [ErrUnsupported] it is.
type Error struct {
	// Offset is the index of the first wrong byte, counted from the start of the frame; from the start of the message if Inflated is set. It is
	// -1 if no byte is wrong: in encoding, for instance.
	Offset int
	// Inflated says that Offset counts bytes of the decompressed message.
	Inflated bool
	// Reason says what is wrong and what is allowed.
	Reason string
	// Err is one of the errors of this package.
	Err error
}

// Error returns the text of the error.
func (e *Error) Error() string {
	switch {
	case e.Offset < 0:
		return fmt.Sprintf("frame: %v: %s", e.Err, e.Reason)
	case e.Inflated:
		return fmt.Sprintf("frame: %v: at byte %d of the decompressed message: %s", e.Err, e.Offset, e.Reason)
	}
	return fmt.Sprintf("frame: %v: at byte %d: %s", e.Err, e.Offset, e.Reason)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// refuse returns an error about the byte at an offset.
func refuse(offset int, err error, format string, args ...any) error {
	return &Error{Offset: offset, Err: err, Reason: fmt.Sprintf(format, args...)}
}
