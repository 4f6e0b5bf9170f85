package rpc_test

import (
	"context"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
)

// BenchmarkCall makes one call after the other, of methods with a goroutine for each call and of one without.
func BenchmarkCall(b *testing.B) {
	p := newPlace(b, nil)
	raw := rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil })
	p.server.Handle("Raw", raw)
	raw.Inline = true
	p.server.Handle("RawInline", raw)
	for _, method := range []string{"Raw", "RawInline"} {
		b.Run(method, func(b *testing.B) {
			c := p.dial(&rpc.ConnOptions{Form: rpc.Raw})
			r, in, out, ctx := &rpc.Request{Method: method}, []byte("a short text"), []byte(nil), testwait.Context(b)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Do(ctx, r, in, &out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStream receives the messages of one stream.
func BenchmarkStream(b *testing.B) {
	p := newPlace(b, nil)
	p.server.Handle("Endless", rpc.StreamOf(rpc.Raw, func(_ context.Context, in *[]byte, send func(*[]byte) error) error {
		for {
			if err := send(in); err != nil {
				return err
			}
		}
	}))
	c := p.dial(&rpc.ConnOptions{Form: rpc.Raw})
	s := open(b, c, testwait.Context(b), "Endless", []byte("a short text"))
	out := []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Receive(&out); err != nil {
			b.Fatal(err)
		}
	}
	_ = s.Close()
}
