package udp_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport/udp"
)

// Several goroutines use both ends. Only datagrams that the kernel counts as dropped are lost, and none arrives twice or altered.
func TestPacketConcurrent(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		server := ready(listenPacket(t, "udp", "127.0.0.1:0", &udp.Options{ReadBuffer: 1 << 20}))
		client := ready(dialPacket(t, server.LocalAddr(), nil))
		const writers, each = 4, 300
		seen := make(chan uint32, writers*each)
		var readers, sending sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				ps := room(8, 200)
				for {
					n, err := server.ReadBatch(ps)
					if err != nil {
						return
					}
					for _, p := range ps[:n] {
						id := binary.BigEndian.Uint32(p.Data)
						if len(p.Data) != 4+int(id%100) || p.Addr != addrOf(client) {
							t.Errorf("%d has %d bytes", id, len(p.Data))
						}
						seen <- id
					}
				}
			})
		}
		window := make(chan struct{}, 100) // fewer than the buffer holds
		for w := range writers {
			sending.Go(func() {
				for i := 0; i < each; i += 10 {
					var ps []udp.Packet
					for j := range 10 {
						id := uint32(w*each + i + j)
						ps = append(ps, udp.Packet{Data: append(binary.BigEndian.AppendUint32(nil, id), make([]byte, id%100)...)})
						window <- struct{}{}
					}
					if n, err := client.WriteBatch(ps); n != len(ps) || err != nil {
						t.Error(n, err)
					}
				}
			})
		}
		got := make(map[uint32]bool)
		for range writers * each {
			id := testwait.Receive(t, seen)
			if got[id] {
				t.Error(id, "came twice")
			}
			got[id] = true
			testwait.Receive(t, window)
		}
		testwait.Return(t, sending.Wait)
		_ = server.Close()
		testwait.Return(t, readers.Wait)
	})
}

// Random batches arrive unchanged.
func TestPacketProperty(t *testing.T) {
	bothWays(t, func(t *testing.T, ready func(*udp.Conn) *udp.Conn) {
		for _, host := range hosts(t) {
			server := ready(listenPacket(t, "udp", net.JoinHostPort(host, "0"), &udp.Options{ReadBuffer: 1 << 20}))
			client := ready(listenPacket(t, "udp", net.JoinHostPort(host, "0"), nil))
			rapid.Check(t, func(rt *rapid.T) {
				data := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 60).Draw(rt, "data")
				var ps []udp.Packet
				for _, d := range data {
					ps = append(ps, udp.Packet{Addr: addrOf(server), Data: d})
				}
				if n, err := client.WriteBatch(ps); n != len(ps) || err != nil {
					rt.Fatal(n, err)
				}
				size := rapid.IntRange(1, 70).Draw(rt, "size")
				var got [][]byte
				for len(got) < len(data) {
					in := room(size, 300)
					n, err := server.ReadBatch(in)
					if err != nil {
						rt.Fatal(err)
					}
					for _, p := range in[:n] {
						if p.Addr != addrOf(client) || p.Truncated {
							rt.Fatalf("%+v", p)
						}
						got = append(got, p.Data)
					}
				}
				slices.SortFunc(got, bytes.Compare)
				slices.SortFunc(data, bytes.Compare)
				if !slices.EqualFunc(got, data, bytes.Equal) {
					rt.Fatal("not what was sent")
				}
			})
		}
	})
}
