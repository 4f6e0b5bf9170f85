package protocol

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
)

// SyntaxError says that a text is not what the protocol allows, and where. A connection over which such a line came is to be
// ended with [push.DisconnectBadRequest]: there is no command that could be answered.
type SyntaxError struct {
	Offset int    // of the byte in the line, or in the data, at which it shows
	Reason string // for people
	IsJSON bool   // the text is JSON, but nested too deep, with half of a surrogate pair, or of another type than is wanted
}

// Error returns the reason and the place.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// String says which value is wrong and what is wanted.
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
	return fmt.Sprintf("%s: %s is wanted", name, e.want)
}

// refusal is the answer to the command whose value it was.
func (e *typeError) refusal() *push.Error {
	return push.ErrBadRequest.WithMessage("%s at byte %d", e, e.offset)
}

// fatal is the error where there is nobody to answer.
func (e *typeError) fatal() *SyntaxError {
	return &SyntaxError{Offset: e.offset, Reason: e.String(), IsJSON: true}
}
