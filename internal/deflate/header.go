package deflate

// Symbols of the code for code lengths that stand for several lengths (RFC 1951 §3.2.7).
const (
	repeatLast  = 16 // the last length, 3 to 6 times
	repeatZero  = 17 // length zero, 3 to 10 times
	repeatZeros = 18 // length zero, 11 to 138 times
)

// header is the description of the codes of a block. It contains the lengths of the codes, which are themselves Huffman-coded (RFC 1951 §3.2.7).
type header struct {
	lens [litSymbols + distSymbols]uint8
	all  [litSymbols + distSymbols]uint16 // the encoded lengths: a symbol, and from the sixth bit on its extra bits
	n    int                              // number of elements of all
	lit  int                              // number of described literal lengths
	dist int
	set  int // number of written lengths of the code for lengths

	freq    [setSymbols]uint32
	setLens [setSymbols]uint8
	codes   [setSymbols]code
}

// setExtra is the number of extra bits of each symbol.
var setExtra = [setSymbols]uint8{repeatLast: 2, repeatZero: 3, repeatZeros: 7}

// build prepares the description of two codes, and returns its size in bits.
func (h *header) build(b *builder, lit, dist []uint8) int {
	h.lit, h.dist = used(lit, endOfBlock+1), used(dist, 1)
	n := copy(h.lens[:], lit[:h.lit])
	n += copy(h.lens[n:], dist[:h.dist])
	h.n = 0
	clear(h.freq[:])
	for rest := h.lens[:n]; len(rest) > 0; {
		same := 1
		for same < len(rest) && rest[same] == rest[0] {
			same++
		}
		h.run(rest[0], same)
		rest = rest[same:]
	}
	b.lengths(h.setLens[:], h.freq[:], maxSetBits)
	for h.set = setSymbols; h.set > 4 && h.setLens[setOrder[h.set-1]] == 0; {
		h.set--
	}
	size := 5 + 5 + 4 + 3*h.set
	for i, f := range h.freq {
		size += int(f) * int(h.setLens[i]+setExtra[i])
	}
	return size
}

// used returns how many lengths the description must contain: all up to the last one that is not zero, but at least least.
func used(lens []uint8, least int) int {
	n := len(lens)
	for n > least && lens[n-1] == 0 {
		n--
	}
	return n
}

// run adds the same length n times.
func (h *header) run(length uint8, n int) {
	if length > 0 {
		h.add(length, 0)
		for n--; n >= 3; {
			k := min(n, 6)
			h.add(repeatLast, k-3)
			n -= k
		}
	}
	for length == 0 && n >= 3 {
		k := min(n, 138)
		if k <= 10 {
			h.add(repeatZero, k-3)
		} else {
			h.add(repeatZeros, k-11)
		}
		n -= k
	}
	for range n {
		h.add(length, 0)
	}
}

// add adds a symbol and its extra bits.
func (h *header) add(symbol uint8, extra int) {
	h.all[h.n] = uint16(symbol) | uint16(extra)<<5
	h.n++
	h.freq[symbol]++
}

// write writes the description that build has prepared.
func (h *header) write(w *writer) {
	w.write(uint64(h.lit-257)|uint64(h.dist-1)<<5|uint64(h.set-4)<<10, 14)
	for _, symbol := range setOrder[:h.set] {
		w.write(uint64(h.setLens[symbol]), 3)
	}
	next := firstCodes(h.setLens[:])
	for i, n := range h.setLens {
		h.codes[i] = next.take(n)
	}
	for _, v := range h.all[:h.n] {
		k := h.codes[v&31]
		w.write(k.bits()|uint64(v>>5)<<k.len(), k.len()+uint(setExtra[v&31]))
	}
}
