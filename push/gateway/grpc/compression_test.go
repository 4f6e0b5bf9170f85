package grpc_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip" // registers the compression for all tests
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// payloads counts the bytes of messages as they came over the wire.
type payloads struct{ received atomic.Int64 }

func (*payloads) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (*payloads) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*payloads) HandleConn(context.Context, stats.ConnStats) {}

func (p *payloads) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		p.received.Add(int64(in.CompressedLength))
	}
}

// TestCompressed: a client that compresses is understood where the process has the compression, and is answered without, so that what it does not read
// is counted. What its messages inflate to is bounded.
func TestCompressed(t *testing.T) {
	n := newNode(t, &gateway.Options{MessageBytes: 100 << 10, Compression: true}, nil)
	ctx := testwait.Context(t)
	var seen payloads
	cc := n.dial(googlegrpc.WithTransportCredentials(insecure.NewCredentials()), googlegrpc.WithStatsHandler(&seen),
		googlegrpc.WithDefaultCallOptions(googlegrpc.UseCompressor(gzip.Name)))
	c := n.subscriber(ctx, cc, "a")
	before := n.stats().BytesOut
	data := `"` + strings.Repeat("x", 50<<10) + `"`
	n.publish("a", data)
	if r := receive(t, c); string(r.GetPush().GetPub().GetData()) != data {
		t.Errorf("got %.50s", r)
	}
	testwait.True(t, "all of it to be counted as sent", func() bool { return n.stats().BytesOut-before >= 50<<10 })
	if n := seen.received.Load(); n < 50<<10 {
		t.Errorf("%d bytes came over the wire: what is sent is compressed", n)
	}
	bomb := []byte(`"` + strings.Repeat("x", 5<<20) + `"`) // 5 KiB, compressed
	must(t, c.Send(&clientv1.Command{Id: 3, Publish: &clientv1.PublishRequest{Channel: "a", Data: bomb}}))
	if r, err := c.Recv(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "after decompression") {
		t.Errorf("the bomb: %.50s, %v", r, err)
	}
	_, err := clientv1.NewClientClient(cc).Send(ctx, &clientv1.SendCommandsRequest{Session: string(bomb), Node: "x"})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the bomb by Send: %v", err)
	}
	n.subscriber(ctx, cc, "a") // on the same connection
}
