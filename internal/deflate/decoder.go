package deflate

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Errors of [Decoder.Append].
var (
	// ErrCorrupt means that a message violates RFC 1951 or is incomplete: end the connection (RFC 7692 §7.2.2).
	ErrCorrupt = errors.New("deflate: corrupt message: end the connection, nothing after it can be understood")
	// ErrTooLarge means that a message inflates to more than the limit.
	ErrTooLarge = errors.New("deflate: message inflates to more than the limit: raise the limit or end the connection")
)

// Decoder inflates messages. The zero value is ready. It contains tables only, about 8 KiB, and keeps nothing from one call to the next, so a
// few decoders can serve any number of connections. One goroutine at a time may use a decoder.
type Decoder struct {
	own    tables
	sorter sorter
	lens   [litSymbols + distSymbols]uint8
	set    [1 << setBits]entry
}

// Append inflates a message, and appends the result to dst. in is the whole payload of the message, without the four octets that the sender has
// removed from its end (RFC 7692 §7.2.2). window is the inflated bytes of earlier messages, the last byte last, as far back as the peer may
// refer; nil means no context. Append uses at most the last 32 KiB of window. It appends at most limit bytes; a negative limit means zero.
//
// It fails with [ErrCorrupt] or [ErrTooLarge]. Then out contains the bytes that were inflated before the error, for ErrTooLarge limit bytes.
//
// A block may be final, which is how some peers end a message (§7.2.3.4). Bytes behind a final block begin at the next whole byte and belong to
// the same message, but there may be none. An empty payload is an empty message, which some peers send instead of one zero octet.
//
// in and window must not overlap dst, and are not kept. Bytes of dst behind its length, up to its capacity, may change.
func (d *Decoder) Append(dst, in, window []byte, limit int) (out []byte, err error) {
	if len(in) == 0 {
		return dst, nil
	}
	const maxWindow = 1 << MaxWindowBits
	if len(window) > maxWindow {
		window = window[len(window)-maxWindow:]
	}
	r := reader{in: in, out: dst[:cap(dst)], begin: len(dst), at: len(dst), limit: max(limit, 0), window: window}
	for err == nil && !r.over() {
		err = d.block(&r)
	}
	return r.out[:r.at], err
}

// block inflates one block.
func (d *Decoder) block(r *reader) error {
	if !r.need(3) {
		return ErrCorrupt
	}
	kind := r.take(3)
	r.final = kind&1 == 1
	var err error
	switch kind >> 1 {
	case 0:
		err = r.stored()
	case 1:
		err = r.compressed(fixedTables())
	case 2:
		if !d.describe(r) {
			return ErrCorrupt
		}
		err = r.compressed(&d.own)
	default:
		err = ErrCorrupt
	}
	return err
}

// describe reads the description of the codes of a block (RFC 1951 §3.2.7).
func (d *Decoder) describe(r *reader) bool {
	if !r.need(14) {
		return false
	}
	lit, dist, set := int(r.take(5))+257, int(r.take(5))+1, int(r.take(4))+4
	if lit > litSymbols || dist > distSymbols {
		return false
	}
	var lens [setSymbols]uint8
	for _, symbol := range setOrder[:set] {
		if !r.need(3) {
			return false
		}
		lens[symbol] = uint8(r.take(3))
	}
	setBits, ok := d.sorter.build(d.set[:], setBits, lens[:], setEntries[:])
	if !ok || !d.lengths(r, setBits, lit+dist) {
		return false
	}
	if d.lens[endOfBlock] == 0 {
		return false // such a block would have no end
	}
	t := &d.own
	if t.litBits, ok = d.sorter.build(t.lit[:], litBits, d.lens[:lit], litEntries[:]); !ok {
		return false
	}
	t.distBits, ok = d.sorter.build(t.dist[:], distBits, d.lens[lit:lit+dist], distEntries[:])
	return ok
}

// lengths reads the lengths of n codes into d.lens.
func (d *Decoder) lengths(r *reader, setBits uint, n int) bool {
	for i := 0; i < n; {
		r.fill()
		e := d.set[r.acc&(1<<setBits-1)]
		if e == 0 || r.used < e.len() {
			return false
		}
		r.take(e.len())
		symbol := e.value()
		if symbol < repeatLast {
			d.lens[i] = uint8(symbol)
			i++
			continue
		}
		extra := uint(setExtra[symbol])
		if r.used < extra {
			return false
		}
		times, length := int(r.take(extra))+3, uint8(0)
		switch symbol {
		case repeatLast:
			if i == 0 {
				return false
			}
			length = d.lens[i-1]
		case repeatZeros:
			times += 8
		}
		if i+times > n {
			return false
		}
		for range times {
			d.lens[i] = length
			i++
		}
	}
	return true
}

// removed is the octets that the sender removes from the end of each message (RFC 7692 §7.2.1).
var removed = [...]byte{0x00, 0x00, 0xff, 0xff}

