package load

import (
	"encoding/binary"
	"math/rand/v2"
)

// The data of a publication is a JSON object with one string, exactly as long as asked for:
//
//	{"l":"RRRRRRRRSSSSSQQQQQQQQKKKKKKKKDDDDDDDDDDDDDDDDfiller"}
//
// in lower-case hexadecimal: R the run, S the stream, Q the number within the stream, K the publication's number in the run, D when it was
// due, in nanoseconds of the clock of this host. The filler is a piece of a table that everybody makes from the seed; which piece depends
// on all of the numbers. So whoever receives one can tell whether a single byte of it differs, and nobody keeps what was sent.
const (
	payloadHead   = `{"l":"`
	payloadTail   = `"}`
	runDigits     = 8
	streamDigits  = 5
	numberDigits  = 8
	dueDigits     = 16
	headerDigits  = runDigits + streamDigits + 2*numberDigits + dueDigits
	payloadFixed  = len(payloadHead) + headerDigits + len(payloadTail)
	maxStreams    = 1 << (4 * streamDigits)
	fillerOffsets = 1 << 16 // pieces of the table
)

// MinBytes is the least that the data of a publication may have.
const MinBytes = 64

// stamp is what a publication says of itself.
type stamp struct {
	run    uint32
	stream uint32
	seq    uint32 // within the stream, from 1 on
	k      uint32 // within the run, from 0 on
	due    int64  // by clock
}

// verdict is what is to be said of data.
type verdict uint8

const (
	sound   verdict = iota
	foreign         // a publication of another run, as that made it
	corrupt         // none of any run
)

// payloads makes and checks the data of publications. It is read only, so anybody may use it at any time.
type payloads struct {
	run   uint32
	size  int
	table []byte
}

const fillerLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// newPayloads makes the table: 64 KiB and one payload.
func newPayloads(run uint32, seed uint64, size int) *payloads {
	p := &payloads{run: run, size: size, table: make([]byte, fillerOffsets+size)}
	r := rand.New(rand.NewPCG(seed, 0x736c75696365)) //nolint:gosec // nobody has to be kept from guessing it
	for i := range p.table {
		p.table[i] = fillerLetters[r.Uint32()%uint32(len(fillerLetters))]
	}
	return p
}

// append appends the data of a publication of this run.
func (p *payloads) append(dst []byte, s stamp) []byte {
	s.run = p.run
	dst = append(dst, payloadHead...)
	dst = appendHex(dst, uint64(s.run), runDigits)
	dst = appendHex(dst, uint64(s.stream), streamDigits)
	dst = appendHex(dst, uint64(s.seq), numberDigits)
	dst = appendHex(dst, uint64(s.k), numberDigits)
	dst = appendHex(dst, uint64(s.due), dueDigits) //nolint:gosec // the clock is positive
	dst = append(dst, p.filler(s)...)
	return append(dst, payloadTail...)
}

// filler is the piece of the table that belongs to a stamp.
func (p *payloads) filler(s stamp) []byte {
	at := mix(mix(uint64(s.run)<<32|uint64(s.stream), uint64(s.seq)<<32|uint64(s.k)), uint64(s.due)) % fillerOffsets //nolint:gosec // as above
	return p.table[at : at+uint64(p.size-payloadFixed)]                                                              //nolint:gosec // at least 64 bytes
}

// read takes data apart and checks every byte.
func (p *payloads) read(data []byte) (s stamp, v verdict) {
	if len(data) != p.size || string(data[:len(payloadHead)]) != payloadHead || string(data[len(data)-len(payloadTail):]) != payloadTail {
		return s, corrupt
	}
	in := data[len(payloadHead) : len(data)-len(payloadTail)]
	var ok hexCheck
	s.run = uint32(ok.read(in[:runDigits])) //nolint:gosec // eight digits
	in = in[runDigits:]
	s.stream = uint32(ok.read(in[:streamDigits])) //nolint:gosec // five digits
	in = in[streamDigits:]
	s.seq = uint32(ok.read(in[:numberDigits])) //nolint:gosec // eight digits
	in = in[numberDigits:]
	s.k = uint32(ok.read(in[:numberDigits])) //nolint:gosec // eight digits
	in = in[numberDigits:]
	s.due = int64(ok.read(in[:dueDigits])) //nolint:gosec // compared with what is sent
	in = in[dueDigits:]
	switch {
	case ok.bad || s.seq == 0 || string(in) != string(p.filler(s)):
		return s, corrupt
	case s.run != p.run:
		return s, foreign
	}
	return s, sound
}

const hexLetters = "0123456789abcdef"

func appendHex(dst []byte, n uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, hexLetters[n>>(4*i)&15])
	}
	return dst
}

// hexValues holds the value of each lower-case digit, and for what is none a bit that no value has.
var hexValues = func() (t [256]byte) {
	for i := range t {
		t[i] = notHex
	}
	for i := range hexLetters {
		t[hexLetters[i]] = byte(i) //nolint:gosec // below 16
	}
	return t
}()

const notHex = 0x80

// hexCheck reads numbers and remembers whether something else was among them.
type hexCheck struct{ bad bool }

func (c *hexCheck) read(in []byte) (n uint64) {
	var all byte
	for _, b := range in {
		v := hexValues[b]
		all |= v
		n = n<<4 | uint64(v)
	}
	c.bad = c.bad || all&notHex != 0
	return n
}

// mix makes one number of two, in which each bit depends on all (the finalizer of splitmix64, https://prng.di.unimi.it/splitmix64.c).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// seedOf makes a seed of its own for one thing, so that nothing random depends on something else that is.
func seedOf(seed uint64, what string, n int) uint64 {
	var name [8]byte
	copy(name[:], what)
	return mix(mix(seed, binary.LittleEndian.Uint64(name[:])), uint64(n)) //nolint:gosec // any number will do
}
