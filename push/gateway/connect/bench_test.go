package connect_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/connect"
	"github.com/sluice-push/sluice/push/protocol"
)

// BenchmarkPush measures a publication of 128 bytes in both forms.
func BenchmarkPush(b *testing.B) {
	p := protocol.Push{Kind: protocol.PushPublication, Channel: "quotes:eur", Publication: push.Publication{
		Data: []byte(`"` + strings.Repeat("x", 126) + `"`), Offset: 1234,
	}}
	for name, encoder := range connect.Encoders() {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = encoder.AppendPush(buf[:0], &p)
			}
		})
	}
}