// reader is the state of inflating one message.
type reader struct {
	in   []byte
	next int    // index of the next byte that is not in acc: in in, or behind its end in removed
	acc  uint64 // bits that were read and not taken
	used uint   // number of valid bits in acc

	final bool // the last block was final

	out    []byte // the output, up to its capacity
	begin  int    // where the output of this message begins
	at     int    // end of the written output
	limit  int
	window []byte
}

// over reports, between two blocks, whether the message has ended. After a final block it aligns to the next byte.
func (r *reader) over() bool {
	if r.final {
		r.align()
		return r.next >= len(r.in)
	}
	return r.used == 0 && r.next == len(r.in)+len(removed)
}

// fill reads input until acc holds as many bits as any step takes, or until the input ends.
func (r *reader) fill() {
	if r.next+8 <= len(r.in) {
		r.acc |= binary.LittleEndian.Uint64(r.in[r.next:]) << (r.used & 63)
		r.next += int((63 - r.used) >> 3)
		r.used |= 56
		return
	}
	for r.used <= 56 && r.next < len(r.in)+len(removed) {
		var c byte
		if r.next < len(r.in) {
			c = r.in[r.next]
		} else {
			c = removed[r.next-len(r.in)]
		}
		r.acc |= uint64(c) << r.used
		r.used += 8
		r.next++
	}
}

// need reads input, and reports whether acc holds at least n bits.
func (r *reader) need(n uint) bool {
	if r.used < n {
		r.fill()
	}
	return r.used >= n
}

// take removes n bits from acc and returns them.
func (r *reader) take(n uint) uint32 {
	v := uint32(r.acc & (1<<n - 1))
	r.acc >>= n
	r.used -= n
	return v
}

// align skips to the next byte boundary, and gives whole bytes of acc back to the input.
func (r *reader) align() {
	r.next -= int(r.used >> 3)
	r.acc, r.used = 0, 0
}

// room returns how many of n more bytes may be written. It grows out as far as the limit allows.
func (r *reader) room(n int) int {
	left := r.begin + r.limit - r.at
	n = min(n, left)
	if n > len(r.out)-r.at {
		// The size doubles, but does not grow to a limit that the message never comes near.
		more := max(n, min(left, max(r.at-r.begin, 4*len(r.in), 256)))
		r.out = slices.Grow(r.out[:r.at], more)
		r.out = r.out[:cap(r.out)]
	}
	return n
}

// stored copies a stored block (RFC 1951 §3.2.4).
func (r *reader) stored() error {
	r.align()
	if !r.need(32) {
		return ErrCorrupt
	}
	n := int(r.take(16))
	if uint16(r.take(16)) != ^uint16(n) {
		return ErrCorrupt
	}
	r.align()
	// The block may extend into the removed octets.
	from := 0
	if r.next < len(r.in) {
		from = min(n, len(r.in)-r.next)
	}
	behind := n - from
	if max(r.next-len(r.in), 0)+behind > len(removed) {
		return ErrCorrupt
	}
	k := r.room(n)
	if copied := copy(r.out[r.at:r.at+k], r.in[min(r.next, len(r.in)):][:from]); copied < k {
		copy(r.out[r.at+copied:r.at+k], removed[max(r.next-len(r.in), 0):])
	}
	r.at += k
	r.next += n
	if k < n {
		return ErrTooLarge
	}
	return nil
}

// The most that one step of fast reads and writes, in bytes: two literals, a match, and the excess of a copy by words.
const (
	fastRead  = 8
	fastWrite = 2 + maxMatch + 8
	matchBits = 15 + 5 + 15 + 13 // the most bits of a match
)

// compressed inflates a block that is Huffman-coded.
func (r *reader) compressed(t *tables) error {
	for {
		// out does not grow only to make fast possible: the caller may know the size of the message.
		if min(len(r.out), r.begin+r.limit)-r.at >= fastWrite && r.next+fastRead <= len(r.in) {
			if end, ok := r.fast(t); !ok {
				return ErrCorrupt
			} else if end {
				return nil
			}
		}
		if end, err := r.symbol(t); end || err != nil {
			return err
		}
	}
}

