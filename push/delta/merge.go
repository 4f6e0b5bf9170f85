package delta

import (
	"bytes"
	"fmt"
)

// AppendMergePatch appends the JSON merge patch (RFC 7396) that turns from into to, and returns the extended slice. If both are the same, the
// patch is {}. If there is no patch, ok is false, dst is returned unchanged, and to must be sent as it is. There is none
//
//   - when from or to is not a JSON object;
//   - when a member of to is null and was not null before, or lies in an object that did not exist before: in a patch, null removes a
//     member. This includes objects in objects. Values in an array may be null, since arrays are replaced as a whole;
//   - when an object has two members with one name, because parsers disagree which of them counts, except for objects in arrays, whose
//     members are not compared;
//   - when from or to is not valid JSON in UTF-8, is nested deeper than [MaxDepth], has 2 GiB or more, or has a member whose name
//     contains half of a surrogate pair.
//
// The result of the patch equals to as a JSON value. Members may be in another order, and white space between them may differ. Every value is
// the text from to, or a text that was the same in from. So numbers keep their digits (1 does not become 1.0, which counts as different) and
// strings their characters. Values are compared as text: a value in another notation, such as with other escapes, becomes part of the patch.
// Names are compared without escapes.
//
// A patch may be longer than to, so compare the lengths. The work is linear in the length of both. AppendMergePatch only reads from and to; dst
// must not overlap them.
func (e *Encoder) AppendMergePatch(dst, from, to []byte) (patch []byte, ok bool) {
	defer e.old.release()
	defer e.now.release()
	if e.old.parse(from) != nil || e.now.parse(to) != nil || e.old.nodes[0].kind != '{' || e.now.nodes[0].kind != '{' {
		return dst, false
	}
	if patch, ok = e.difference(dst, 0, 0); !ok {
		return dst, false
	}
	return patch, true
}

// difference appends the patch that turns object o of old into object n of now. It returns false if there is none.
func (e *Encoder) difference(dst []byte, o, n int32) ([]byte, bool) {
	dst = append(dst, '{')
	begin := len(dst)
	for i := n + 1; i < e.now.nodes[n].next; i = e.now.nodes[i].next {
		m := &e.now.nodes[i]
		was, found := e.old.find(o, e.now.name(m))
		if found {
			e.old.nodes[was].seen = true
			if bytes.Equal(e.old.value(was), e.now.value(i)) {
				continue
			}
		}
		mark := len(dst)
		dst = appendName(dst, begin, e.now.quoted(m))
		switch {
		case found && m.kind == '{' && e.old.nodes[was].kind == '{':
			inner, ok := e.difference(dst, was, i)
			if !ok {
				return dst, false
			}
			if len(inner) == len(dst)+len("{}") { // only the order or the white space differ
				inner = inner[:mark]
			}
			dst = inner
		case e.now.hasNull(i):
			return dst, false
		default:
			dst = append(dst, e.now.value(i)...)
		}
	}
	for i := o + 1; i < e.old.nodes[o].next; i = e.old.nodes[i].next {
		if m := &e.old.nodes[i]; !m.seen {
			dst = append(appendName(dst, begin, e.old.quoted(m)), "null"...)
		}
	}
	return append(dst, '}'), true
}

// appendName appends the name of a member. The members of its object begin at begin in dst.
func appendName(dst []byte, begin int, quoted []byte) []byte {
	if len(dst) > begin {
		dst = append(dst, ',')
	}
	return append(append(dst, quoted...), ':')
}

// ApplyMergePatch applies the JSON merge patch to doc (RFC 7396, section 2): it appends the result to dst, and returns the extended slice. A
// patch that is not an object is the result itself. Both arguments may be any JSON values, but an object must not have two members with one
// name; see [Encoder.AppendMergePatch] for the other limits. If they are violated, the error wraps a [*FormatError] and dst is returned
// unchanged.
//
// Members keep their order; new ones come last. Text that the patch does not change stays as it is, including white space in values. The result
// is never longer than doc and patch together.
//
// The result does not share memory with doc or patch, which are only read; dst must not overlap them. Any number of calls may run at the same
// time.
func ApplyMergePatch(dst, doc, patch []byte) ([]byte, error) {
	var m merger
	if err := m.doc.parse(doc); err != nil {
		return dst, fmt.Errorf("delta: apply merge patch: document: %w", err)
	}
	if err := m.patch.parse(patch); err != nil {
		return dst, fmt.Errorf("delta: apply merge patch: patch: %w", err)
	}
	return m.merge(dst, 0, 0), nil
}

// merger applies one patch.
type merger struct{ doc, patch tree }

// merge appends the result of patch node p on document node d; d is none if the document has no such node.
func (m *merger) merge(dst []byte, d, p int32) []byte {
	if m.patch.nodes[p].kind != '{' {
		return append(dst, m.patch.value(p)...)
	}
	dst = append(dst, '{')
	begin := len(dst)
	if d != none && m.doc.nodes[d].kind == '{' {
		for i := d + 1; i < m.doc.nodes[d].next; i = m.doc.nodes[i].next {
			member := &m.doc.nodes[i]
			change, found := m.patch.find(p, m.doc.name(member))
			switch {
			case !found:
				dst = append(appendName(dst, begin, m.doc.quoted(member)), m.doc.value(i)...)
				continue
			case m.patch.nodes[change].kind != 'n':
				dst = m.merge(appendName(dst, begin, m.doc.quoted(member)), i, change)
			}
			m.patch.nodes[change].seen = true
		}
	}
	for i := p + 1; i < m.patch.nodes[p].next; i = m.patch.nodes[i].next {
		if member := &m.patch.nodes[i]; !member.seen && member.kind != 'n' {
			dst = m.merge(appendName(dst, begin, m.patch.quoted(member)), none, i)
		}
	}
	return append(dst, '}')
}
