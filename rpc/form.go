package rpc

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-push/sluice/rpc/frame"
)

// Form turns values into the bodies of messages, and back. Its methods may be called concurrently. Packages rpc/protobuf and rpc/thrift have
// others.
type Form interface {
	// Protocol is that of the frames with such bodies.
	Protocol() frame.Protocol
	// Append appends the body for a value to dst. It must not keep dst.
	Append(dst []byte, value any) ([]byte, error)
	// Parse sets a value, which is a pointer, from a body. The body is borrowed: it must not be kept.
	Parse(body []byte, value any) error
}

// The forms of this package. Their frames are understood by this package only ([frame.Bare]).
var (
	// JSON is the form of encoding/json. An empty body leaves a value as it is.
	JSON Form = jsonForm{}
	// Raw has bodies that are bytes as they are: the values are []byte and *[]byte.
	Raw Form = rawForm{}
)

type jsonForm struct{}

func (jsonForm) Protocol() frame.Protocol { return frame.Bare }

func (jsonForm) Append(dst []byte, value any) ([]byte, error) {
	if value == nil {
		return dst, nil
	}
	text, err := json.Marshal(value)
	return append(dst, text...), err
}

func (jsonForm) Parse(body []byte, value any) error {
	if len(body) == 0 || value == nil {
		return nil
	}
	return json.Unmarshal(body, value)
}

type rawForm struct{}

func (rawForm) Protocol() frame.Protocol { return frame.Bare }

func (rawForm) Append(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return dst, nil
	case []byte:
		return append(dst, v...), nil
	case *[]byte:
		return append(dst, *v...), nil
	}
	return dst, fmt.Errorf("rpc: the form Raw takes []byte or *[]byte, not %T", value)
}

func (rawForm) Parse(body []byte, value any) error {
	switch v := value.(type) {
	case nil:
		return nil
	case *[]byte:
		*v = append((*v)[:0], body...)
		return nil
	}
	return fmt.Errorf("rpc: the form Raw gives to *[]byte, not %T", value)
}
