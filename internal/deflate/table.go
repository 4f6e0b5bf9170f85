package deflate

import (
	"math/bits"
	"sync"
)

// entry is the meaning of a code. From the lowest bit on: the length of the code (4 bits), the kind (4 bits, see the constants), the number of
// extra bits (4), and the value (16 bits from bit 16 on). The entry zero is no code.
type entry uint32

const (
	entryBits    = 0xf    // length of the code; for a link, of the index of the table that contains it
	entryLiteral = 1 << 4 // the value is a literal
	entryBase    = 1 << 5 // the value is the smallest length less minMatch, or the smallest distance less one
	entryEnd     = 1 << 6 // the end of the block
	entryLink    = 1 << 7 // the code is longer: the value is the index of its second table, which has 2^extra entries

	extraShift = 8
	valueShift = 16
)

func (e entry) len() uint     { return uint(e & entryBits) }
func (e entry) extra() uint   { return uint(e >> extraShift & 0xf) }
func (e entry) value() uint32 { return uint32(e >> valueShift) }

// The entries of the symbols, without the length of the code. Symbols that must not occur are zero.
var (
	litEntries  = newLitEntries()
	distEntries = newDistEntries()
	setEntries  = newSetEntries()
)

func newLitEntries() (entries [litSymbols + 2]entry) {
	for i := range endOfBlock {
		entries[i] = entryLiteral | entry(i)<<valueShift
	}
	entries[endOfBlock] = entryEnd
	for i, base := range lengthBase {
		entries[endOfBlock+1+i] = entryBase | entry(lengthExtra[i])<<extraShift | entry(base)<<valueShift
	}
	return entries
}

func newDistEntries() (entries [distSymbols + 2]entry) {
	for i, base := range distBase {
		entries[i] = entryBase | entry(distExtra[i])<<extraShift | entry(base)<<valueShift
	}
	return entries
}

func newSetEntries() (entries [setSymbols]entry) {
	for i := range entries {
		entries[i] = entryLiteral | entry(i)<<valueShift
	}
	return entries
}

// The sizes of tables. A code that is longer than the index of its table leads to a second table. litEntryMax and distMax are the most entries
// of both tables together for any complete code. zlib's program enough computes these numbers, for 288 and 32 symbols of up to 15 bits and first
// tables of these sizes.
const (
	litBits     = 10
	distBits    = 8
	setBits     = maxSetBits
	litEntryMax = 1334
	distMax     = 402
)

// sorter sorts symbols by the length of their codes.
type sorter struct {
	count  [maxBits + 1]uint16
	sorted [litSymbols + 2]uint16
}

// sort counts the lengths, and returns the symbols that have a code, shortest code first. complete reports whether the code is complete: there
// are not more codes than bits can distinguish, and every bit pattern begins with a code (RFC 1951 §3.2.2).
func (s *sorter) sort(lens []uint8) (sorted []uint16, complete bool) {
	clear(s.count[:])
	for _, n := range lens {
		s.count[n&maxBits]++
	}
	var at [maxBits + 2]uint16
	left := 1
	for n := 1; n <= maxBits; n++ {
		at[n+1] = at[n] + s.count[n]
		left = left<<1 - int(s.count[n])
		if left < 0 {
			return nil, false
		}
	}
	for symbol, n := range lens {
		if n > 0 {
			s.sorted[at[n]] = uint16(symbol)
			at[n]++
		}
	}
	return s.sorted[:at[maxBits+1]], left == 0
}

// build fills a table for a code with the given lengths, and returns the number of bits of its index, at most most. Second tables for longer
// codes follow in the same slice. It fails if the lengths make no code. It accepts two incomplete codes: one without symbols, and one with a
// single symbol of one bit. RFC 1951 §3.2.7 allows both for distances.
func (s *sorter) build(table []entry, most uint, lens []uint8, entries []entry) (bits uint, ok bool) {
	sorted, complete := s.sort(lens)
	if !complete {
		if len(sorted) > 1 || len(sorted) == 1 && lens[sorted[0]] != 1 || sorted == nil {
			return 0, false
		}
		table[0], table[1] = 0, 0
		if len(sorted) == 1 {
			table[0] = coded(entries[sorted[0]], 1)
		}
		return 1, true
	}
	longest := uint(maxBits)
	for s.count[longest] == 0 {
		longest--
	}
	most = min(most, longest)
	// The table for codes of up to n bits is the table for n-1 twice, one behind the other, with the codes of n bits added.
	filled, at := uint(0), uint32(0)
	k := 0
	for n := uint(1); n <= most; n++ {
		for s.count[n] > 0 && filled < n {
			if at > 0 {
				copy(table[1<<filled:2<<filled], table[:1<<filled])
			}
			filled++
		}
		for range s.count[n] {
			table[at] = coded(entries[sorted[k]], n)
			k++
			at = next(at, n)
		}
	}
	for ; filled < most; filled++ {
		copy(table[1<<filled:2<<filled], table[:1<<filled])
	}
	s.links(table, most, entries, at, k)
	return most, true
}

// coded returns the entry of a symbol whose code has n bits, or no code if the symbol must not occur.
func coded(e entry, n uint) entry {
	if e == 0 {
		return 0
	}
	return e | entry(n)
}

// next returns the code that follows code. Both have n bits, the first bit lowest. After the last code it returns zero.
func next(code uint32, n uint) uint32 {
	free := ^code & (1<<n - 1)
	if free == 0 {
		return 0
	}
	bit := uint32(1) << (bits.Len32(free) - 1)
	return code&(bit-1) | bit
}

// links fills the second tables, for codes longer than most bits. Their symbols are sorted[k] and all that follow. The code of the first one is
// code, followed by zeros.
func (s *sorter) links(table []entry, most uint, entries []entry, code uint32, k int) {
	end := uint32(1) << most // of the tables
	prefix, begin, width := uint32(1<<most), uint32(0), uint(0)
	for n := most + 1; n <= maxBits; n++ {
		for left := int(s.count[n]); left > 0; left-- {
			if first := code & (1<<most - 1); first != prefix {
				// The codes with this beginning fill a table of 2^width entries: increase width until they do.
				prefix, begin, width = first, end, n-most
				for space := 1<<width - left; space > 0 && width+most < maxBits; {
					width++
					space = space<<1 - int(s.count[most+width])
				}
				end += 1 << width
				table[prefix] = entryLink | entry(most) | entry(width)<<extraShift | entry(begin)<<valueShift
			}
			e := coded(entries[s.sorted[k]], n-most)
			for i := code >> most; i < 1<<width; i += 1 << (n - most) {
				table[begin+i] = e
			}
			k++
			code = next(code, n)
		}
	}
}

// fixedTables returns the tables of the fixed codes (RFC 1951 §3.2.6).
var fixedTables = sync.OnceValue(func() *tables {
	t := new(tables)
	var s sorter
	var dist [distSymbols + 2]uint8
	for i := range dist {
		dist[i] = fixedDistBits
	}
	t.litBits, _ = s.build(t.lit[:], litBits, fixedLengths[:], litEntries[:])
	t.distBits, _ = s.build(t.dist[:], distBits, dist[:], distEntries[:])
	return t
})

// tables are the decoding tables of a block.
type tables struct {
	litBits  uint
	distBits uint
	lit      [litEntryMax]entry
	dist     [distMax]entry
}
