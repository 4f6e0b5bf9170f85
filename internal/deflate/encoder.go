package deflate

import (
	"encoding/binary"
	"sync"
)

// The levels of [NewEncoder].
const (
	MinLevel = 1 // fastest
	MaxLevel = 9 // smallest
)

// The sizes of windows, as exponents of two (RFC 7692 §7.1.2).
const (
	MinWindowBits = 8
	MaxWindowBits = 15
)

// Encoder compresses messages one after the other. Each message may refer to earlier ones, within the window.
//
// An encoder allocates its memory with the first message, and more as its context grows. With a window of 2^15 bytes that is 96 KiB up to level
// 3 and 160 KiB above, with one of 2^12 bytes 24 KiB and 32 KiB. Memory that only a call needs is borrowed from a pool.
//
// One goroutine at a time may use an encoder.
type Encoder struct {
	// Set at New.
	effort effort
	window int  // the greatest distance of a match
	shift  uint // how far a hash is shifted to become an index of heads

	// The context and, during a call, the part of the message in progress. Every byte since Reset has a position. Positions are not reused, so
	// entries of the tables for forgotten bytes are too far away to match.
	buf    []byte
	base   uint32 // position of buf[0]
	hashed int    // the bytes of buf before this index have been entered in the tables, as far as the level enters them

	heads []uint32 // by hash: the last position with that hash
	chain []uint16 // by position modulo the window: the distance to the last position with the same hash, 0 for none; nil below level 4
}

// NewEncoder returns an encoder. Levels 1 to 3 check one earlier occurrence of the same bytes, higher levels check more and more. 0 means 1, and
// a level out of range means the nearest one. References go back at most 2^windowBits bytes; a value out of the range 8 to 15 means the nearest
// one.
func NewEncoder(level, windowBits int) *Encoder {
	windowBits = min(max(windowBits, MinWindowBits), MaxWindowBits)
	return &Encoder{
		effort: efforts[min(max(level, MinLevel), MaxLevel)],
		window: 1 << windowBits,
		shift:  uint(32 - tableBits[windowBits-MinWindowBits]),
		base:   1<<windowBits + 1,
	}
}

// tableBits is the size of heads, as an exponent of two, for each size of the window.
var tableBits = [...]int{10, 10, 11, 11, 12, 12, 13, 13}

// Reset forgets the context: the next message refers to itself only. Reset is cheap, because it does not clear the tables.
func (e *Encoder) Reset() {
	e.base += uint32(len(e.buf) + e.window + 1)
	e.buf = e.buf[:0]
	e.hashed = 0
}

// Append compresses msg and appends the payload of the message to dst (RFC 7692 §7.2.1): blocks that are not final, then the beginning of an
// empty stored block up to the next whole byte. The payload of an empty message is one zero octet (§7.2.3.6).
//
// Each part of the message is written in the smallest of the three kinds of blocks. So a message grows by at most 6 bytes, and 5 bytes for each
// 12 KiB of it.
//
// msg must not overlap dst, and is not kept. Bytes of dst behind its length, up to its capacity, may change.
func (e *Encoder) Append(dst, msg []byte) []byte {
	s := scratches.Get().(*scratch)
	w := writer{out: dst[:cap(dst)], at: len(dst)}
	for len(msg) > 0 {
		n := e.block(s, msg)
		s.write(&w, msg[:n])
		msg = msg[n:]
	}
	scratches.Put(s)
	w.room(2)
	w.write(0, 3)
	w.align()
	return w.out[:w.at]
}

// block makes the tokens of one block from the beginning of msg, and returns how many bytes of msg they stand for.
func (e *Encoder) block(s *scratch, msg []byte) int {
	s.n = 0
	at := 0
	for at < len(msg) && s.n <= len(s.all)-minPart {
		n := min(len(msg)-at, len(s.all)-s.n)
		start := len(e.buf)
		start, n = e.take(start, msg[at:at+n])
		e.match(s, start)
		at += n
	}
	return at
}

// take appends the beginning of part to the context, as much as there is room for, and returns its index and length.
func (e *Encoder) take(start int, part []byte) (at, n int) {
	if e.heads == nil {
		e.heads = make([]uint32, 1<<(32-e.shift))
		if e.effort.depth > 0 {
			e.chain = make([]uint16, e.window)
		}
	}
	// A chain allows positions in twice the window. For small windows the parts would then be too small, so there is more room.
	most := e.window + max(e.window, minPart)
	if free := most - start; free < min(len(part), most-e.window) {
		e.slide(start - e.window)
		start = e.window
	}
	n = min(len(part), most-start)
	if need := start + n; need > cap(e.buf) {
		grown := make([]byte, start, min(max(need, 2*cap(e.buf), 512), most))
		copy(grown, e.buf)
		e.buf = grown
	}
	e.buf = append(e.buf, part[:n]...)
	return start, n
}

// slide removes n bytes from the beginning of the context.
func (e *Encoder) slide(n int) {
	e.buf = e.buf[:copy(e.buf, e.buf[n:])]
	e.base += uint32(n)
	e.hashed = max(e.hashed-n, 0)
}

// maxBase is the position after which numbering begins again. No position may become zero.
const maxBase = 1 << 31

