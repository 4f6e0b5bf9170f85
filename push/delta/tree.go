package delta

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the largest nesting depth of objects and arrays in JSON that this package reads.
const MaxDepth = 64

// tree is a parsed JSON text. Only objects that lie directly inside objects are split into nodes. All other values, including whole arrays, are
// checked and kept as text. The nodes are in the order of the text: node 0 is the whole text, and the members of an object follow it, each with
// all nodes inside it.
//
// The scanner of package protocol does not fit: it reads fields with known names, and the names here are unknown.
type tree struct {
	text  []byte
	nodes []node
	names []byte   // names that have escapes in the text, here without them
	slots []uint32 // hash table of all members by object and name; values are nodes, 0 for none
	seed  maphash.Seed
}

// node is a value and, except for node 0, the name of its member. The numbers are positions in the text.
type node struct {
	name, nameEnd   int32 // without the quotes
	plain, plainEnd int32 // in names, if the name has escapes
	value, end      int32
	parent          int32 // the object that the member belongs to
	next            int32 // the node after the last one inside this one
	kind            byte  // first byte of the value
	escaped         bool
	seen            bool // the other text has the member too
}

// keepNodes is the number of nodes that are kept from one text to the next, 2 MiB with the table.
const keepNodes = 1 << 15

// parse reads a text, which the tree refers to until release. The error is a *FormatError.
func (t *tree) parse(text []byte) error {
	t.text = text
	p := parser{text: text, t: t}
	if uint64(len(text)) > math.MaxInt32 {
		p.fail(0, "a text of 2 GiB or more")
	} else {
		p.member(node{}, 0)
		if p.peek(); p.pos < len(text) {
			p.unexpected("the end")
		}
	}
	if p.err == nil {
		p.err = t.index()
	}
	if p.err != nil {
		return p.err
	}
	return nil
}

// release drops the text, and keeps the memory for the next text unless it is large.
func (t *tree) release() {
	t.text = nil
	t.nodes, t.names = t.nodes[:0], t.names[:0]
	if cap(t.nodes) > keepNodes {
		t.nodes, t.slots = nil, nil
	}
	if cap(t.names) > keepNodes {
		t.names = nil
	}
}

// index fills the hash table. It fails if an object has two members with one name.
func (t *tree) index() *FormatError {
	if t.seed == (maphash.Seed{}) {
		t.seed = maphash.MakeSeed() // so that an attacker cannot choose names that collide
	}
	t.slots = sized(t.slots, 1<<bits.Len(uint(2*len(t.nodes))))
	clear(t.slots)
	for i := 1; i < len(t.nodes); i++ {
		m := &t.nodes[i]
		slot := t.slot(m.parent, t.name(m))
		if t.slots[slot] != 0 {
			return &FormatError{Offset: int(m.name) - 1, Reason: fmt.Sprintf("the object has a second member %q", t.name(m))}
		}
		t.slots[slot] = uint32(i)
	}
	return nil
}

// slot returns the place in the table of a member, or the free place for it.
func (t *tree) slot(parent int32, name []byte) uint64 {
	mask := uint64(len(t.slots) - 1)
	slot := (maphash.Bytes(t.seed, name) + uint64(parent)*0x9e3779b97f4a7c15) & mask
	for ; t.slots[slot] != 0; slot = (slot + 1) & mask {
		if m := &t.nodes[t.slots[slot]]; m.parent == parent && bytes.Equal(t.name(m), name) {
			break
		}
	}
	return slot
}

// find returns the member of an object with the given name.
func (t *tree) find(parent int32, name []byte) (member int32, found bool) {
	n := t.slots[t.slot(parent, name)]
	return int32(n), n != 0
}

// name returns the name of a member without escapes.
func (t *tree) name(m *node) []byte {
	if m.escaped {
		return t.names[m.plain:m.plainEnd]
	}
	return t.text[m.name:m.nameEnd]
}

// quoted returns the name of a member as it is in the text, with its quotes.
func (t *tree) quoted(m *node) []byte { return t.text[m.name-1 : m.nameEnd+1] }

// value returns the text of a value.
func (t *tree) value(i int32) []byte { return t.text[t.nodes[i].value:t.nodes[i].end] }

// hasNull reports whether a value is null or an object with a null member, at any depth of objects.
func (t *tree) hasNull(i int32) bool {
	for end := t.nodes[i].next; i < end; i++ {
		if t.nodes[i].kind == 'n' {
			return true
		}
	}
	return false
}

// appendUnescaped appends the bytes between the quotes of a valid string, without its escapes. It returns false if half of a surrogate pair is
// among them: that is not a character, and readers disagree about it.
func appendUnescaped(dst, raw []byte) ([]byte, bool) {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			i++
			continue
		}
		if raw[i+1] != 'u' {
			dst = append(dst, shortEscape(raw[i+1]))
			i += 2
			continue
		}
		r := hexRune(raw[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			if !bytes.HasPrefix(raw[i:], []byte(`\u`)) {
				return dst, false
			}
			r = utf16.DecodeRune(r, hexRune(raw[i+2:]))
			i += 6
			if r == utf8.RuneError {
				return dst, false
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, true
}

// shortEscape returns the character that a backslash and c stand for.
func shortEscape(c byte) byte {
	if i := bytes.IndexByte([]byte("bfnrt"), c); i >= 0 {
		return "\b\f\n\r\t"[i]
	}
	return c
}

// hexRune reads four valid hexadecimal digits.
func hexRune(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		v, _ := hexValue(c)
		r = r<<4 | rune(v)
	}
	return r
}

func hexValue(c byte) (value byte, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|' ' >= 'a' && c|' ' <= 'f':
		return c | ' ' - 'a' + 10, true
	}
	return 0, false
}
