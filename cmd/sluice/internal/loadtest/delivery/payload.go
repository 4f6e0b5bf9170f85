package delivery

import "math/rand/v2"

// The data of a publication is a JSON object with one string. It is exactly as long as the run asks for:
//
//	{"l":"RRRRRRRRSSSSSQQQQQQQQKKKKKKKKDDDDDDDDDDDDDDDDCCCCfiller"}
//
// The numbers are lower-case hexadecimal: R is the run, S the stream, Q the sequence number within the stream, K the publication's number in
// the run, and D the time at which it was due, in nanoseconds of the host clock. C is a checksum of the numbers. The filler is a part of a table
// that each process makes from the seed; all of the numbers together determine which part it is. A receiver can therefore check every byte
// without a copy of the data.
const (
	payloadHead   = `{"l":"`
	payloadTail   = `"}`
	runDigits     = 8
	streamDigits  = 5
	numberDigits  = 8
	dueDigits     = 16
	headerDigits  = runDigits + streamDigits + 2*numberDigits + dueDigits
	checkLetters  = 4
	payloadFixed  = len(payloadHead) + headerDigits + checkLetters + len(payloadTail)
	fillerOffsets = 1 << 16 // places in the table where a filler can begin
)

const (
	// MinBytes is the minimum size of the data of a publication.
	MinBytes = 64
	// MaxStreams is more than the highest number of a stream.
	MaxStreams = 1 << (4 * streamDigits)
)

// Header is the decoded header of a publication's data.
type Header struct {
	Run    uint32
	Stream uint32 // below MaxStreams
	Seq    uint32 // sequence number within the stream, from 1 on
	K      uint32 // number within the run, from 0 on
	Due    int64  // host clock
}

// Verdict is the outcome of checking the data of a publication.
type Verdict uint8

// The verdicts.
const (
	Valid   Verdict = iota
	Foreign         // an intact publication of another run
	Corrupt         // not the data of any run, or changed
)

// Payloads makes and checks the data of publications. It does not change, so all methods may be called concurrently.
type Payloads struct {
	run   uint32
	size  int
	table []byte
}

const fillerLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// NewPayloads returns the payloads of a run whose data have the given size. The table takes 64 KiB plus one payload.
func NewPayloads(run uint32, seed uint64, size int) *Payloads {
	p := &Payloads{run: run, size: size, table: make([]byte, fillerOffsets+size)}
	r := rand.New(rand.NewPCG(seed, 0x736c75696365)) //nolint:gosec // it need not be unpredictable
	for i := range p.table {
		p.table[i] = fillerLetters[r.Uint32()%uint32(len(fillerLetters))]
	}
	return p
}

// Append appends the data of a publication of this run to dst. It ignores s.Run.
func (p *Payloads) Append(dst []byte, s Header) []byte {
	s.Run = p.run
	dst = append(dst, payloadHead...)
	dst = appendHex(dst, uint64(s.Run), runDigits)
	dst = appendHex(dst, uint64(s.Stream), streamDigits)
	dst = appendHex(dst, uint64(s.Seq), numberDigits)
	dst = appendHex(dst, uint64(s.K), numberDigits)
	dst = appendHex(dst, uint64(s.Due), dueDigits) //nolint:gosec // the clock is positive
	check, filler := p.rest(s)
	return append(append(append(dst, check[:]...), filler...), payloadTail...)
}

// rest returns the checksum of a header, and the part of the table that belongs to it.
func (p *Payloads) rest(s Header) (check [checkLetters]byte, filler []byte) {
	sum := Mix(Mix(uint64(s.Run)<<32|uint64(s.Stream), uint64(s.Seq)<<32|uint64(s.K)), uint64(s.Due)) //nolint:gosec // as above
	at := sum % fillerOffsets
	sum /= fillerOffsets
	for i := range check {
		check[i] = fillerLetters[sum%uint64(len(fillerLetters))]
		sum /= uint64(len(fillerLetters))
	}
	return check, p.table[at : at+uint64(p.size-payloadFixed)] //nolint:gosec // at least 64 bytes
}

// Read decodes the header of data and checks every byte. The header is defined only if the result is Valid or Foreign.
func (p *Payloads) Read(data []byte) (s Header, v Verdict) {
	if len(data) != p.size || string(data[:len(payloadHead)]) != payloadHead || string(data[len(data)-len(payloadTail):]) != payloadTail {
		return s, Corrupt
	}
	in := data[len(payloadHead) : len(data)-len(payloadTail)]
	var ok hexCheck
	s.Run = uint32(ok.read(in[:runDigits])) //nolint:gosec // eight digits
	in = in[runDigits:]
	s.Stream = uint32(ok.read(in[:streamDigits])) //nolint:gosec // five digits
	in = in[streamDigits:]
	s.Seq = uint32(ok.read(in[:numberDigits])) //nolint:gosec // eight digits
	in = in[numberDigits:]
	s.K = uint32(ok.read(in[:numberDigits])) //nolint:gosec // eight digits
	in = in[numberDigits:]
	s.Due = int64(ok.read(in[:dueDigits])) //nolint:gosec // the filler depends on it, so another value is found out
	in = in[dueDigits:]
	check, filler := p.rest(s)
	switch {
	case ok.bad || s.Seq == 0 || string(in[:checkLetters]) != string(check[:]) || string(in[checkLetters:]) != string(filler):
		return s, Corrupt
	case s.Run != p.run:
		return s, Foreign
	}
	return s, Valid
}

const hexLetters = "0123456789abcdef"

func appendHex(dst []byte, n uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, hexLetters[n>>(4*i)&15])
	}
	return dst
}

// hexValues maps each lower-case digit to its value, and every other byte to notHex, a bit that no value has.
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

// hexCheck decodes hexadecimal numbers and remembers whether one of the bytes was no lower-case digit.
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

// Mix hashes two numbers into one with the finalizer of splitmix64 (https://prng.di.unimi.it/splitmix64.c).
func Mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
