package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// malformed is the error of a body that the method does not accept. It names the member as the caller wrote it, and says what is wanted there.
type malformed struct {
	member string // empty for the body itself
	cause  error
}

// Unwrap returns the cause.
func (m *malformed) Unwrap() error { return m.cause }

// Error says what is wrong, and where.
func (m *malformed) Error() string {
	var ill *json.UnmarshalTypeError
	var broken *json.SyntaxError
	switch {
	case errors.As(m.cause, &ill) && m.member == "":
		return fmt.Sprintf("expected %s, not %s", wanted(ill.Type), ill.Value)
	case errors.As(m.cause, &ill):
		return fmt.Sprintf("%s: expected %s, not %s", m.member, wanted(ill.Type), ill.Value)
	case errors.As(m.cause, &broken):
		return fmt.Sprintf("%v at byte %d", broken, broken.Offset)
	case m.member != "":
		return fmt.Sprintf("%s: %v", m.member, m.cause)
	default:
		return m.cause.Error()
	}
}

// wanted describes the JSON values that a Go type takes.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Uint16:
		return "a whole number from 0 to 65535"
	case reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Int:
		return "a whole number"
	default: // structs and maps
		return "an object"
	}
}
