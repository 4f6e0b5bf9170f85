package json

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
)

// SyntaxError is the error of a text that the protocol does not allow. A server has to end the connection with [push.DisconnectBadRequest] after
// such a line, because there is no command that it could answer.
type SyntaxError struct {
	Offset int    // index of the first wrong byte in the line, or in the data
	Reason string // for people
	IsJSON bool   // the text is JSON, but nested too deep, with half of a surrogate pair, or of the wrong type
}

// Error returns the reason and the place.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// String names the wrong value and says what is wanted.
func (e *typeError) String() string {
	name := e.field
	if e.where != "" && name != "" {
		name = e.where + "." + name
	} else {
		name += e.where
	}
	switch {
	case e.refused != "" && name != "":
		return name + ": " + e.refused
	case e.refused != "":
		return e.refused
	}
	return fmt.Sprintf("%s: expected %s", name, e.want)
}

// refusal returns the answer to the command with the value.
func (e *typeError) refusal() *push.Error {
	return push.ErrBadRequest.WithMessage("%s at byte %d", e, e.offset)
}

// fatal returns the error for a text that is no command to answer.
func (e *typeError) fatal() *SyntaxError {
	return &SyntaxError{Offset: e.offset, Reason: e.String(), IsJSON: true}
}
