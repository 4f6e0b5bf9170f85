package delta_test

import (
	"bytes"
	"testing"

	"github.com/sluice-push/sluice/push/delta"
)

// The encoders of the fuzz targets are shared by all inputs, so that a state that one input leaves behind meets the next. Each process of the
// fuzzer calls a target from one goroutine only.

// FuzzFossilRoundTrip checks that the delta restores every value and is not too long.
func FuzzFossilRoundTrip(f *testing.F) {
	for seed, m := range makers {
		p := m.make(newRand(uint64(seed)))
		f.Add(p.from, p.to)
	}
	f.Add([]byte{}, []byte{})
	var e delta.Encoder
	f.Fuzz(func(t *testing.T, from, to []byte) {
		checkFossil(t, &e, pair{from, to})
	})
}

// FuzzApplyFossil applies any input, and compares with a simple decoder.
func FuzzApplyFossil(f *testing.F) {
	var e delta.Encoder
	for seed, m := range makers {
		p := m.make(newRand(uint64(seed)))
		f.Add(p.from, e.AppendFossil(nil, p.from, p.to))
	}
	f.Add([]byte("abc"), []byte("3\n2@0,1:c1XObC0;"))
	f.Add([]byte("abc"), []byte("3~~~~~\n3~~~~~@0,"))
	const limit = 10_000
	f.Fuzz(func(t *testing.T, from, d []byte) {
		got, err := delta.ApplyFossil([]byte("before"), from, d, limit)
		got, found := bytes.CutPrefix(got, []byte("before"))
		if !found || len(got) > limit || cap(got) > 2*limit+1024 || err != nil && len(got) > 0 {
			t.Fatalf("%q, %v", got, err)
		}
		want, ok := plainApply(from, d, limit)
		if ok != (err == nil) || ok && !bytes.Equal(got, want) {
			t.Fatalf("%q to %q: %q, %v; the plain decoder says %q, %v", d, from, got, err, want, ok)
		}
	})
}

// plainApply is a decoder of Fossil deltas that is simple rather than fast.
func plainApply(from, d []byte, limit uint64) (to []byte, ok bool) {
	read := func(end string) (n uint64, op byte) {
		digits := 0
		for len(d) > 0 {
			c := d[0]
			d = d[1:]
			v := bytes.IndexByte([]byte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"), c)
			if v < 0 {
				if digits == 0 || !bytes.Contains([]byte(end), []byte{c}) {
					return 0, 0
				}
				return n, c
			}
			if n, digits = n*64+uint64(v), digits+1; n >= 1<<32 {
				return 0, 0
			}
		}
		return 0, 0
	}
	size, op := read("\n")
	if op == 0 || size > limit {
		return nil, false
	}
	for {
		n, op := read("@:;")
		part := d
		switch op {
		case '@':
			offset, end := read(",")
			if end == 0 || offset > uint64(len(from)) {
				return nil, false
			}
			part = from[offset:]
		case ':':
		case ';':
			return to, uint64(len(to)) == size && len(d) == 0 && number(n) == sum(to)
		default:
			return nil, false
		}
		if n > uint64(len(part)) || uint64(len(to))+n > size {
			return nil, false
		}
		to = append(to, part[:n]...)
		if op == ':' {
			d = d[n:]
		}
	}
}

// FuzzMergePatch checks patches against encoding/json and the algorithm of the RFC on maps.
func FuzzMergePatch(f *testing.F) {
	for _, tt := range appendixA {
		f.Add([]byte(tt.original), []byte(tt.result))
		f.Add([]byte(tt.original), []byte(tt.patch))
	}
	for seed := range uint64(20) {
		a, b := jsonText{r: newRand(seed)}, jsonText{r: newRand(seed + 100)}
		a.value(4)
		b.value(4)
		f.Add(a.s, b.s)
	}
	f.Add([]byte(`{"\ud800":1}`), []byte(`{"a":"\ud800","b":{"c":null}}`))
	f.Add([]byte(nested(delta.MaxDepth, "{}")), []byte(nested(delta.MaxDepth, "1")))
	var e delta.Encoder
	f.Fuzz(func(t *testing.T, from, to []byte) {
		checkMerge(t, &e, from, to)
		if _, err := delta.ApplyMergePatch(nil, from, to); err == nil {
			checkApply(t, from, to)
		} else if oracleTakes(from) && oracleTakes(to) && !hasSurrogates(from) && !hasSurrogates(to) {
			t.Fatalf("%s with %s: %v", from, to, err)
		}
	})
}
