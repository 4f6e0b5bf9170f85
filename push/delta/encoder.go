package delta

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Encoder makes differences. Its zero value is ready for use. It keeps the memory that it searches with, at most a few MiB, so that
// making a difference allocates nothing but what dst lacks; so one is kept for each goroutine that makes many. It keeps no reference
// to any value. An Encoder must not be used by two goroutines at the same time, and must not be copied once it was used.
type Encoder struct {
	// For Fossil deltas: the blocks of the old value by their hash. Numbers of blocks begin with 1, so that 0 is none.
	heads []uint32 // by hash: the first block that has it
	links []uint32 // by block: the next one with the same hash
	shift uint     // leaves of a hash the bits that heads needs

	// For merge patches.
	old, now tree
}

const (
	// blockSize is the size of the blocks, side by side, by which the old value is known. What is equal over twice as many bytes holds
	// one of them, and so is found wherever it lies.
	blockSize = 16

	// maxChain is how many blocks of one hash are looked at. It bounds the work where a value repeats itself, or was made to.
	maxChain = 32

	// reach is how far before and behind the part that changed the old value is searched. It makes the work depend on what changed
	// and not on the size of the value.
	reach = 4096

	// maxSegment is how long a segment gets. Some versions of the JavaScript SDK apply one by a call with its bytes as arguments, of which
	// engines take some 65,000.
	maxSegment = 32 << 10

	// keepEntries is how many entries of heads and links are kept from one call to the next, 1 MiB each.
	keepEntries = 1 << 18
)

// AppendFossil appends the Fossil delta that makes to of from, and returns the extended slice. There is a delta for every two values;
// it is at most 21 bytes longer than to, and 4 more for each 32 KiB, when both have nothing in common. When to is valid UTF-8, so is
// the delta.
//
// What both have in common at their beginning and their end is found by comparing. Between, the work grows with the parts that
// changed, whatever is in them: each place of to is compared with at most 34 places of from, and only with what lies at most 4 KiB
// before or behind the part of from that changed. What moved further is brought along.
//
// from and to are only read, and may be the same memory; dst must not overlap them. Of from only the first 4 GiB are used. To has to be
// shorter than 4 GiB, since the format's numbers have 32 bits: with a longer one AppendFossil panics.
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

// match says that size bytes of to, from at, are those of from, from src.
type match struct{ at, src, size int }

// segments writes the list of segments. Bytes of to from done on are not written yet: up to the next copy they become a literal.
type segments struct {
	dst, to []byte
	done    int
}

// pays reports whether a copy is shorter than its bytes, even when it cuts a literal in two.
func (s *segments) pays(m match) bool {
	price := digits(uint32(m.size)) + digits(uint32(m.src)) + 2 // for "@" and ","
	if lit := m.at - s.done; lit > 0 {
		price += digits(uint32(lit)) + 1 // for ":"
	}
	return m.size > price
}

// copy writes a copy, if it pays, and the literal before it.
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

// literal writes what is left before end.
func (s *segments) literal(end int) {
	for s.done < end {
		n := min(end-s.done, maxSegment)
		s.dst = appendNumber(s.dst, uint32(n), ':')
		s.dst = append(s.dst, s.to[s.done:s.done+n]...)
		s.done += n
	}
}

// changed is what is left to be searched for when the common beginning and end are known.
type changed struct {
	from  []byte // ends where the search does
	to    []byte // ends where the common end begins
	lo    int    // where in from the search begins
	shift int    // from places of to to those of from, at the common end
}

// search writes copies of what it finds.
//
// The work is linear: at each place of to two places in line and at most maxChain blocks are compared. A comparison that goes far has
// found what pays, and then to is done that far; one that does not pay ends after some twenty bytes.
func (e *Encoder) search(s *segments, c *changed) {
	if len(c.to)-s.done < blockSize || len(c.from)-c.lo < blockSize {
		return
	}
	e.index(c.from[c.lo:])
	shift := 0 // of the copy before
	for at := s.done; at+blockSize <= len(c.to); {
		// Values whose numbers change and keep their length stay in line with what was copied before, or with the end.
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

// same reports whether it may be worth while to look closer at what is at place at of to and at src of from.
func (c *changed) same(at, src int) bool {
	return src >= c.lo && src+blockSize <= len(c.from) &&
		binary.LittleEndian.Uint64(c.to[at:]) == binary.LittleEndian.Uint64(c.from[src:])
}

// index notes the blocks of b by their hash, those at the beginning first: there matches of a repeating value are longest.
func (e *Encoder) index(b []byte) {
	blocks := len(b) / blockSize
	width := bits.Len(uint(blocks)) + 1 // so many more hashes than blocks that most places of to need no second look
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

// longest returns the longest match of what is at place at with block n and those behind it that have the same hash, of size 0 when
// none pays.
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

// grow returns the match of what is at place at with what is at src, as far as it gets in both directions, but not beyond what is
// written. It has size 0 when it does not pay.
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

// blockHash mixes the first blockSize bytes of b. Its upper bits are the good ones. It takes two loads and two multiplications, so there is
// nothing to gain from a hash that rolls from place to place.
func blockHash(b []byte) uint64 {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93 // the golden ratio's fraction, and any other
	lo, hi := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return (lo ^ bits.RotateLeft64(hi*odd1, 29)) * odd2
}

// commonPrefix returns how many bytes at their beginnings are the same.
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

// commonSuffix returns how many bytes at their ends are the same.
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

// sized returns a slice of n entries, in the memory of s if that is enough.
func sized(s []uint32, n int) []uint32 {
	if cap(s) < n {
		return make([]uint32, n)
	}
	return s[:n]
}
