package frame

import "encoding/binary"

// Types of values in the binary protocol. Type 7 has never been given to anything, 9 and 1 are on no wire.
const (
	typeStop   = 0
	typeBool   = 2
	typeByte   = 3
	typeDouble = 4
	typeI16    = 6
	typeI32    = 8
	typeI64    = 10
	typeString = 11
	typeStruct = 12
	typeMap    = 13
	typeSet    = 14
	typeList   = 15
	typeUUID   = 16
)

// compactTypes are the types of the compact protocol, as those of the binary protocol. Its numbers 1 and 2 are both booleans: true and false.
var compactTypes = [16]byte{
	1: typeBool, 2: typeBool, 3: typeByte, 4: typeI16, 5: typeI32, 6: typeI64, 7: typeDouble, 8: typeString,
	9: typeList, 10: typeSet, 11: typeMap, 12: typeStruct, 13: typeUUID,
}

// walker finds the end of a struct in a stream of bytes. A message of the unframed framing has no other length. It goes on where it stopped when
// more bytes arrive, and needs memory only for the levels that are open.
type walker struct {
	compact bool
	most    int // where the end has to be, at the latest
	depth   int // how many levels may be open
	at      int // the index of the next byte to be read; beyond the bytes that have arrived if a value is still on its way
	levels  []level
}

// level is an open struct or container.
type level struct {
	key, value byte // the types of what is in it; both are the same but for maps. A struct has typeStop.
	left       int64
}

// start prepares to walk over a struct that begins at an index.
func (w *walker) start(at int, compact bool) {
	w.at, w.compact = at, compact
	w.levels = append(w.levels[:0], level{})
}

// walk goes on with the bytes that have arrived, from the start of the frame. It returns 0 when the struct is complete, and ends at w.at.
// Otherwise it returns the least number of bytes that are missing.
func (w *walker) walk(in []byte) (missing int, err error) {
	for len(w.levels) > 0 {
		if w.at > w.most {
			return 0, refuse(w.most, ErrTooLarge, "the frame has at least %d bytes, at most %d are allowed", w.at, w.most)
		}
		if w.at >= len(in) {
			return w.at - len(in) + 1, nil
		}
		if missing, err = w.step(in); missing > 0 || err != nil {
			return missing, err
		}
	}
	if w.at > w.most {
		return 0, refuse(w.most, ErrTooLarge, "the frame has at least %d bytes, at most %d are allowed", w.at, w.most)
	}
	return 0, nil
}

// step reads the head of a field with its value, or passes over the next value of a container. If bytes are missing, it has done nothing.
func (w *walker) step(in []byte) (missing int, err error) {
	top := len(w.levels) - 1
	open := w.levels[top]
	if open.key == typeStop {
		return w.field(in)
	}
	if open.left == 0 {
		w.levels = w.levels[:top]
		return 0, nil
	}
	kind := open.key
	if open.left&1 != 0 { // a map has an even number of values, so that the key comes first
		kind = open.value
	}
	w.levels[top].left--
	if missing, err = w.value(in, w.at, kind); missing > 0 {
		w.levels[top].left++
	}
	return missing, err
}

// field passes over a field of a struct, or over the end of the struct. At least one byte has arrived.
func (w *walker) field(in []byte) (missing int, err error) {
	at, kind := w.at, in[w.at]
	if w.compact {
		kind &= 0x0F
	}
	if kind == typeStop {
		w.at++
		w.levels = w.levels[:len(w.levels)-1]
		return 0, nil
	}
	at++
	switch {
	case !w.compact:
		at += 2 // the id
	case in[w.at]>>4 == 0: // the id is not relative to the one before
		n, missing, err := w.varint(in, at)
		if missing > 0 || err != nil {
			return missing, err
		}
		at += n
	}
	if w.compact {
		if kind = compactTypes[kind]; kind == typeBool { // the type is the value
			w.at = at
			return 0, nil
		}
	}
	if !known(kind) {
		return 0, refuse(w.at, ErrMalformed, "a field of the unknown type %#x", in[w.at])
	}
	if at > len(in) {
		return at - len(in), nil
	}
	return w.value(in, at, kind)
}

// value passes over a value of a known type that begins at an index, or opens a level for what is in it. The index is at most len(in). If bytes
// are missing, it has done nothing.
func (w *walker) value(in []byte, at int, kind byte) (missing int, err error) {
	if size := w.fixed(kind); size > 0 {
		return 0, w.pass(at, uint64(size))
	}
	switch kind {
	case typeString:
		size, n, err := w.count(in, at)
		if n == 0 || err != nil {
			return w.lacking(in, at), err
		}
		return 0, w.pass(at, uint64(n)+uint64(size))
	case typeStruct:
		return 0, w.open(at, level{})
	case typeMap:
		return w.openMap(in, at)
	case typeList, typeSet:
		return w.openList(in, at)
	}
	n, missing, err := w.varint(in, at) // an integer of the compact protocol
	if missing > 0 || err != nil {
		return missing, err
	}
	return 0, w.pass(at, uint64(n))
}

