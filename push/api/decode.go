package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// bodyDepth is how deep a body may be nested: a few levels more than data, which is inside it.
const bodyDepth = clientjson.DefaultDepth + 4

// decode decodes a body into a request. Unlike encoding/json it matches names of members exactly, and refuses text that it would have to change:
// bytes that are not UTF-8, and halves of surrogate pairs. Changing these would make two channels or two idempotency keys equal
// (golang/go#16282).
func decode(body []byte, request any) error {
	if len(body) == 0 {
		return nil
	}
	if i := invalidUTF8(body); i >= 0 {
		return &malformed{cause: fmt.Errorf("the text is not UTF-8 at byte %d", i)}
	}
	refused := new(clientjson.SyntaxError)
	if _, err := (clientjson.Limits{Depth: bodyDepth}).CompactData(body); errors.As(err, &refused) && refused.IsJSON {
		return &malformed{cause: refused}
	}
	return decodeValue("", body, reflect.ValueOf(request).Elem())
}

// invalidUTF8 returns the index of the first byte that is not UTF-8, −1 if there is none.
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

// decodeValue decodes JSON into v, the member called name.
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

// decodeMembers decodes the members of an object into the fields of v.
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

// absent is a member of Centrifugo's API that changes the meaning of a request and is not available here. A request with one is refused, because
// its caller relies on it.
type absent struct{ there bool }

// UnmarshalJSON implements json.Unmarshaler. A value that asks for nothing, such as false, counts as no member.
func (a *absent) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "null", "false", `""`, "0", "[]", "{}":
	default:
		a.there = true
	}
	return nil
}

// refuseAbsent returns an error if a request has a member that is not available.
func refuseAbsent(members map[string]absent) error {
	for name, a := range members {
		if a.there {
			return push.ErrBadRequest.WithMessage("%s is not supported: leave it out", name)
		}
	}
	return nil
}
