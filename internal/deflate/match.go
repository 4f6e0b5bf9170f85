package deflate

import "math/bits"

// effort is how hard a level searches for matches.
type effort struct {
	// Without a chain: how soon bytes without a match are skipped, and which bytes within a match are entered in the table.
	patience uint // after each 2^patience bytes without a match, one byte more is skipped
	stride   int  // distance between entered bytes; 0 enters the last one only

	// With a chain: how many positions are checked, which match length ends the search, and up to which length a better match is searched for at
	// the next byte. depth 0 means no chain.
	depth int
	nice  int
	lazy  int
}

// efforts are the efforts of the levels.
var efforts = [MaxLevel + 1]effort{
	1: {patience: 5},
	2: {patience: 6, stride: 4},
	3: {patience: 8, stride: 1},
	4: {depth: 8, nice: 32, lazy: 8},
	5: {depth: 20, nice: 48, lazy: 16},
	6: {depth: 80, nice: 128, lazy: 32},
	7: {depth: 160, nice: 128, lazy: 64},
	8: {depth: 640, nice: maxMatch, lazy: 128},
	9: {depth: 4096, nice: maxMatch, lazy: maxMatch},
}

// hashedBytes is the number of bytes in a hash, and the shortest match that the encoder finds. Shorter matches hardly ever save a bit.
const hashedBytes = 4

// hash returns the index in heads of four bytes.
func hash(v uint32, shift uint) uint32 { return v * 0x9e3779b1 >> (shift & 31) }

// match makes tokens of the bytes of the buffer from start on.
func (e *Encoder) match(s *scratch, start int) {
	if e.base > maxBase {
		e.rebase()
	}
	// The last bytes before start could not be hashed earlier: fewer than four bytes were there.
	last := len(e.buf) - hashedBytes
	for ; e.hashed < start && e.hashed <= last; e.hashed++ {
		e.enter(e.hashed)
	}
	if e.effort.depth > 0 {
		e.lazy(s, start)
	} else {
		e.greedy(s, start)
	}
	e.hashed = max(e.hashed, last+1)
}

// enter enters the bytes at i in the tables, and returns the last position with the same hash.
func (e *Encoder) enter(i int) uint32 {
	h := hash(load32(e.buf, i), e.shift)
	position := e.base + uint32(i)
	before := e.heads[h]
	e.heads[h] = position
	if e.chain != nil {
		back := position - before
		if back > uint32(e.window) {
			back = 0
		}
		e.chain[position&uint32(e.window-1)] = uint16(back)
	}
	return before
}

// greedy takes every match that the last position with the same hash yields.
func (e *Encoder) greedy(s *scratch, start int) {
	buf, heads, base, shift, window := e.buf, e.heads, e.base, e.shift, uint32(e.window)
	patience, stride := e.effort.patience&31, e.effort.stride
	last := len(buf) - hashedBytes
	done, i := start, start // tokens exist for all bytes before done
	for i <= last {
		v := load32(buf, i)
		h := hash(v, shift)
		back := base + uint32(i) - heads[h]
		heads[h] = base + uint32(i)
		// A distance within the window is within buf too, because buf contains a window before start, or all bytes since Reset.
		if back-1 >= window || load32(buf, i-int(back)) != v {
			i += 1 + (i-done)>>patience
			continue
		}
		from := i - int(back)
		for i > done && from > 0 && buf[i-1] == buf[from-1] {
			i--
			from--
		}
		n := matchLen(buf, from, i)
		s.literals(buf[done:i])
		s.add(matchToken(n, int(back)))
		done = i + n
		if stride > 0 {
			for k := i + 1; k < done && k <= last; k += stride {
				heads[hash(load32(buf, k), shift)] = base + uint32(k)
			}
		} else if done-1 <= last {
			heads[hash(load32(buf, done-1), shift)] = base + uint32(done-1)
		}
		i = done
	}
	s.literals(buf[done:])
}

// lazy takes a match only if there is no longer one at the next byte. It searches the chain of all positions with the same hash.
func (e *Encoder) lazy(s *scratch, start int) {
	buf := e.buf
	last := len(buf) - hashedBytes
	done, i := start, start
	waiting, waitingBack := 0, 0 // the match at i-1
	for i <= last {
		before := e.enter(i)
		n, back := 0, 0
		if waiting < e.effort.lazy {
			n, back = e.longest(i, before, max(waiting, hashedBytes-1))
		}
		if waiting == 0 || n > waiting {
			waiting, waitingBack = n, back
			i++
			continue
		}
		s.literals(buf[done : i-1])
		s.add(matchToken(waiting, waitingBack))
		done = i - 1 + waiting
		for i++; i < done && i <= last; i++ {
			e.enter(i)
		}
		i, waiting = done, 0
	}
	if waiting > 0 {
		s.literals(buf[done : i-1])
		s.add(matchToken(waiting, waitingBack))
		done = i - 1 + waiting
	}
	s.literals(buf[done:])
}

// longest returns the longest match at i that is longer than best, or zero if there is none. before is the last position with the same hash.
func (e *Encoder) longest(i int, before uint32, best int) (n, dist int) {
	buf, window := e.buf, uint32(e.window)
	most := min(len(buf)-i, maxMatch)
	if best >= most {
		return 0, 0
	}
	nice := min(e.effort.nice, most)
	position := e.base + uint32(i)
	first := load32(buf, i)
	for range e.effort.depth {
		back := position - before
		if back-1 >= window {
			break
		}
		from := i - int(back)
		// Comparing the byte that would extend the best match rejects most positions quickly.
		if buf[from+best] == buf[i+best] && load32(buf, from) == first {
			if k := matchLen(buf, from, i); k > best && worth(k, int(back), n, dist) {
				best, n, dist = k, k, int(back)
				if k >= nice {
					break
				}
			}
		}
		step := e.chain[before&(window-1)]
		if step == 0 {
			break
		}
		before -= uint32(step)
	}
	return n, dist
}

// worth reports whether a match of n bytes is better than a nearer one of best bytes; best is 0 if there is none. A byte is worth about four
// bits, and a distance takes one bit more each time it doubles.
func worth(n, dist, best, bestDist int) bool {
	if best == 0 {
		return n > hashedBytes || dist <= maxFar
	}
	return 4*(n-best) > bits.Len32(uint32(dist))-bits.Len32(uint32(bestDist))
}

// maxFar is the greatest distance at which a match of four bytes, the shortest, is worth more than its literals.
const maxFar = 1 << 12

// matchLen returns how many bytes from i on equal those from from on, which is less than i. The first four bytes are equal.
func matchLen(buf []byte, from, i int) int {
	end := min(len(buf), i+maxMatch)
	n := hashedBytes
	for i+n+8 <= end {
		if x := load64(buf, from+n) ^ load64(buf, i+n); x != 0 {
			return n + bits.TrailingZeros64(x)>>3
		}
		n += 8
	}
	for i+n < end && buf[from+n] == buf[i+n] {
		n++
	}
	return n
}
