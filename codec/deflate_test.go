package codec_test

import "math/bits"

// tables returns blocks of deflate that make a decompressor build the largest tables for the least input: 286 codes of which as
// many as possible are longer than 9 bits and begin differently, and nothing in them but their end.
func tables(blocks int) []byte {
	// Symbol 256. Shorter codes take 375 of the 512 beginnings of 9 bits; the codes of 10 bits are those of the symbols from 13 on.
	const endOfBlock = 2*375 + 256 - 13
	var w bitWriter
	for i := range blocks {
		last := uint32(0)
		if i == blocks-1 {
			last = 1
		}
		w.bits(last|2<<1, 3)
		w.bits(286-257, 5)
		w.bits(0, 5) // one distance
		w.bits(15, 4)
		// The code of the lengths: 3 bits for 10 and 16, 4 bits for the other twelve. Canonical: 10 is 000, 16 is 001.
		sizes := [19]uint32{1: 4, 3: 4, 4: 4, 5: 4, 7: 4, 8: 4, 9: 4, 10: 3, 11: 4, 12: 4, 13: 4, 14: 4, 16: 3}
		sizes[15] = 4
		for _, symbol := range [...]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15} {
			w.bits(sizes[symbol], 3)
		}
		four := [...]int{1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15}
		length := func(symbol int) {
			for i, s := range four {
				if s == symbol {
					w.code(uint32(4+i), 4)
				}
			}
		}
		for _, symbol := range [...]int{1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15, 15} { // 13 symbols
			length(symbol)
		}
		w.code(0, 3) // 273 times 10: one, 45 times six more, two more
		for range 45 {
			w.code(1, 3)
			w.bits(3, 2)
		}
		w.code(0, 3)
		w.code(0, 3)
		length(1) // the distance
		w.code(endOfBlock, 10)
	}
	return w.flush()
}

// bitWriter packs bits as RFC 1951 §3.1.1 has them.
type bitWriter struct {
	out  []byte
	held uint64
	n    int
}

func (w *bitWriter) bits(v uint32, n int) {
	w.held |= uint64(v) << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.held))
		w.held >>= 8
	}
}

// code writes a Huffman code, whose first bit is its most significant one.
func (w *bitWriter) code(v uint32, n int) { w.bits(bits.Reverse32(v)>>(32-n), n) }

func (w *bitWriter) flush() []byte {
	if w.n > 0 {
		w.out = append(w.out, byte(w.held))
	}
	return w.out
}
