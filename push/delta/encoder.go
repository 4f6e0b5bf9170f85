package delta

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Encoder computes differences. Its zero value is ready for use. It keeps working memory of at most a few MiB, so that a call allocates only for
// the growth of dst. So keep one Encoder in each goroutine that computes many differences. It keeps no reference to any value. An Encoder must
// not be used by two goroutines at the same time, and must not be copied after its first use.
type Encoder struct {
	// For Fossil deltas: the blocks of the old value by their hash. The numbers of blocks begin with 1; 0 means none.
	heads []uint32 // by hash: the first block that has it
	links []uint32 // by block: the next one with the same hash
	shift uint     // the right shift of a hash, which leaves as many bits as heads needs

	// For merge patches.
	old, now tree
}

const (
	// blockSize is the size of the adjacent blocks into which the index splits the old value. An equal part of at least twice that size contains
	// a whole block, so the search finds it wherever it lies.
	blockSize = 16

	// maxChain is the largest number of blocks with one hash that are compared. It bounds the work if a value repeats itself, or was made to.
	maxChain = 32

	// reach is how many bytes before and behind the changed part of the old value are searched. It makes the work depend on the size of the
	// change, not of the value.
	reach = 4096

	// maxSegment is the size of the longest segment. Some versions of the JavaScript SDK apply a segment by a call with its bytes as arguments,
	// and JavaScript engines accept about 65,000 arguments.
	maxSegment = 32 << 10

	// keepEntries is the number of entries of heads, and of links, that are kept from one call to the next: 1 MiB each.
	keepEntries = 1 << 18
)

// AppendFossil appends the Fossil delta that turns from into to, and returns the extended slice. Every two values have a delta. If they have
// nothing in common, the delta is longer than to by at most 21 bytes, and 4 more for each 32 KiB. If to is valid UTF-8, so is the delta.
//
// A comparison finds the common beginning and the common end. Between them, the work is linear in the changed parts, whatever their bytes are.
// Each position of to is compared with at most 34 positions of from, and only with those at most 4 KiB before or behind the changed part of
// from. Bytes that moved further become literals.
//
// AppendFossil only reads from and to, which may be the same memory; dst must not overlap them. It uses only the first 4 GiB of from. If to has
// 4 GiB or more, AppendFossil panics, because the format's numbers have 32 bits.
func (e *Encoder) AppendFossil(dst, from, to []byte) []byte {
	if uint64(len(to)) > maxFossil {
		panic("delta: AppendFossil: a value of 4 GiB or more has no Fossil delta: send it as it is")
	}
	from = from[:min(uint64(len(from)), maxFossil)]
	head := commonPrefix(from, to)
	for back := 0; head < len(to) && back < utf8.UTFMax-1 && head > 0 && !utf8.RuneStart(to[head]); back++ {
		head--
	}
	tail := commonSuffix(from[head:], to[head:])
	for back := 0; tail > 0 && back < utf8.UTFMax-1 && !utf8.RuneStart(to[len(to)-tail]); back++ {
		tail--
	}

	s := segments{dst: appendNumber(dst, uint32(len(to)), '\n'), to: to}
	s.copy(match{size: head})
	e.search(&s, &changed{
		from:  from[:min(len(from)-tail+reach, len(from))],
		to:    to[:len(to)-tail],
		lo:    max(head-reach, 0),
		shift: len(from) - len(to),
	})
	s.copy(match{at: len(to) - tail, src: len(from) - tail, size: tail})
	s.literal(len(to))
	if cap(e.heads)+cap(e.links) > 2*keepEntries {
		e.heads, e.links = nil, nil
	}
	return appendNumber(s.dst, checksum(to), ';')
}

// match says that the size bytes of to from at equal the bytes of from from src.
type match struct{ at, src, size int }

// segments writes the list of segments. The bytes of to from done on are not written yet; those before the next copy become a literal.
type segments struct {
	dst, to []byte
	done    int
}

// pays reports whether a copy is shorter than its bytes, even if it splits a literal in two.
func (s *segments) pays(m match) bool {
	price := digits(uint32(m.size)) + digits(uint32(m.src)) + 2 // for "@" and ","
	if lit := m.at - s.done; lit > 0 {
		price += digits(uint32(lit)) + 1 // for ":"
	}
	return m.size > price
}

// copy writes a copy, if it pays, after the literal before it.
func (s *segments) copy(m match) {
	if !s.pays(m) {
		return
	}
	s.literal(m.at)
	for end := m.at + m.size; s.done < end; {
		n := min(end-s.done, maxSegment)
		s.dst = appendNumber(s.dst, uint32(n), '@')
		s.dst = appendNumber(s.dst, uint32(s.done-m.at+m.src), ',')
		s.done += n
	}
}

// literal writes the bytes up to end that are not written yet.
func (s *segments) literal(end int) {
	for s.done < end {
		n := min(end-s.done, maxSegment)
		s.dst = appendNumber(s.dst, uint32(n), ':')
		s.dst = append(s.dst, s.to[s.done:s.done+n]...)
		s.done += n
	}
}

