package delivery

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Data is JSON of the requested size from which the header can be read. A change of any byte is detected.
func TestPayload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(MinBytes, 600).Draw(t, "size")
		p := NewPayloads(rapid.Uint32().Draw(t, "run"), rapid.Uint64().Draw(t, "seed"), size)
		want := Header{
			Run: p.run, Stream: rapid.Uint32Range(0, MaxStreams-1).Draw(t, "stream"), Seq: rapid.Uint32Range(1, math.MaxUint32).Draw(t, "seq"),
			K: rapid.Uint32().Draw(t, "k"), Due: rapid.Int64Range(0, math.MaxInt64).Draw(t, "due"),
		}
		data := p.Append(nil, want)
		if len(data) != size || !json.Valid(data) {
			t.Fatalf("%d bytes: %s", len(data), data)
		}
		if got, v := p.Read(data); v != Valid || got != want {
			t.Fatalf("read %+v, %v; want %+v", got, v, want)
		}
		other := *p
		other.run++
		if _, v := other.Read(data); v != Foreign {
			t.Fatalf("for another run it is %v", v)
		}
		at := rapid.IntRange(0, size-1).Draw(t, "at")
		data[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change")) //nolint:gosec // a byte
		if _, v := p.Read(data); v != Corrupt {
			t.Fatalf("with byte %d changed it is %v: %s", at, v, data)
		}
	})
}