// openMap reads the head of a map: in the binary protocol the types and the number of pairs, in the compact protocol the number, and the types
// unless it is zero.
func (w *walker) openMap(in []byte, at int) (missing int, err error) {
	var key, value byte
	types := at
	if !w.compact {
		at += 2
		if at > len(in) {
			return at - len(in), nil
		}
	}
	size, n, err := w.count(in, at)
	if n == 0 || err != nil {
		return w.lacking(in, at), err
	}
	at += n
	switch {
	case size == 0:
		return 0, w.pass(at, 0)
	case w.compact:
		if types = at; at >= len(in) {
			return 1, nil
		}
		key, value = compactTypes[in[at]>>4], compactTypes[in[at]&0x0F]
		at++
	default:
		key, value = in[types], in[types+1]
	}
	if !known(key) || !known(value) {
		return 0, refuse(types, ErrMalformed, "a map of unknown types")
	}
	return 0, w.open(at, level{key: key, value: value, left: 2 * int64(size)})
}

// openList reads the head of a list or a set: the type and the number of values. In the compact protocol both are in one byte if the number is
// below 15.
func (w *walker) openList(in []byte, at int) (missing int, err error) {
	types := at
	if at >= len(in) {
		return 1, nil
	}
	at++
	kind, size := in[types], uint32(0)
	if w.compact {
		kind, size = compactTypes[in[types]&0x0F], uint32(in[types]>>4)
	}
	if !w.compact || size == 15 {
		var n int
		if size, n, err = w.count(in, at); n == 0 || err != nil {
			return w.lacking(in, at), err
		}
		at += n
	}
	switch {
	case size == 0:
		return 0, w.pass(at, 0)
	case !known(kind):
		return 0, refuse(types, ErrMalformed, "a list of the unknown type %#x", in[types])
	}
	return 0, w.open(at, level{key: kind, value: kind, left: int64(size)})
}

// open opens a level that begins at an index. If all its values have the same size, it passes over them instead.
func (w *walker) open(at int, l level) error {
	if key, value := w.fixed(l.key), w.fixed(l.value); key > 0 && value > 0 {
		return w.pass(at, uint64(l.left/2)*uint64(key+value)+uint64(l.left&1)*uint64(key))
	}
	if len(w.levels) >= w.depth {
		return refuse(at, ErrTooLarge, "values are nested in more than the %d levels that are allowed", w.depth)
	}
	w.levels = append(w.levels, l)
	w.at = at
	return nil
}

// pass moves on to the byte that follows size bytes after an index.
func (w *walker) pass(at int, size uint64) error {
	if uint64(at)+size > uint64(w.most) {
		return refuse(at, ErrTooLarge, "%d bytes follow, at most %d are allowed in a frame", size, w.most)
	}
	w.at = at + int(size)
	return nil
}

// fixed returns the size in bytes of values of a type, or 0 if it is not always the same.
func (w *walker) fixed(kind byte) int {
	switch kind {
	case typeBool, typeByte:
		return 1
	case typeDouble:
		return 8
	case typeUUID:
		return 16
	}
	if w.compact {
		return 0
	}
	switch kind {
	case typeI16:
		return 2
	case typeI32:
		return 4
	case typeI64:
		return 8
	}
	return 0
}

// count reads the length of a string or the number of values, which begins at an index. The size of the field is 0 if it has not arrived.
func (w *walker) count(in []byte, at int) (count uint32, size int, err error) {
	if !w.compact {
		if len(in)-at < 4 {
			return 0, 0, nil
		}
		return binary.BigEndian.Uint32(in[at:]), 4, nil
	}
	if count, size, err = varint(in[at:]); err != nil {
		return 0, 0, refuse(at, ErrMalformed, "a length is a varint of more than 32 bits")
	}
	return count, size, nil
}

// lacking returns how many bytes are missing, at least, for a count that begins at an index and has not arrived.
func (w *walker) lacking(in []byte, at int) int {
	if w.compact {
		return 1
	}
	return max(at+4-len(in), 0)
}

// varint returns the size of an integer of the compact protocol that begins at an index.
func (w *walker) varint(in []byte, at int) (n, missing int, err error) {
	for i, b := range in[at:] {
		if b < 0x80 {
			return i + 1, 0, nil
		}
		if i+1 == binary.MaxVarintLen64 {
			return 0, 0, refuse(at, ErrMalformed, "an integer is a varint of more than %d bytes", binary.MaxVarintLen64)
		}
	}
	return 0, 1, nil
}

// known reports whether values of a type exist.
func known(kind byte) bool {
	switch kind {
	case typeBool, typeByte, typeDouble, typeI16, typeI32, typeI64, typeString, typeStruct, typeMap, typeSet, typeList, typeUUID:
		return true
	}
	return false
}
