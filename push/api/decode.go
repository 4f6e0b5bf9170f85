package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// bodyDepth is how deep a body may be nested: around data there are a few levels more.
const bodyDepth = protocol.DefaultDepth + 4

// decode reads a body into a request. Unlike package json it knows names of members only as they are written, and refuses text that it would
// change: bytes that are not UTF-8, and halves of surrogate pairs, which make two channels or two idempotency keys one (golang/go#16282).
func decode(body []byte, request any) error {
	if len(body) == 0 {
		return nil
	}
	if i := invalidUTF8(body); i >= 0 {
		return &malformed{cause: fmt.Errorf("the text is not UTF-8 at byte %d", i)}
	}
	refused := new(protocol.SyntaxError)
	if _, err := (protocol.Limits{Depth: bodyDepth}).CompactData(body); errors.As(err, &refused) && refused.IsJSON {
		return &malformed{cause: refused}
	}
	return decodeValue("", body, reflect.ValueOf(request).Elem())
}

// invalidUTF8 returns where text stops to be UTF-8, −1 if it does not.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// decodeValue reads JSON into v, the member called name.
func decodeValue(name string, text []byte, v reflect.Value) error {
	_, readsItself := v.Addr().Interface().(json.Unmarshaler)
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		if string(text) == "null" {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(name, text, v.Elem())
	case v.Kind() != reflect.Struct || readsItself:
		if err := json.Unmarshal(text, v.Addr().Interface()); err != nil {
			return &malformed{member: name, cause: err}
		}
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		if ill := new(json.UnmarshalTypeError); errors.As(err, &ill) {
			ill.Type = v.Type()
		}
		return &malformed{member: name, cause: err}
	}
	return decodeMembers(name, members, v)
}

// decodeMembers reads the members of an object into the fields of v.
func decodeMembers(name string, members map[string]json.RawMessage, v reflect.Value) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if err := decodeMembers(name, members, v.Field(i)); err != nil {
				return err
			}
			continue
		}
		member := f.Tag.Get("json")
		text, ok := members[member]
		if !ok {
			continue
		}
		if err := decodeValue(strings.TrimPrefix(name+"."+member, "."), text, v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

// absent is a member of the published API that changes what a request means and that is not available here: a request with one is refused, for
// its caller relies on it.
type absent struct{ there bool }

// UnmarshalJSON implements json.Unmarshaler. Values that ask for nothing are as good as none.
func (a *absent) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "null", "false", `""`, "0", "[]", "{}":
	default:
		a.there = true
	}
	return nil
}

// refuseAbsent refuses a request in which a member is there that is not available.
func refuseAbsent(members map[string]absent) error {
	for name, a := range members {
		if a.there {
			return push.ErrBadRequest.WithMessage("%s is not available here", name)
		}
	}
	return nil
}