// fast inflates without bounds checks, as long as there is enough input and output for one more step. end reports the end of the block. ok is
// false if the input is corrupt.
func (r *reader) fast(t *tables) (end, ok bool) {
	in, out, acc, used, next, at := r.in, r.out, r.acc, r.used, r.next, r.at
	lits, dists := &t.lit, &t.dist
	litMask, distMask := uint64(1)<<(t.litBits&63)-1, uint64(1)<<(t.distBits&63)-1
	last := min(len(out), r.begin+r.limit) - fastWrite
	for at <= last && next+fastRead <= len(in) {
		acc |= load64(in, next) << (used & 63)
		next += int((63 - used) >> 3)
		used |= 56
		e := lits[acc&litMask]
		if e&entryLiteral != 0 {
			acc, used = acc>>(e&entryBits), used-e.len()
			out[at] = byte(e.value())
			at++
			if e = lits[acc&litMask]; e&entryLiteral != 0 {
				acc, used = acc>>(e&entryBits), used-e.len()
				out[at] = byte(e.value())
				at++
				continue
			}
			if used < matchBits {
				if next+fastRead > len(in) {
					break
				}
				acc |= load64(in, next) << (used & 63)
				next += int((63 - used) >> 3)
				used |= 56
			}
		}
		if e&entryLink != 0 {
			acc, used = acc>>(e&entryBits), used-e.len()
			e = lits[e.value()+uint32(acc&(1<<e.extra()-1))]
		}
		acc, used = acc>>(e&entryBits), used-e.len()
		if e&entryBase == 0 {
			if e&entryLiteral == 0 {
				end, ok = e&entryEnd != 0, e != 0
				r.acc, r.used, r.next, r.at = acc, used, next, at
				return end, ok
			}
			out[at] = byte(e.value())
			at++
			continue
		}
		n := int(e.value()) + int(acc&(1<<e.extra()-1)) + minMatch
		acc, used = acc>>e.extra(), used-e.extra()

		e = dists[acc&distMask]
		if e&entryLink != 0 {
			acc, used = acc>>(e&entryBits), used-e.len()
			e = dists[e.value()+uint32(acc&(1<<e.extra()-1))]
		}
		acc, used = acc>>(e&entryBits), used-e.len()
		dist := int(e.value()) + int(acc&(1<<e.extra()-1)) + 1
		acc, used = acc>>e.extra(), used-e.extra()
		if e == 0 || dist > at-r.begin+len(r.window) {
			r.at = at
			return false, false
		}
		if dist > at-r.begin {
			r.at = at
			r.copy(n, dist)
		} else {
			copyWords(out, at, dist, n)
		}
		at += n
	}
	r.acc, r.used, r.next, r.at = acc, used, next, at
	return false, true
}

// copyWords copies n bytes within out to at, from dist bytes before. It writes some bytes beyond that.
func copyWords(out []byte, at, dist, n int) {
	i := 0
	if dist < 8 {
		// Bytes that repeat every dist bytes also repeat every multiple of dist bytes.
		for ; i < 8; i++ {
			out[at+i] = out[at-dist+i]
		}
		dist *= (7 + dist) / dist
	}
	for ; i < n; i += 8 {
		binary.LittleEndian.PutUint64(out[at+i:], load64(out, at-dist+i))
	}
}

// symbol inflates one symbol, with all checks. end reports the end of the block.
func (r *reader) symbol(t *tables) (end bool, err error) {
	r.fill()
	e, ok := r.lookUp(t.lit[:], t.litBits)
	if !ok {
		return false, ErrCorrupt
	}
	if e&entryEnd != 0 {
		return true, nil
	}
	if e&entryLiteral != 0 {
		if r.room(1) < 1 {
			return false, ErrTooLarge
		}
		r.out[r.at] = byte(e.value())
		r.at++
		return false, nil
	}
	if r.used < e.extra() {
		return false, ErrCorrupt
	}
	n := int(e.value()+r.take(e.extra())) + minMatch
	if e, ok = r.lookUp(t.dist[:], t.distBits); !ok || r.used < e.extra() {
		return false, ErrCorrupt
	}
	dist := int(e.value()+r.take(e.extra())) + 1
	if dist > r.at-r.begin+len(r.window) {
		return false, ErrCorrupt
	}
	k := r.room(n)
	r.copy(k, dist)
	if k < n {
		return false, ErrTooLarge
	}
	return false, nil
}

// lookUp takes one code, and returns its entry. ok is false if the code is invalid or incomplete.
func (r *reader) lookUp(table []entry, bits uint) (e entry, ok bool) {
	e = table[r.acc&(1<<bits-1)]
	if e&entryLink != 0 {
		if r.used < bits {
			return 0, false
		}
		r.take(bits)
		e = table[e.value()+uint32(r.acc&(1<<e.extra()-1))]
	}
	if e == 0 || r.used < e.len() {
		return 0, false
	}
	r.take(e.len())
	return e, true
}

// copy appends n bytes, for which there is room, from dist bytes before the end of the output. They may begin in the window.
func (r *reader) copy(n, dist int) {
	if before := dist - (r.at - r.begin); before > 0 {
		k := copy(r.out[r.at:r.at+n], r.window[len(r.window)-before:])
		r.at += k
		n -= k
	}
	from := r.at - dist
	for n > 0 {
		// Copied bytes are a source for the next copy, so the length doubles.
		k := copy(r.out[r.at:r.at+n], r.out[from:r.at])
		r.at += k
		n -= k
	}
}
