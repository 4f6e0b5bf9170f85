package udp_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/sluice-push/sluice/transport/udp"
)

// Single datagrams, through the methods of package net, for software without batches.
func TestPacketSingle(t *testing.T) {
	for _, host := range hosts(t) {
		server := listenPacket(t, "udp", net.JoinHostPort(host, "0"), nil)
		client := dialPacket(t, server.LocalAddr(), nil)
		var conn net.Conn = client
		var packets net.PacketConn = server
		for _, text := range []string{"hello", "", "again"} {
			if n, err := conn.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
			b := make([]byte, 10)
			n, from, err := packets.ReadFrom(b[:5])
			if err != nil || string(b[:n]) != text || from.String() != client.LocalAddr().String() || b[5] != 0 {
				t.Fatal(b[:n], from, err)
			}
			if n, err := packets.WriteTo(b[:n], from); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
			if n, err := conn.Read(b); n != len(text) || err != nil || string(b[:n]) != text {
				t.Fatal(n, err)
			}
		}
		if n, err := client.WriteTo([]byte("x"), server.LocalAddr()); n != 0 || !errors.Is(err, net.ErrWriteToConnected) {
			t.Error(n, err)
		}
		if _, err := server.Write([]byte("x")); err == nil {
			t.Error("written to nobody")
		}
		if _, err := server.WriteTo([]byte("x"), &net.TCPAddr{}); err == nil {
			t.Error("written to an address of TCP")
		}
		in, out := server.Stats(), client.Stats()
		if in.ReadPackets != 3 || in.ReadBytes != 10 || in.WrittenPackets != 3 || in.Refused != 2 || out.WrittenBytes != 10 || out.Refused != 1 {
			t.Errorf("%+v %+v", in, out)
		}
		if server.RemoteAddr() != nil || client.RemoteAddr().String() != server.LocalAddr().String() {
			t.Error(server.RemoteAddr(), client.RemoteAddr())
		}
	}
}

func TestPacketRefusesOptions(t *testing.T) {
	ctx := context.Background()
	for _, o := range []*udp.Options{{TTL: -1}, {TTL: 256}, {TOS: -1}, {TOS: 256}, {MulticastTTL: 256}} {
		if c, err := udp.Listen(ctx, "udp", "127.0.0.1:0", o); err == nil {
			_ = c.Close()
			t.Errorf("%+v", o)
		}
		if c, err := udp.Dial(ctx, "udp", "127.0.0.1:9", o); err == nil {
			_ = c.Close()
			t.Errorf("%+v", o)
		}
	}
	for _, network := range []string{"", "tcp", "unixgram", "ip"} {
		var unknown net.UnknownNetworkError
		if _, err := udp.Listen(ctx, network, "127.0.0.1:0", nil); !errors.As(err, &unknown) {
			t.Error(network, err)
		}
		if _, err := udp.Dial(ctx, network, "127.0.0.1:9", nil); !errors.As(err, &unknown) {
			t.Error(network, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := udp.Dial(cancelled, "udp", "127.0.0.1:9", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c := listenPacket(t, "udp4", "127.0.0.1:0", nil)
	none, four, six := netip.Addr{}, netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff02::1")
	for _, g := range [][2]netip.Addr{
		{none, none},
		{netip.MustParseAddr("127.0.0.1"), none},
		{four, netip.MustParseAddr("::1")},
		{four, four},
		{six, netip.MustParseAddr("127.0.0.1")},
		{six.WithZone("no such interface"), none},
	} {
		if err := c.JoinGroup(g[0], nil, g[1]); err == nil {
			t.Error("joined", g)
		}
		if err := c.LeaveGroup(g[0], nil, g[1]); err == nil {
			t.Error("left", g)
		}
	}
	if n, err := c.ReadBatch(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	if n, err := c.WriteBatch(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}
