package protobuf

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
)

// SyntaxError is the error of bytes that the protocol does not allow. A server has to end the connection with [push.DisconnectBadRequest] after
// such bytes, because there is no command that it could answer.
type SyntaxError struct {
	Offset int    // index of the first wrong byte in the frame or the message
	Reason string // for people
}

// Error returns the reason and the place.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// valueError describes a value that a message cannot have, although it is well formed.
type valueError struct {
	where, field string // the request and its field
	want         string // for people, after "expected"; or if that is empty
	refused      string // what is wrong with the value
	offset       int
}

// String names the field and says what is wanted.
func (e *valueError) String() string {
	name := e.field
	if e.where != "" {
		name = e.where + "." + name
	}
	if e.want == "" {
		return name + ": " + e.refused
	}
	return name + ": expected " + e.want
}

// refusal returns the answer to the command with the value.
func (e *valueError) refusal() *push.Error {
	return push.ErrBadRequest.WithMessage("%s at byte %d", e, e.offset)
}

// fatal returns the error for a message that is no command to answer.
func (e *valueError) fatal() *SyntaxError { return &SyntaxError{Offset: e.offset, Reason: e.String()} }
