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

// MaxDepth is how deep objects and arrays may lie inside one another where this package reads JSON.
const MaxDepth = 64

// tree is a JSON text taken apart as far as objects lie directly inside objects; everything else, arrays with what is in them too, is
// checked and left as text. The nodes stand in the order of the text: node 0 is the whole, and the members of an object follow it, each
// with all that is in it.
//
// The scanner of package protocol is not used: it reads into fields of known names, and what is wanted here are unknown ones.
type tree struct {
	text  []byte
	nodes []node
	names []byte   // names that the text has with escapes, without them
	slots []uint32 // hash table of all members, by object and name: the node, 0 for none
	seed  maphash.Seed
}

// node is a value and, but for node 0, the name of the member whose value it is. All are places in the text.
type node struct {
	name, nameEnd   int32 // as it stands between its quotes
	plain, plainEnd int32 // in names, if the name has escapes
	value, end      int32
	parent          int32 // the object it is a member of
	next            int32 // behind the last node that is in this one
	kind            byte  // first byte of the value
	escaped         bool
	seen            bool // the other text has it too
}

// keepNodes is how many nodes are kept from one text to the next, 2 MiB with the table.
const keepNodes = 1 << 15

// parse reads text, which it keeps until release. The error is a *FormatError.
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

// release forgets the text, and keeps the memory for the next one if it is not large.
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

// index fills the table of members. It finds names that an object has twice.
func (t *tree) index() *FormatError {
	if t.seed == (maphash.Seed{}) {
		t.seed = maphash.MakeSeed() // so that nobody can choose names that meet in one place
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

// slot returns the place in the table that a member has, or would have.
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

// find returns the member of an object that has a name.
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

// quoted returns the name of a member as it stands in the text, with its quotes.
func (t *tree) quoted(m *node) []byte { return t.text[m.name-1 : m.nameEnd+1] }

// value returns the text of a value.
func (t *tree) value(i int32) []byte { return t.text[t.nodes[i].value:t.nodes[i].end] }

// hasNull reports whether a value is null, or has members that are, objects in objects included.
func (t *tree) hasNull(i int32) bool {
	for end := t.nodes[i].next; i < end; i++ {
		if t.nodes[i].kind == 'n' {
			return true
		}
	}
	return false
}

// appendUnescaped appends what lies between the quotes of a sound string, without its escapes. It is false when half of a surrogate
// pair is among them: that is no character, and every reader makes something else of it.
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

// shortEscape returns the character for which a backslash and c stand.
func shortEscape(c byte) byte {
	if i := bytes.IndexByte([]byte("bfnrt"), c); i >= 0 {
		return "\b\f\n\r\t"[i]
	}
	return c
}

// hexRune reads four digits, which are known to be some.
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
