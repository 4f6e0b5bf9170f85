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

// Encoder compresses messages one after the other: each may refer to those before, within the window.
//
// An encoder takes its memory with the first message, and more as its context grows. With a context of 2^15 bytes that is 96 KiB up to
// level 3 and 160 KiB above, with one of 2^12 bytes 24 KiB and 32 KiB. What is needed only during a call is borrowed.
//
// One goroutine at a time may use an encoder.
type Encoder struct {
	// Set at New.
	effort effort
	window int  // the furthest distance
	shift  uint // of a hash, so that what is left is an index of heads

	// The context and, during a call, the part of the message that is looked at. Every byte since Reset has a position; positions are
	// never used again, so that whatever the tables hold of what was forgotten is too far away.
	buf    []byte
	base   uint32 // position of buf[0]
	hashed int    // the bytes of buf before it are in the tables, if they are to be there

	heads []uint32 // by hash: the last position with it
	chain []uint16 // by position modulo the window: how far back the one before with the same hash is, 0 for none; nil below level 4
}

// NewEncoder returns an encoder. Levels 1 to 3 look at one place where the same bytes may have been before, higher ones at more and
// more; 0 is 1, and what is out of range is taken as the nearest level. windowBits says how far back references go, in the same way:
// 2^8 to 2^15 bytes.
func NewEncoder(level, windowBits int) *Encoder {
	windowBits = min(max(windowBits, MinWindowBits), MaxWindowBits)
	return &Encoder{
		effort: efforts[min(max(level, MinLevel), MaxLevel)],
		window: 1 << windowBits,
		shift:  uint(32 - tableBits[windowBits-MinWindowBits]),
		base:   1<<windowBits + 1,
	}
}

// tableBits are the sizes of heads for each size of a window.
var tableBits = [...]int{10, 10, 11, 11, 12, 12, 13, 13}

// Reset forgets the context: the next message refers to itself only. It costs next to nothing.
func (e *Encoder) Reset() {
	e.base += uint32(len(e.buf) + e.window + 1)
	e.buf = e.buf[:0]
	e.hashed = 0
}

// Append compresses msg behind dst, as the payload of a message has it (RFC 7692 §7.2.1): blocks that are not final, then the beginning
// of an empty stored block up to the next whole byte. Of an empty message that is all: one zero octet (§7.2.3.6).
//
// Each part of the message is written in the smallest of the three kinds of blocks, so that a message never grows by more than 6 bytes
// and 5 for each 12 KiB of it.
//
// msg may not overlap dst, and is not kept. Bytes of dst behind its length, up to its capacity, may change.
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

// block looks for matches in as much of msg as makes a block, and returns how much that is.
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

// take appends what there is room for of part to the context, and returns where it begins and how much it is.
func (e *Encoder) take(start int, part []byte) (at, n int) {
	if e.heads == nil {
		e.heads = make([]uint32, 1<<(32-e.shift))
		if e.effort.depth > 0 {
			e.chain = make([]uint16, e.window)
		}
	}
	// Twice the window is what positions in a chain allow; for small windows the parts would be too small.
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

// slide takes n bytes away from the beginning of the context.
func (e *Encoder) slide(n int) {
	e.buf = e.buf[:copy(e.buf, e.buf[n:])]
	e.base += uint32(n)
	e.hashed = max(e.hashed-n, 0)
}

// maxBase is where positions begin again: none may come to be zero.
const maxBase = 1 << 31

// rebase begins again with the positions, of which there are 2^32. What is in the context is not found any more.
func (e *Encoder) rebase() {
	clear(e.heads)
	e.base = uint32(e.window + 1)
	e.hashed = len(e.buf)
}

// The number of tokens in a block, and how many must be left for another part of the message.
const (
	maxTokens = 16 << 10
	minPart   = 4 << 10
)

// token is a literal, or a match: isMatch, its length less minMatch, its distance less one.
type token uint32

const isMatch token = 1 << 31

func matchToken(length, dist int) token { return isMatch | token(length-minMatch)<<16 | token(dist-1) }

func (t token) length() uint8 { return uint8(t >> 16) }
func (t token) dist() uint32  { return uint32(t & 0xffff) }

// scratch is what making a block needs, and nobody afterwards.
type scratch struct {
	all [maxTokens]token
	n   int // how many of them there are

	lit      [litSymbols]uint32 // how often each symbol occurs
	dist     [distSymbols]uint32
	litLens  [litSymbols]uint8
	distLens [distSymbols]uint8
	codes    codes
	builder  builder
	head     header
}

// scratches are shared by all encoders. One is about 72 KiB.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

// literals adds one token a byte.
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

// fewTokens is below what the description of a code of its own can be worth: it takes some 30 bytes, and saves two or three bits a token.
const fewTokens = 48

// write writes the tokens as the smallest kind of block. raw is what they stand for.
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

// fixedBits returns the size of a block with the fixed codes.
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

// price returns the size of a block with codes of its own, whose lengths it leaves behind.
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

// count counts the symbols of tokens.
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

// maxStored is the most that a stored block holds (RFC 1951 §3.2.4).
const maxStored = 1<<16 - 1

// storedBits returns the size of n bytes in stored blocks, behind used bits of a byte.
func storedBits(used uint, n int) int {
	first := 3 + (8-(used+3)%8)%8 + 32
	more := (n - 1) / maxStored
	return int(first) + more*40 + n*8
}

// stored writes stored blocks.
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

// load32 and load64 read the bytes at i, the first one lowest.
func load32(p []byte, i int) uint32 { return binary.LittleEndian.Uint32(p[i:]) }
func load64(p []byte, i int) uint64 { return binary.LittleEndian.Uint64(p[i:]) }