// changed is the part to search: the values without the common beginning and end.
type changed struct {
	from  []byte // ends at the end of the search
	to    []byte // ends at the start of the common end
	lo    int    // the position in from where the search begins
	shift int    // the distance from positions in to to those in from, at the common end
}

// search finds matches and writes copies.
//
// The work is linear. At each position of to, it compares two aligned positions and at most maxChain blocks. A long comparison has found a copy
// that pays, and then all its bytes of to are done. A comparison that does not pay ends after about twenty bytes.
func (e *Encoder) search(s *segments, c *changed) {
	if len(c.to)-s.done < blockSize || len(c.from)-c.lo < blockSize {
		return
	}
	e.index(c.from[c.lo:])
	shift := 0 // of the previous copy
	for at := s.done; at+blockSize <= len(c.to); {
		// A value whose numbers change but keep their length stays aligned with the previous copy, or with the common end.
		var m match
		if c.same(at, at+shift) {
			m = s.grow(c, at, at+shift)
		}
		if m.size == 0 && c.same(at, at+c.shift) {
			m = s.grow(c, at, at+c.shift)
		}
		if n := e.heads[blockHash(c.to[at:])>>e.shift]; n > 0 && m.size == 0 {
			m = e.longest(s, c, at, n)
		}
		if m.size == 0 {
			at++
			continue
		}
		s.copy(m)
		at, shift = s.done, m.src-m.at
	}
}

// same reports whether the first bytes at position at of to and at position src of from are equal, so that a closer comparison may pay.
func (c *changed) same(at, src int) bool {
	return src >= c.lo && src+blockSize <= len(c.from) &&
		binary.LittleEndian.Uint64(c.to[at:]) == binary.LittleEndian.Uint64(c.from[src:])
}

// index stores the blocks of b by their hash. Blocks near the beginning come first, because in a repeating value they give the longest matches.
func (e *Encoder) index(b []byte) {
	blocks := len(b) / blockSize
	width := bits.Len(uint(blocks)) + 1 // so many more hashes than blocks that most positions of to find none
	e.shift = uint(64 - width)
	e.heads = sized(e.heads, 1<<width)
	clear(e.heads)
	e.links = sized(e.links, blocks+1)
	for n := blocks; n > 0; n-- {
		h := blockHash(b[(n-1)*blockSize:]) >> e.shift
		e.links[n] = e.heads[h]
		e.heads[h] = uint32(n)
	}
}

// longest returns the longest match of position at with block n and the blocks after it that have the same hash. Its size is 0 if none pays.
func (e *Encoder) longest(s *segments, c *changed, at int, n uint32) match {
	var best match
	for range maxChain {
		if n == 0 {
			break
		}
		if src := c.lo + int(n-1)*blockSize; c.same(at, src) {
			if m := s.grow(c, at, src); m.size > best.size {
				best = m
			}
		}
		n = e.links[n]
	}
	return best
}

// grow returns the match of position at with position src, extended in both directions, but not into bytes that are written. Its size is 0 if it
// does not pay.
func (s *segments) grow(c *changed, at, src int) match {
	back := commonSuffix(c.from[c.lo:src], c.to[s.done:at])
	m := match{at: at - back, src: src - back, size: back + commonPrefix(c.from[src:], c.to[at:])}
	for cut := 0; cut < utf8.UTFMax-1 && m.size > 0 && !utf8.RuneStart(s.to[m.at]); cut++ {
		m.at, m.src, m.size = m.at+1, m.src+1, m.size-1
	}
	for cut := 0; cut < utf8.UTFMax-1 && m.size > 0 && m.at+m.size < len(s.to) && !utf8.RuneStart(s.to[m.at+m.size]); cut++ {
		m.size--
	}
	if !s.pays(m) {
		return match{}
	}
	return m
}

// blockHash returns a hash of the first blockSize bytes of b. Its upper bits are the good ones. It needs only two loads and two multiplications,
// so a rolling hash would gain nothing.
func blockHash(b []byte) uint64 {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93 // the golden ratio's fraction, and any other
	lo, hi := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return (lo ^ bits.RotateLeft64(hi*odd1, 29)) * odd2
}

// commonPrefix returns the number of equal bytes at the beginnings of a and b.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if diff := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); diff != 0 {
			return i + bits.TrailingZeros64(diff)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// commonSuffix returns the number of equal bytes at the ends of a and b.
func commonSuffix(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[len(a)-n:], b[len(b)-n:]
	i := n
	for ; i >= 8; i -= 8 {
		if diff := binary.LittleEndian.Uint64(a[i-8:]) ^ binary.LittleEndian.Uint64(b[i-8:]); diff != 0 {
			return n - i + bits.LeadingZeros64(diff)/8
		}
	}
	for i > 0 && a[i-1] == b[i-1] {
		i--
	}
	return n - i
}

// sized returns a slice of n entries. It uses the memory of s if that is large enough.
func sized(s []uint32, n int) []uint32 {
	if cap(s) < n {
		return make([]uint32, n)
	}
	return s[:n]
}
