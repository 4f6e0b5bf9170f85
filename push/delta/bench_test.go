package delta_test

import (
	"bytes"
	"testing"

	"github.com/sluice-push/sluice/push/delta"
)

// benchmarks are pairs of values as they are published.
var benchmarks = []struct {
	name string
	pair pair
	json bool
}{
	{"tick", pair{
		[]byte(`{"e":"bookTicker","s":"BTCUSDT","u":400900217,"b":"25.35190000","B":"31.21000000","a":"25.36520000","A":"40.66000000",` +
			`"T":1568014460893,"E":1568014460891,"levels":[[25.3519,31.21],[25.3501,12.5],[25.3498,7.75]],"note":"xxxxxxxxxxxxxxxxxx"}`),
		[]byte(`{"e":"bookTicker","s":"BTCUSDT","u":400900241,"b":"25.35180000","B":"11.40000000","a":"25.36520000","A":"40.66000000",` +
			`"T":1568014461107,"E":1568014461105,"levels":[[25.3518,11.4],[25.3501,12.5],[25.3498,7.75]],"note":"xxxxxxxxxxxxxxxxxx"}`),
	}, true},
	{"one member of 4 KiB", row4K(), true},
	{"book of 40 levels", func() pair {
		r := newRand(1)
		b := newBook(r, 40)
		from := b.json()
		b.move(r, 3)
		return pair{from, b.json()}
	}(), true},
	{"64 KiB, three edits", func() pair {
		b := noise(newRand(1), 64<<10)
		return pair{b, join(b[:5000], []byte("+"), b[5000:30_000], []byte("--"), b[30_001:60_000], b[60_100:])}
	}(), false},
	{"64 KiB of something else", pair{noise(newRand(1), 64<<10), noise(newRand(2), 64<<10)}, false},
}

func BenchmarkAppendFossil(b *testing.B) {
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.pair.to)))
			var e delta.Encoder
			var d []byte
			for b.Loop() {
				d = e.AppendFossil(d[:0], bb.pair.from, bb.pair.to)
			}
			b.ReportMetric(float64(len(d)), "delta-bytes")
		})
	}
}

func BenchmarkApplyFossil(b *testing.B) {
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.pair.to)))
			d := new(delta.Encoder).AppendFossil(nil, bb.pair.from, bb.pair.to)
			var got []byte
			var err error
			for b.Loop() {
				got, err = delta.ApplyFossil(got[:0], bb.pair.from, d, len(bb.pair.to))
			}
			if err != nil || !bytes.Equal(got, bb.pair.to) {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkAppendMergePatch(b *testing.B) {
	for _, bb := range benchmarks {
		if !bb.json {
			continue
		}
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.pair.to)))
			var e delta.Encoder
			var patch []byte
			ok := true
			for b.Loop() {
				patch, ok = e.AppendMergePatch(patch[:0], bb.pair.from, bb.pair.to)
			}
			if !ok {
				b.Fatal("no patch")
			}
			b.ReportMetric(float64(len(patch)), "patch-bytes")
		})
	}
}

func BenchmarkApplyMergePatch(b *testing.B) {
	for _, bb := range benchmarks {
		if !bb.json {
			continue
		}
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.pair.to)))
			patch, _ := new(delta.Encoder).AppendMergePatch(nil, bb.pair.from, bb.pair.to)
			var got []byte
			var err error
			for b.Loop() {
				got, err = delta.ApplyMergePatch(got[:0], bb.pair.from, patch)
			}
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
