package deflate

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The alphabets of a block and their limits (RFC 1951 §3.2.5 to §3.2.7).
const (
	endOfBlock  = 256 // the symbol that ends a block
	litSymbols  = 286 // literals, the end of the block, and lengths
	distSymbols = 30
	setSymbols  = 19 // symbols of the code for code lengths
	maxBits     = 15 // the longest code
	maxSetBits  = 7  // the longest code of the code for code lengths
	minMatch    = 3
	maxMatch    = 258
)

// lengthBase is the smallest length of each length symbol, less minMatch. distBase is the smallest distance of each distance symbol, less one.
// lengthExtra and distExtra are the numbers of extra bits. setOrder is the order in which the lengths of the code for code lengths are written
// (RFC 1951 §3.2.5, §3.2.7).
var (
	lengthBase = [...]uint8{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 255,
	}
	lengthExtra = [...]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	distBase    = [distSymbols]uint16{
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
		8192, 12288, 16384, 24576,
	}
	distExtra = [distSymbols]uint8{
		0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13,
	}
	setOrder = [setSymbols]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
)

// lengthSymbols maps a match length less minMatch to its length symbol, counted from the first one.
var lengthSymbols = func() (symbols [maxMatch - minMatch + 1]uint8) {
	for symbol, base := range lengthBase {
		for i := int(base); i < len(symbols); i++ {
			symbols[i] = uint8(symbol)
		}
	}
	return symbols
}()

// distSymbol returns the symbol of a distance less one. The two highest bits of that value determine it.
func distSymbol(d uint32) uint32 {
	if d < 2 {
		return d
	}
	n := uint32(bits.Len32(d))
	return 2*(n-1) + d>>((n-2)&31)&1
}

// code is the code of a symbol: its bits, with the bit that is written first lowest, and in the upper byte the number of bits.
type code uint32

func (c code) bits() uint64 { return uint64(c & (1<<24 - 1)) }
func (c code) len() uint    { return uint(c >> 24) }

// codes are the codes that a block is written with.
type codes struct {
	literal [endOfBlock + 1]code
	length  [maxMatch - minMatch + 1]code // for each length less minMatch, with the extra bits of the symbol
	dist    [distSymbols]code
}

// fixedLengths are the lengths of the fixed codes (RFC 1951 §3.2.6). The last two symbols are part of the code, but never used.
var fixedLengths = func() (lens [litSymbols + 2]uint8) {
	for i := range lens {
		switch {
		case i < 144:
			lens[i] = 8
		case i < 256:
			lens[i] = 9
		case i < 280:
			lens[i] = 7
		default:
			lens[i] = 8
		}
	}
	return lens
}()

// fixedDistBits is the length of every fixed distance code.
const fixedDistBits = 5

// fixedCodes are the codes of a block with fixed codes.
var fixedCodes = func() *codes {
	var lens [distSymbols + 2]uint8
	for i := range lens {
		lens[i] = fixedDistBits
	}
	c := new(codes)
	c.assign(fixedLengths[:], lens[:])
	return c
}()

// assign computes the codes from their lengths. The slices may contain more lengths than there are usable symbols.
func (c *codes) assign(lit, dist []uint8) {
	next := firstCodes(lit)
	for symbol, n := range lit[:len(c.literal)] {
		c.literal[symbol] = next.take(n)
	}
	at := 0
	for i, extra := range lengthExtra {
		symbol := endOfBlock + 1 + i
		end := len(c.length)
		if i+1 < len(lengthBase) {
			end = int(lengthBase[i+1])
		}
		if k := next.take(lit[symbol]); k != 0 {
			for n := range end - at {
				c.length[at+n] = code(n)<<k.len() + k + code(extra)<<24
			}
		}
		at = end
	}
	next = firstCodes(dist)
	for i := range c.dist {
		c.dist[i] = next.take(dist[i])
	}
}

// codeMaker holds the next code of each length.
type codeMaker [maxBits + 2]uint32

// firstCodes returns the first code of each length (RFC 1951 §3.2.2).
func firstCodes(lens []uint8) (next codeMaker) {
	for _, n := range lens {
		next[n&maxBits+1]++
	}
	next[1] = 0 // symbols without a code
	for n := 1; n < len(next); n++ {
		next[n] = (next[n] + next[n-1]) << 1
	}
	return next
}

// take returns the next code of n bits, or no code if n is zero.
func (m *codeMaker) take(n uint8) code {
	if n == 0 {
		return 0
	}
	v := m[n&maxBits]
	m[n&maxBits]++
	return code(n)<<24 | code(bits.Reverse16(uint16(v))>>((16-n)&15))
}

// builder computes the lengths of Huffman codes. It is working memory, without meaning between two calls.
type builder struct {
	order  [litSymbols]uint32     // used symbols by ascending frequency: frequency and symbol
	weight [2 * litSymbols]uint32 // of the nodes of the tree: first the symbols in their order, then the inner nodes
	parent [2 * litSymbols]uint16 // of each node
}

