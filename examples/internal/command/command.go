// Package command is the protocol that command-server and command-load speak: bytes to values and back, without I/O.
//
// A frame is 4 bytes of length, most significant first, that count the whole frame, themselves included; one byte that says what
// it is; 8 bytes of id, most significant first, of the client's choice; and the rest. It has at most 64 KiB.
//
//	0x01  connect   id, name: at most 64 bytes of UTF-8, possibly none
//	0x02  submit    id, payload: any bytes, possibly none
//	0x80  answer to connect   id of the request, result
//	0x81  answer to submit    id of the request, result
//
// The result is one byte, 0 when all is well. Requests are answered in their order.
package command

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/codec"
)

// What frames are.
const (
	Connect   = 0x01
	Submit    = 0x02
	Connected = 0x80 // the answer to Connect
	Submitted = 0x81 // the answer to Submit
)

// Results.
const (
	OK           = 0
	NotConnected = 1 // a submit came before the first connect; the session goes on
	Again        = 2 // a second connect; the first one counts
	BadName      = 3 // the name of a connect is too long, or not UTF-8; the session is not connected
)

// Sizes in bytes.
const (
	MaxFrame   = 64 << 10
	MaxName    = 64
	Header     = 4 + 1 + 8  // of a request, before its name or payload
	AnswerSize = Header + 1 // of an answer
)

// The errors of Parse and ParseAnswer.
var (
	ErrShort   = errors.New("command: frame is too short")
	ErrLong    = errors.New("command: frame is too long")
	ErrUnknown = errors.New("command: unknown command")
)

// Codec cuts frames. Its messages are what follows the length.
var Codec = codec.Length{Adjust: -4, Max: MaxFrame - 4}

// Request is a connect or a submit.
type Request struct {
	Command byte
	ID      uint64
	Body    []byte // name or payload
}

// Parse reads a request from a message of Codec, into which Body points.
func Parse(msg []byte) (Request, error) {
	if len(msg) < 1 {
		return Request{}, ErrShort
	}
	if msg[0] != Connect && msg[0] != Submit {
		return Request{}, fmt.Errorf("%w %#02x", ErrUnknown, msg[0])
	}
	if len(msg) < 9 {
		return Request{}, ErrShort
	}
	return Request{Command: msg[0], ID: binary.BigEndian.Uint64(msg[1:]), Body: msg[9:]}, nil
}

// AppendRequest appends the frame of a request, whose body must leave it within MaxFrame.
func AppendRequest(dst []byte, r Request) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(Header+len(r.Body)))
	dst = append(dst, r.Command)
	dst = binary.BigEndian.AppendUint64(dst, r.ID)
	return append(dst, r.Body...)
}

// Answer is the answer to a request.
type Answer struct {
	Command byte
	ID      uint64 // of the request
	Result  byte
}

// ParseAnswer reads an answer from a message of Codec.
func ParseAnswer(msg []byte) (Answer, error) {
	if len(msg) < 1 {
		return Answer{}, ErrShort
	}
	if msg[0] != Connected && msg[0] != Submitted {
		return Answer{}, fmt.Errorf("%w %#02x", ErrUnknown, msg[0])
	}
	switch size := 4 + len(msg); {
	case size < AnswerSize:
		return Answer{}, ErrShort
	case size > AnswerSize:
		return Answer{}, ErrLong
	}
	return Answer{Command: msg[0], ID: binary.BigEndian.Uint64(msg[1:]), Result: msg[9]}, nil
}

// AppendAnswer appends the frame of an answer.
func AppendAnswer(dst []byte, a Answer) []byte {
	dst = binary.BigEndian.AppendUint32(dst, AnswerSize)
	dst = append(dst, a.Command)
	dst = binary.BigEndian.AppendUint64(dst, a.ID)
	return append(dst, a.Result)
}
