package udp_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-push/sluice/transport/udp"
)

// packetSize is roughly the size of a small message in bytes.
const packetSize = 100

// The cost of a datagram on loopback, written and read by the same goroutine: a batch is written, then it is read. One operation is one
// datagram. Loopback delivers within the call that writes, so most of the writing time is spent in the network stack.
func BenchmarkPacket(b *testing.B) {
	for _, size := range []int{1, 64} {
		b.Run("batch/"+strconv.Itoa(size), func(b *testing.B) { benchmarkBatch(b, size, false) })
		b.Run("one by one/"+strconv.Itoa(size), func(b *testing.B) { benchmarkBatch(b, size, true) })
		b.Run("net/"+strconv.Itoa(size), func(b *testing.B) { benchmarkNet(b, size) })
	}
}

func benchmarkBatch(b *testing.B, size int, slow bool) {
	server := listenPacket(b, "udp", "127.0.0.1:0", nil)
	client := listenPacket(b, "udp", "127.0.0.1:0", nil)
	for _, c := range []*udp.Conn{server, client} {
		// If there is a timer, a thread of the runtime waits in the poller, and every datagram wakes it.
		if err := c.SetDeadline(time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
	if slow {
		udp.Slow(server)
		udp.Slow(client)
	}
	out, in := make([]udp.Packet, size), room(size, packetSize)
	for i := range out {
		out[i] = udp.Packet{Addr: addrOf(server), Data: make([]byte, packetSize)}
	}
	benchmarkPhases(b, size, func() error {
		_, err := client.WriteBatch(out)
		return err
	}, func() error {
		for n := size; n > 0; {
			m, err := server.ReadBatch(in[:n])
			if err != nil {
				return err
			}
			n -= m
		}
		return nil
	})
}

func benchmarkNet(b *testing.B, size int) {
	open := func() *net.UDPConn {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		return c
	}
	server, client := open(), open()
	to := server.LocalAddr().(*net.UDPAddr).AddrPort()
	p := make([]byte, packetSize)
	benchmarkPhases(b, size, func() error {
		for range size {
			if _, err := client.WriteToUDPAddrPort(p, to); err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		for range size {
			if _, _, err := server.ReadFromUDPAddrPort(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// benchmarkPhases measures writing and reading separately.
func benchmarkPhases(b *testing.B, size int, write, read func() error) {
	b.ReportAllocs()
	var writing, reading time.Duration
	i, packets := 0, 0
	for b.Loop() {
		if i++; i%size != 0 {
			continue
		}
		start := time.Now()
		if err := write(); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if err := read(); err != nil {
			b.Fatal(err)
		}
		writing += middle.Sub(start)
		reading += time.Since(middle)
		packets += size
	}
	b.ReportMetric(float64(packets)/(writing+reading).Seconds(), "packets/s")
	b.ReportMetric(float64(writing.Nanoseconds())/float64(max(packets, 1)), "write-ns/packet")
	b.ReportMetric(float64(reading.Nanoseconds())/float64(max(packets, 1)), "read-ns/packet")
}