// symbolBits is the number of bits for the symbol in an entry of order. The other bits are the frequency.
const symbolBits = 9

// lengths sets lens to the lengths of a code for symbols with the frequencies freq. No length exceeds limit. Without symbols all lengths are
// zero, and a single symbol gets one bit. The sum of all frequencies must be below 1<<23.
//
// The algorithm is Huffman's: it joins the two lightest nodes until one is left. Both the symbols and the inner nodes come in the order of their
// weight, so two queues yield the lightest node. If the tree is deeper than limit, balance moves leaves down instead.
func (b *builder) lengths(lens []uint8, freq []uint32, limit int) {
	n := 0
	for symbol, f := range freq {
		lens[symbol] = 0
		if f > 0 {
			b.order[n] = f<<symbolBits | uint32(symbol)
			n++
		}
	}
	order := b.order[:n]
	if n < 2 {
		for _, o := range order {
			lens[o&(1<<symbolBits-1)] = 1
		}
		return
	}
	slices.Sort(order)
	count := b.depths(order, limit)
	balance(count[:limit+1])
	i := 0
	for depth := limit; depth > 0; depth-- {
		for range count[depth] {
			lens[order[i]&(1<<symbolBits-1)] = uint8(depth)
			i++
		}
	}
}

// depths builds the tree of at least two symbols, and returns the number of symbols at each depth. Deeper symbols than limit count at limit.
func (b *builder) depths(order []uint32, limit int) (count [maxBits + 1]int) {
	n := len(order)
	for i, o := range order {
		b.weight[i] = o >> symbolBits
	}
	leaf, joined := 0, n
	root := 2*n - 2
	for node := n; node <= root; node++ {
		b.weight[node] = 0
		for range 2 {
			lightest := joined
			if leaf < n && (joined == node || b.weight[leaf] <= b.weight[joined]) {
				lightest = leaf
				leaf++
			} else {
				joined++
			}
			b.weight[node] += b.weight[lightest]
			b.parent[lightest] = uint16(node)
		}
	}
	// From here on weight[node] is the depth of the node.
	b.weight[root] = 0
	for node := root - 1; node >= 0; node-- {
		depth := b.weight[b.parent[node]] + 1
		b.weight[node] = depth
		if node < n {
			count[min(int(depth), limit)]++
		}
	}
	return count
}

// balance changes the counts of symbols at each depth to those of a complete code, after depths has counted deeper symbols at the last depth.
// While there are too many codes, one symbol of the last depth joins a leaf further up, which moves down by one.
func balance(count []int) {
	limit := len(count) - 1
	used := 0
	for depth, n := range count {
		used += n << (limit - depth)
	}
	for ; used > 1<<limit; used-- {
		depth := limit - 1
		for count[depth] == 0 {
			depth--
		}
		count[depth]--
		count[depth+1] += 2
		count[limit]--
	}
}

// writer appends bits to a byte slice. Within its length, out must have room for all written bits and eight more bytes.
type writer struct {
	out  []byte
	at   int    // number of whole bytes written
	acc  uint64 // bits that do not fill a byte yet
	used uint   // number of bits in acc, below 8
}

// write writes up to 56 bits.
func (w *writer) write(v uint64, n uint) {
	w.acc |= v << w.used
	w.used += n
	binary.LittleEndian.PutUint64(w.out[w.at:], w.acc)
	w.at += int(w.used >> 3)
	w.acc >>= w.used &^ 7
	w.used &= 7
}

// align fills the current byte with zeros.
func (w *writer) align() {
	if w.used > 0 {
		w.write(0, 8-w.used)
	}
}

// room makes room for n more bytes.
func (w *writer) room(n int) {
	if n += w.at + 8; n > len(w.out) {
		w.out = slices.Grow(w.out[:w.at], n-w.at)
		w.out = w.out[:cap(w.out)]
	}
}

// tokens writes the codes of tokens and the end of the block. A token takes up to 48 bits: 15 and 5 for a length, 15 and 13 for a distance.
func (w *writer) tokens(tokens []token, c *codes) {
	out, at, acc, used := w.out, w.at, w.acc, w.used
	for _, t := range tokens {
		if t < isMatch {
			k := c.literal[t&0xff]
			acc |= k.bits() << (used & 63)
			used += k.len()
		} else {
			k := c.length[t.length()]
			acc |= k.bits() << (used & 63)
			used += k.len()
			d := t.dist()
			symbol := distSymbol(d)
			k = c.dist[symbol%distSymbols]
			acc |= k.bits() << (used & 63)
			used += k.len()
			acc |= uint64(d-uint32(distBase[symbol%distSymbols])) << (used & 63)
			used += uint(distExtra[symbol%distSymbols])
		}
		binary.LittleEndian.PutUint64(out[at:], acc)
		at += int(used >> 3)
		acc >>= used & 56
		used &= 7
	}
	w.at, w.acc, w.used = at, acc, used
	w.write(c.literal[endOfBlock].bits(), c.literal[endOfBlock].len())
}
