package protobuf

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push"
)

// The encoders append a message field by field, without the fields that are zero, as generated code does. A message inside of another has its
// length before it, which is known only at its end. [open] makes room for the length that the caller expects. If the length takes another number
// of bytes, [mark.close] moves the message. Only messages with data are long enough for that to matter, and there the caller knows the size.

// mark is the place of a message whose length is still to be written.
type mark struct {
	start int // of the message
	width int // bytes for the length before it
}

// begin makes room for the length of a message of about size bytes.
func begin(dst []byte, size int) ([]byte, mark) {
	width := uvarintLen(uint64(size))
	for range width {
		dst = append(dst, 0)
	}
	return dst, mark{len(dst), width}
}

// open begins a message that is the value of a field.
func open(dst []byte, tag uint64, size int) ([]byte, mark) {
	return begin(binary.AppendUvarint(dst, tag), size)
}

// close writes the length of the message that ends at the end of dst.
func (m mark) close(dst []byte) []byte {
	size := len(dst) - m.start
	if width := uvarintLen(uint64(size)); width != m.width {
		shift := width - m.width
		dst = slices.Grow(dst, max(shift, 0))[:len(dst)+shift]
		copy(dst[m.start+shift:], dst[m.start:m.start+size])
	}
	binary.PutUvarint(dst[m.start-m.width:], uint64(size))
	return dst
}

func appendUint(dst []byte, tag, value uint64) []byte {
	if value == 0 {
		return dst
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, tag), value)
}

// appendInt appends an integer with a sign, which takes 10 bytes if it is negative.
func appendInt(dst []byte, tag uint64, value int32) []byte {
	return appendUint(dst, tag, uint64(int64(value)))
}

func appendBool(dst []byte, tag uint64, value bool) []byte {
	if !value {
		return dst
	}
	return append(binary.AppendUvarint(dst, tag), 1)
}

func appendBytes(dst []byte, tag uint64, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, tag), uint64(len(value)))
	return append(dst, value...)
}

func appendString(dst []byte, tag uint64, value string) []byte {
	if value == "" {
		return dst
	}
	return appendStringAlways(dst, tag, value)
}

// appendStringAlways appends a string even if it is empty, as in lists and maps. Invalid UTF-8 becomes U+FFFD, byte by byte as in the JSON form:
// clients would refuse the whole message.
func appendStringAlways(dst []byte, tag uint64, value string) []byte {
	if !utf8.ValidString(value) {
		value = string([]rune(value))
	}
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, tag), uint64(len(value)))
	return append(dst, value...)
}

// fewNames is the number of names that are sorted on the stack: few tags, few subscriptions.
const fewNames = 16

// appendNames appends the names in a map in order, so that equal values are equal bytes.
func appendNames[V any](names []string, m map[string]V) []string {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func appendMap(dst []byte, tag uint64, values map[string]string) []byte {
	if len(values) == 0 {
		return dst
	}
	var few [fewNames]string
	for _, name := range appendNames(few[:0], values) {
		var m mark
		dst, m = open(dst, tag, 0)
		dst = appendStringAlways(dst, entryKey, name)
		dst = appendStringAlways(dst, entryValue, values[name])
		dst = m.close(dst)
	}
	return dst
}

func appendClientInfo(dst []byte, tag uint64, c *push.ClientInfo) []byte {
	dst, m := open(dst, tag, 0)
	dst = appendString(dst, clientInfoUser, c.User)
	dst = appendString(dst, clientInfoClient, c.Client)
	dst = appendBytes(dst, clientInfoConnInfo, c.ConnInfo)
	dst = appendBytes(dst, clientInfoChanInfo, c.ChanInfo)
	return m.close(dst)
}
