package protobuf

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// decoder reads one message, field by field. It stops at the first syntax error, which stays in err. After that it is at the end of the message,
// every reading method returns zero, and loops over fields end. So callers check err once, at the end.
//
// A well-formed value that the field cannot have is no syntax error: it is noted in ill, where the first one counts, and reading goes on. So the
// ID of a command is found even if it follows such a value.
type decoder struct {
	data []byte
	pos  int
	end  int    // of the current message, which may be inside of others
	tag  uint64 // of the current field
	err  *SyntaxError

	where string // the present request or result, for instance subscribe; begins the message of ill
	ill   *valueError

	effect effect // of the publication of a push, which may come in several parts
}

func newDecoder(message []byte) decoder { return decoder{data: message, end: len(message)} }

// fail records a syntax error at byte at, and ends the reading.
func (d *decoder) fail(at int, reason string) {
	if d.err == nil {
		d.err = &SyntaxError{Offset: at, Reason: reason}
	}
	d.pos = len(d.data)
}

// refuse records that the value at byte at is not one that field can have.
func (d *decoder) refuse(field, want string, at int) {
	if d.ill == nil && d.err == nil {
		d.ill = &valueError{where: d.where, field: field, want: want, offset: at}
	}
}

// finish returns the error of the message: wrapped, and with what was decoded.
func (d *decoder) finish(what string) error {
	switch {
	case d.err != nil:
		return fmt.Errorf("protobuf: decode %s: %w", what, d.err)
	case d.ill != nil:
		return fmt.Errorf("protobuf: decode %s: %w", what, d.ill.fatal())
	default:
		return nil
	}
}

// next moves to the next field of the current message, and returns false at its end. Loops read
//
//	for d.next() { switch d.tag { … default: d.skip() } }
//
// and must consume the value of the field in each iteration.
func (d *decoder) next() bool {
	if d.pos >= d.end {
		return false
	}
	at := d.pos
	d.tag = d.varint()
	switch number, kind := d.tag>>3, d.tag&typeBits; {
	case d.err != nil:
		return false
	case number == 0 || number > 1<<29-1:
		d.fail(at, "a field has the number "+strconv.FormatUint(number, 10))
		return false
	case kind == startGroup || kind == endGroup:
		d.fail(at, "a group, which the protocol does not have")
		return false
	case kind > fixed32:
		d.fail(at, "a field has a value of an unknown type")
		return false
	}
	return true
}

// enter begins the message that is the value of the current field. The caller reads its fields, and then passes the result to leave.
func (d *decoder) enter() (outer int) {
	outer = d.end
	size := d.size()
	if d.err == nil {
		d.end = d.pos + size
	}
	return outer
}

func (d *decoder) leave(outer int) { d.end = outer }

// varint reads an integer.
func (d *decoder) varint() uint64 {
	if d.pos >= d.end {
		d.fail(d.pos, "the message ends inside of a field")
		return 0
	}
	if b := d.data[d.pos]; b < 0x80 {
		d.pos++
		return uint64(b)
	}
	value, n := uvarint(d.data[d.pos:d.end])
	switch {
	case n == 0:
		d.fail(d.end, "the message ends inside of an integer")
	case n < 0:
		d.fail(d.pos, "an integer does not fit into 64 bits")
	default:
		d.pos += n
	}
	return value
}

// size reads the length of a value that follows. It fails if the message does not have that many bytes.
func (d *decoder) size() int {
	at := d.pos
	size := d.varint()
	if d.err == nil && size > uint64(d.end-d.pos) {
		d.fail(at, "the length of a value is beyond the end of the message")
	}
	if d.err != nil {
		return 0
	}
	return int(size)
}

// skip skips the value of the current field.
func (d *decoder) skip() {
	n := 0
	switch d.tag & typeBits {
	case varint:
		d.varint()
	case length:
		n = d.size()
	case fixed64:
		n = 8
	case fixed32:
		n = 4
	}
	switch {
	case d.err != nil:
	case n > d.end-d.pos:
		d.fail(d.pos, "the message ends inside of a field")
	default:
		d.pos += n
	}
}

// bytes reads bytes, nil if there are none. They share the memory of the message.
func (d *decoder) bytes() []byte {
	n := d.size()
	if n == 0 {
		return nil
	}
	start := d.pos
	d.pos += n
	return d.data[start:d.pos:d.pos]
}

// json reads bytes that have to be one JSON value, nil if there are none.
func (d *decoder) json(field string) []byte {
	value := d.bytes()
	if value == nil {
		return nil
	}
	at := d.pos - len(value)
	compact, err := json.CompactData(value)
	if err != nil {
		if where := new(json.SyntaxError); errors.As(err, &where) {
			d.refuse(field, "one JSON value: "+where.Reason, at+where.Offset)
		}
		return nil
	}
	return compact
}

// str reads a string, which has to be UTF-8.
func (d *decoder) str(field string) string {
	value := d.bytes()
	if !utf8.Valid(value) {
		d.refuse(field, "UTF-8", d.pos-len(value))
		return ""
	}
	return string(value)
}

// boolean reads a bool. Every integer but 0 is true, as in generated code.
func (d *decoder) boolean() bool { return d.varint() != 0 }

// unsigned reads an integer from 0 to most.
func (d *decoder) unsigned(field string, most uint64) uint64 {
	at := d.pos
	value := d.varint()
	if value > most {
		d.refuse(field, "an integer between 0 and "+strconv.FormatUint(most, 10), at)
		return 0
	}
	return value
}

// uint32 reads an integer of 32 bits.
func (d *decoder) uint32(field string) uint32 { return uint32(d.unsigned(field, math.MaxUint32)) }

// natural reads an integer of 32 bits with a sign, which must not be negative.
func (d *decoder) natural(field string) uint32 { return uint32(d.unsigned(field, math.MaxInt32)) }

// offset reads an integer that every client can hold exactly.
func (d *decoder) offset(field string) uint64 { return d.unsigned(field, push.MaxOffset) }

// int32 reads an integer of 32 bits with a sign.
func (d *decoder) int32(field string) int32 {
	at := d.pos
	value := int64(d.varint())
	if int64(int32(value)) != value {
		d.refuse(field, "an integer of 32 bits", at)
		return 0
	}
	return int32(value)
}

// stringEntry adds an entry to a map of strings. Key and value are empty if the entry does not have them.
func (d *decoder) stringEntry(field string, m map[string]string) map[string]string {
	var key, value string
	outer := d.enter()
	for d.next() {
		switch d.tag {
		case entryKey:
			key = d.str(field)
		case entryValue:
			value = d.str(field)
		default:
			d.skip()
		}
	}
	d.leave(outer)
	if m == nil {
		m = make(map[string]string)
	}
	m[key] = value
	return m
}
