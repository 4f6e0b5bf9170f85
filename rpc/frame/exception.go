package frame

import (
	"encoding/binary"
	"fmt"
)

// Codes of an [ApplicationException] that Thrift defines. Other numbers are the application's; Kitex uses those from 100.
const (
	UnknownException   int32 = 0
	UnknownMethod      int32 = 1
	InvalidMessageType int32 = 2
	WrongMethodName    int32 = 3
	BadSequenceID      int32 = 4
	MissingResult      int32 = 5
	InternalError      int32 = 6
	ProtocolError      int32 = 7
	InvalidTransform   int32 = 8
	InvalidProtocol    int32 = 9
	UnsupportedClient  int32 = 10
)

// ApplicationException is the body of a frame of the kind [Exception]: TApplicationException of Thrift, and the error message of Kitex in Protobuf.
type ApplicationException struct {
	Code    int32  // what failed: UnknownMethod, for instance
	Message string // a text for people
}

// Error returns the message and the code.
func (e *ApplicationException) Error() string {
	return fmt.Sprintf("%s (application exception %d)", e.Message, e.Code)
}

// AppendBody appends the exception as the body of a frame. With a protocol that is not Thrift's it is a Protobuf message with the code as field 1
// and the message as field 2.
func (e *ApplicationException) AppendBody(dst []byte, p Protocol) []byte {
	switch p {
	case Binary, ThriftStruct:
		dst = append(dst, typeString, 0, 1)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Message)))
		dst = append(dst, e.Message...)
		dst = append(dst, typeI32, 0, 2)
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Code))
		return append(dst, typeStop)
	case Compact:
		dst = append(dst, 0x18) // the next field, a string
		dst = binary.AppendUvarint(dst, uint64(len(e.Message)))
		dst = append(dst, e.Message...)
		dst = append(dst, 0x15) // the next field, an integer
		dst = binary.AppendUvarint(dst, uint64(uint32(e.Code)<<1^uint32(e.Code>>31)))
		return append(dst, typeStop)
	}
	if e.Code != 0 {
		dst = append(dst, 0x08) // field 1, a varint
		dst = binary.AppendUvarint(dst, uint64(int64(e.Code)))
	}
	if e.Message != "" {
		dst = append(dst, 0x12) // field 2, bytes
		dst = binary.AppendUvarint(dst, uint64(len(e.Message)))
		dst = append(dst, e.Message...)
	}
	return dst
}

// ParseException reads the body of a frame of the kind [Exception]. Fields that it does not know are skipped, fields that are missing are zero.
// The error is an *[Error] whose offset counts from the start of body.
func ParseException(p Protocol, body []byte) (*ApplicationException, error) {
	switch p {
	case Binary, ThriftStruct:
		return parseThriftException(body, false)
	case Compact:
		return parseThriftException(body, true)
	}
	return parseProtobufException(body)
}

// exceptionDepth is how deep unknown fields of an exception may be nested.
const exceptionDepth = 16

// parseThriftException reads a TApplicationException: field 1 is the message, field 2 the code.
func parseThriftException(body []byte, compact bool) (*ApplicationException, error) {
	e := new(ApplicationException)
	w := walker{most: len(body), depth: exceptionDepth}
	w.start(0, compact)
	id := int16(0)
	for len(w.levels) > 0 {
		if w.at >= len(body) {
			return nil, refuse(len(body), ErrMalformed, "the exception has no end")
		}
		head, from := body[w.at], w.at
		inside := len(w.levels) > 1
		missing, err := w.step(body)
		switch {
		case err != nil:
			return nil, err
		case missing > 0 || w.at > len(body):
			return nil, refuse(len(body), ErrMalformed, "the exception has no end")
		case inside || len(w.levels) == 0:
			continue
		}
		value := body[from+1 : w.at]
		switch {
		case !compact:
			id, value = int16(binary.BigEndian.Uint16(value)), value[2:]
		case head>>4 != 0:
			id, head = id+int16(head>>4), compactTypes[head&0x0F]
		default:
			zigzag, n, _ := varint(value)
			id, head, value = int16(zigzag>>1)^-int16(zigzag&1), compactTypes[head&0x0F], value[n:]
		}
		e.set(id, head, value, compact)
	}
	if w.at != len(body) {
		return nil, refuse(w.at, ErrMalformed, "%d bytes follow the exception", len(body)-w.at)
	}
	return e, nil
}

// set takes a field of a TApplicationException.
func (e *ApplicationException) set(id int16, kind byte, value []byte, compact bool) {
	switch {
	case id == 1 && kind == typeString && compact:
		_, n, _ := varint(value)
		e.Message = string(value[n:])
	case id == 1 && kind == typeString:
		e.Message = string(value[4:])
	case id == 2 && kind == typeI32 && compact:
		zigzag, _ := binary.Uvarint(value)
		e.Code = int32(uint32(zigzag)>>1) ^ -int32(zigzag&1)
	case id == 2 && kind == typeI32:
		e.Code = int32(binary.BigEndian.Uint32(value))
	}
}

// parseProtobufException reads the error message of Kitex: field 1 is the code, field 2 the message.
func parseProtobufException(body []byte) (*ApplicationException, error) {
	e := new(ApplicationException)
	for at := 0; at < len(body); {
		from := at
		tag, n := binary.Uvarint(body[at:])
		if n <= 0 {
			return nil, refuse(from, ErrMalformed, "the tag of a field is no varint")
		}
		at += n
		value, size, wireType := uint64(0), uint64(0), tag&7
		switch wireType {
		case 1:
			size = 8
		case 5:
			size = 4
		case 0, 2:
			if value, n = binary.Uvarint(body[at:]); n <= 0 {
				return nil, refuse(at, ErrMalformed, "field %d is no varint", tag>>3)
			}
			at += n
			if wireType == 2 {
				size = value
			}
		default:
			return nil, refuse(from, ErrMalformed, "wire type %d", wireType)
		}
		if size > uint64(len(body)-at) {
			return nil, refuse(at, ErrMalformed, "field %d has %d bytes, only %d are left", tag>>3, size, len(body)-at)
		}
		switch tag {
		case 1 << 3:
			e.Code = int32(uint32(value))
		case 2<<3 | 2:
			e.Message = string(body[at : at+int(size)])
		}
		at += int(size)
	}
	return e, nil
}
