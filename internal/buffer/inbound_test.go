package buffer_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Whatever pieces bytes arrive and are used in, the unread bytes equal those of a plain slice, and memory is bounded.
func TestInboundIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, limit := rapid.IntRange(1, 64).Draw(t, "pool"), rapid.IntRange(1, 300).Draw(t, "limit")
		in := &buffer.Inbound{Pool: &buffer.Pool{Size: pool}, Limit: limit}
		var model []byte
		next := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				space := in.Space()
				if (len(space) == 0) != (len(model) >= limit) {
					t.Fatalf("space for %d bytes with %d of %d unread", len(space), len(model), limit)
				}
				n := rapid.IntRange(0, len(space)).Draw(t, "n")
				for i := range n {
					next++
					space[i] = next
					model = append(model, next)
				}
				in.Arrived(n)
			},
			"use": func(t *rapid.T) {
				n := rapid.IntRange(0, len(model)).Draw(t, "n")
				in.Discard(n)
				model = model[n:]
			},
			"add": func(t *rapid.T) {
				p := make([]byte, rapid.IntRange(0, 100).Draw(t, "n"))
				fits := len(model)+len(p) <= limit
				if ok := in.Add(p); ok != fits {
					t.Fatalf("added %v, want %v", ok, fits)
				}
				model = append(model, p...)
				model = model[:min(len(model), limit)]
			},
			"rest": func(t *rapid.T) {
				in.Shrink()
				if held := in.Held(); held > 4*len(model)+16 || held > 0 && len(model) == 0 {
					t.Fatalf("%d bytes are held for %d", held, len(model))
				}
			},
			"keep": func(*rapid.T) { in.ShrinkTo(16) },
			"": func(t *rapid.T) {
				if !bytes.Equal(in.Unread(), model) {
					t.Fatalf("unread %v, want %v", in.Unread(), model)
				}
				if most := max(pool, 2*limit, 128); in.Held() > most {
					t.Fatalf("%d bytes are held with a limit of %d", in.Held(), limit)
				}
			},
		})
	})
}
