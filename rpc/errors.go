package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sluice-push/sluice/rpc/frame"
)

// Code says what kind of error ended a call. It travels in the answer, as the code of Thrift's TApplicationException. Applications may use any number
// that is not among the constants; peers of other libraries have numbers of their own.
type Code int32

// The codes. Those up to 10 are Thrift's ([frame.UnknownMethod] and others).
const (
	Unknown       Code = 0 // any error that a handler returned, if it is not an *[Error]
	UnknownMethod Code = 1 // the server has no such method, or not in the form of the call, or with a stream that the call does not ask for
	BadSequence   Code = 4 // the sequence id is that of another call under way
	Internal      Code = 6 // the handler panicked, or its answer could not be encoded
	BadMessage    Code = 7 // the body of the call, or of the answer, could not be decoded

	// Overloaded and Unavailable are refusals: the handler has not begun, so the same call may be made again, at another server.

	Overloaded  Code = 2001 // too many calls are under way
	Unavailable Code = 2002 // the connection could not take the call, or is about to close
	// Lost says that the connection ended after the call had been sent. The handler may have run or not.
	Lost Code = 2003
	// DeadlineExceeded and Canceled are those of package context, which errors.Is recognizes.
	DeadlineExceeded Code = 2004
	Canceled         Code = 2005
	// TooLarge says that a message is larger than the options of either side allow.
	TooLarge Code = 2006
)

// Error is an error of a call. Handlers return one to choose the code. If the error of a handler wraps an *Error, its code is sent with the whole text; any
// other error is sent with [Unknown] and its text.
type Error struct {
	Code    Code
	Message string // a text for people, of which 64 KiB travel at most
	// Remote is set if the error was in an answer. Otherwise it was made where the call was made.
	Remote bool

	refused bool // the server has said that the handler has not begun, or a handler says so: see Call.Refuse
	cause   error
}

// Errorf returns an error for a handler to return. A %w in the format is the error's cause, which does not travel.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Error returns the text and the code.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("rpc: code %d", e.Code)
	}
	return fmt.Sprintf("rpc: %s (code %d)", e.Message, e.Code)
}

// Unwrap returns the cause, if the error has one on this side of the connection.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error with the same code and no text, or the error of package context that means the same.
func (e *Error) Is(target error) bool {
	switch e.Code {
	case DeadlineExceeded:
		if target == context.DeadlineExceeded { //nolint:errorlint // Is compares with one error
			return true
		}
	case Canceled:
		if target == context.Canceled { //nolint:errorlint // the same
			return true
		}
	default:
	}
	t, ok := target.(*Error) //nolint:errorlint // the same
	return ok && t.Code == e.Code && t.Message == ""
}

// Refused reports whether a call failed before its handler began. Then it may be made again, even if it must not be carried out twice. Servers of this
// package say so with their answer. A code that a handler has chosen, or that it got from a call of its own, does not.
func Refused(err error) bool {
	var e *Error
	for errors.As(err, &e) && (e.Code == Overloaded || e.Code == Unavailable) {
		if !e.Remote || e.refused {
			return true
		}
		err = e.cause // of an error that package client has made of several
	}
	return false
}

// CodeOf returns the code of an error. It is [Unknown] if err is neither an *[Error] nor an error of package context, and also if err is nil.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Unknown
}

// maxErrorText is how many bytes of the text of an error are sent.
const maxErrorText = 64 << 10

// shortened returns at most about that many bytes of a text.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// exceptionOf returns an error in the form in which it travels. It calls methods of the error, which may panic.
func exceptionOf(err error) frame.ApplicationException {
	var e *Error
	if errors.As(err, &e) {
		text := e.Message
		if _, isOuter := err.(*Error); !isOuter { //nolint:errorlint // e itself is meant
			// The whole text is sent, in which that of e needs no code.
			text = strings.Replace(err.Error(), e.Error(), e.Message, 1)
		}
		return frame.ApplicationException{Code: int32(e.Code), Message: text}
	}
	var x *frame.ApplicationException
	if errors.As(err, &x) {
		return *x
	}
	return frame.ApplicationException{Code: int32(CodeOf(err)), Message: err.Error()}
}