// rebase begins numbering positions again, of which there are 2^32. Later messages find no match in the bytes that the context contains now.
func (e *Encoder) rebase() {
	clear(e.heads)
	e.base = uint32(e.window + 1)
	e.hashed = len(e.buf)
}

// The most tokens in a block, and how many must be free before another part of the message is added.
const (
	maxTokens = 16 << 10
	minPart   = 4 << 10
)

// token is a literal, or a match: the bit isMatch, the length less minMatch, and the distance less one.
type token uint32

const isMatch token = 1 << 31

func matchToken(length, dist int) token { return isMatch | token(length-minMatch)<<16 | token(dist-1) }

func (t token) length() uint8 { return uint8(t >> 16) }
func (t token) dist() uint32  { return uint32(t & 0xffff) }

// scratch is the memory that only the making of a block needs.
type scratch struct {
	all [maxTokens]token
	n   int // number of tokens in all

	lit      [litSymbols]uint32 // the frequency of each symbol
	dist     [distSymbols]uint32
	litLens  [litSymbols]uint8
	distLens [distSymbols]uint8
	codes    codes
	builder  builder
	head     header
}

// scratches is the pool that all encoders share. A scratch takes about 72 KiB.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

// literals adds one token for each byte of p.
func (s *scratch) literals(p []byte) {
	to := s.all[s.n : s.n+len(p)]
	for i, c := range p {
		to[i] = token(c)
	}
	s.n += len(p)
}

// add adds one token.
func (s *scratch) add(t token) {
	s.all[s.n] = t
	s.n++
}

// fewTokens is the number of tokens below which codes of a block's own cannot pay off. Their description takes about 30 bytes, and they save two
// or three bits a token.
const fewTokens = 48

// write writes the tokens as the smallest kind of block. raw is the bytes that the tokens stand for.
func (s *scratch) write(w *writer, raw []byte) {
	tokens := s.all[:s.n]
	stored := storedBits(w.used, len(raw))
	fixed := fixedBits(tokens)
	dynamic := fixed
	if len(tokens) >= fewTokens {
		dynamic = s.price(tokens)
	}
	w.room((min(fixed, dynamic, stored) + 7) / 8)
	switch {
	case stored <= min(fixed, dynamic):
		w.stored(raw)
	case dynamic < fixed:
		w.write(0b100, 3)
		s.head.write(w)
		s.codes.assign(s.litLens[:], s.distLens[:])
		w.tokens(tokens, &s.codes)
	default:
		w.write(0b010, 3)
		w.tokens(tokens, fixedCodes)
	}
}

// fixedBits returns the size in bits of a block with the fixed codes.
func fixedBits(tokens []token) int {
	n := 3 + fixedCodes.literal[endOfBlock].len()
	for _, t := range tokens {
		if t < isMatch {
			n += fixedCodes.literal[t&0xff].len()
			continue
		}
		n += fixedCodes.length[t.length()].len() + fixedDistBits + uint(distExtra[distSymbol(t.dist())%distSymbols])
	}
	return int(n)
}

// price returns the size in bits of a block with codes of its own. It leaves the lengths of these codes in s.
func (s *scratch) price(tokens []token) int {
	s.count(tokens)
	s.builder.lengths(s.litLens[:], s.lit[:], maxBits)
	s.builder.lengths(s.distLens[:], s.dist[:], maxBits)
	size := 3 + s.head.build(&s.builder, s.litLens[:], s.distLens[:])
	for i, f := range s.lit[:endOfBlock+1] {
		size += int(f) * int(s.litLens[i])
	}
	for i, n := range lengthExtra {
		size += int(s.lit[endOfBlock+1+i]) * int(s.litLens[endOfBlock+1+i]+n)
	}
	for i, n := range distExtra {
		size += int(s.dist[i]) * int(s.distLens[i]+n)
	}
	return size
}

// count sets the frequencies of the symbols in tokens.
func (s *scratch) count(tokens []token) {
	clear(s.lit[:])
	clear(s.dist[:])
	s.lit[endOfBlock] = 1
	for _, t := range tokens {
		if t < isMatch {
			s.lit[t&0xff]++
			continue
		}
		s.lit[endOfBlock+1+int(lengthSymbols[t.length()])]++
		s.dist[distSymbol(t.dist())%distSymbols]++
	}
}

// maxStored is the most bytes in a stored block (RFC 1951 §3.2.4).
const maxStored = 1<<16 - 1

// storedBits returns the size in bits of n bytes in stored blocks, if used bits of the current byte are already written.
func storedBits(used uint, n int) int {
	first := 3 + (8-(used+3)%8)%8 + 32
	more := (n - 1) / maxStored
	return int(first) + more*40 + n*8
}

// stored writes p in stored blocks.
func (w *writer) stored(p []byte) {
	for len(p) > 0 {
		n := min(len(p), maxStored)
		w.write(0, 3)
		w.align()
		w.write(uint64(n)|uint64(^uint16(n))<<16, 32)
		w.at += copy(w.out[w.at:], p[:n])
		p = p[n:]
	}
}

// load32 and load64 read the bytes at i in little-endian order.
func load32(p []byte, i int) uint32 { return binary.LittleEndian.Uint32(p[i:]) }
func load64(p []byte, i int) uint64 { return binary.LittleEndian.Uint64(p[i:]) }
