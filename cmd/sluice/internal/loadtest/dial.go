package loadtest

import (
	"context"
	"net"

	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/push/protocol"
)

// dialer connects clients over a transport. It owns the connections.
type dialer interface {
	// dial connects a client, sets its field conn, and sends its first commands. The frames that come go to group.handleFrame, and the end of the
	// connection to group.connectionEnded.
	dial(ctx context.Context, c *client, address string, commands []*protocol.Command) (connection, error)
	// close ends all connections and waits for their goroutines. No dial may be under way.
	close()
}

// newDialer returns the dialer of a group.
func newDialer(g *group) dialer {
	if g.plan.spec.Transport == WebSocket {
		return newWebSocketDialer(g)
	}
	return newStreamDialer(g)
}

// dialTCP establishes a TCP connection of a client, through a proxy if the run has a network. SO_LINGER is 0, so that closing resets the
// connection and its port is free at once. Otherwise the next run would lack thousands of ports.
func (g *group) dialTCP(ctx context.Context, c *client, protocol, address string) (net.Conn, error) {
	var d net.Dialer
	if g.usesManyAddresses() {
		d.LocalAddr = &net.TCPAddr{IP: sourceAddress(int(g.nextSource.Add(1)))}
	}
	buffer := 0
	if c.stalls {
		buffer = g.plan.spec.StallBuffer
	}
	d.Control = sockopt.Control(sockopt.Options{Receive: buffer, BindNoPort: g.usesManyAddresses()})
	address, err := g.proxyFor(address)
	if err != nil {
		return nil, err
	}
	conn, err := d.DialContext(ctx, protocol, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it fails, the connection closes in the usual way
	}
	return conn, nil
}

// portsPerAddress is how many connections one source address can surely have to one server.
const portsPerAddress = 20_000

// usesManyAddresses reports whether clients connect from many source addresses.
func (g *group) usesManyAddresses() bool {
	return isLoopback(g.plan.spec.URL) && (g.plan.spec.Spread || g.plan.spec.Clients > portsPerAddress)
}

// sourceAddress returns the source address of connection n: one of 250 loopback addresses.
func sourceAddress(n int) net.IP { return net.IPv4(127, 0, 0, byte(2+n%250)) }
