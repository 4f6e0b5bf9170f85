package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/transport"
)

// overPackets reports whether a network is one of datagrams.
func overPackets(network string) bool { return strings.HasPrefix(network, "udp") }

// dialPacket is DialWith for datagrams.
func (c *Client) dialPacket(ctx context.Context, network, address string, at *Attach) (*Session, error) {
	srv := c.srv
	if c.dial.TLS != nil {
		return nil, errPacketTLS
	}
	s := newSession(srv, at)
	if len(at.Initial) > datagram.Max6 {
		return nil, fmt.Errorf("session: initial bytes: %w", ErrTooLarge)
	}
	pc, err := transport.DialPacket(ctx, network, address, &transport.PacketOptions{
		PeerErrors: true, WriteBuffer: max(srv.o.SendBuffer, 0),
	})
	if err != nil {
		return nil, c.dialError(err)
	}
	k := newPacketSocket(srv, datagram.NewConn(pc), srv.packetLimited(at.Limits), s)
	if len(at.Initial) > 0 {
		k.own.keepLocked(at.Initial)
	}
	if err := srv.begin(s); err != nil {
		return nil, err
	}
	return s, nil
}
