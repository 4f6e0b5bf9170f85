package deflate_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// tick returns a message of a price feed, about 178 bytes long.
func tick(r *rand.Rand, id int) []byte {
	return fmt.Appendf(nil, `{"stream":"btcusdt@trade","data":{"e":"trade","E":%d,"s":"BTCUSDT","t":%d,"p":"%d.%02d000000",`+
		`"q":"0.%05d000","b":%d,"a":%d,"T":%d,"m":%v,"M":true}}`, int64(1723161253937)+int64(id)*17, int64(3721345678)+int64(id),
		60000+r.IntN(300), r.IntN(100),
		r.IntN(100000), int64(29112345678)+r.Int64N(4000), int64(29112345999)+r.Int64N(4000), int64(1723161253935)+int64(id)*17, r.IntN(2) == 0)
}

// ticks returns n bytes of ticks in one array.
func ticks(r *rand.Rand, n int) []byte {
	p := []byte("[")
	for i := 0; len(p) < n; i++ {
		p = append(append(p, tick(r, i)...), ',')
	}
	return p[:n]
}

// kinds are the kinds of content that messages are made of.
var kinds = map[string]func(r *rand.Rand, n int) []byte{
	"zeros":  func(_ *rand.Rand, n int) []byte { return make([]byte, n) },
	"ticks":  ticks,
	"random": random,
	"period": func(r *rand.Rand, n int) []byte {
		return bytes.Repeat(random(r, 1+r.IntN(300)), n+1)[:n]
	},
	"few": func(r *rand.Rand, n int) []byte {
		p := random(r, n)
		for i := range p {
			p[i] = "ab"[p[i]&1]
		}
		return p
	},
	"words": func(r *rand.Rand, n int) []byte {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString([]string{"the ", "message", "window", " of ", "ü€", "\n", "block", "s, ", "0", "distance "}[r.IntN(10)])
			if r.IntN(10) == 0 {
				fmt.Fprint(&b, r.Uint32())
			}
		}
		return []byte(b.String()[:n])
	},
	"mixed": func(r *rand.Rand, n int) []byte {
		p := make([]byte, 0, n)
		for len(p) < n {
			k := min(n-len(p), r.IntN(20000)+1)
			if r.IntN(2) == 0 {
				p = append(p, random(r, k)...)
			} else {
				p = append(p, ticks(r, k)...)
			}
		}
		return p
	},
}

func random(r *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// tail returns the last n bytes of p.
func tail(p []byte, n int) []byte { return p[max(len(p)-n, 0):] }

// errReference says that the reference finds a message corrupt.
var errReference = errors.New("corrupt")

// inflate is the reference: compress/flate inflates the message. The bytes behind the message must not matter, so it is read with two different
// ends. A complete message never reaches the last byte of an end.
func inflate(in, window []byte, limit int) ([]byte, error) {
	if len(in) == 0 {
		return nil, nil
	}
	one, err := inflateWith(in, window, limit, "\x01\x00\x00\xff\xff")
	if err != nil {
		return nil, err
	}
	other, err := inflateWith(in, window, limit, "\x03\x00")
	if err != nil || !bytes.Equal(one, other) {
		return nil, errReference
	}
	return one, nil
}

// inflateWith inflates a message followed by the final block end.
func inflateWith(in, window []byte, limit int, end string) ([]byte, error) {
	const removed = "\x00\x00\xff\xff"
	from := bytes.NewReader([]byte(string(in) + removed + end))
	var out []byte
	for {
		all := append(append([]byte(nil), window...), out...)
		r := flate.NewReaderDict(from, tail(all, 1<<15))
		more, err := io.ReadAll(io.LimitReader(r, int64(limit-len(out))+1))
		out = append(out, more...)
		if len(out) > limit {
			return out[:limit], io.ErrShortBuffer
		}
		if err != nil {
			return out, errReference
		}
		if left := from.Len(); left == 0 || left >= len(end) && left <= len(end)+len(removed) {
			return out, nil // left belongs to a message that ends with a final block
		} else if left < len(end) {
			return out, errReference
		}
	}
}

// squeeze compresses a message with compress/flate as RFC 7692 requires. It compresses the window first, as a message of its own, because
// flate.NewWriterDict repeats a dictionary of a few bytes as part of a stored block.
func squeeze(tb testing.TB, level int, msg, window []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, level)
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range [][]byte{window, msg} {
		b.Reset()
		if _, err = w.Write(p); err != nil {
			tb.Fatal(err)
		}
		if err = w.Flush(); err != nil {
			tb.Fatal(err)
		}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\x00\x00\xff\xff"))
}

// name returns the name of a subtest.
func name(args ...any) string {
	return strings.ReplaceAll(strings.TrimSpace(fmt.Sprintln(args...)), " ", "-")
}
