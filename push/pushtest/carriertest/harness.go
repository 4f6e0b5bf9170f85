package carriertest

import (
	"context"
	"net"

	"github.com/sluice-push/sluice/push/gateway"
)

// Harness is a carrier in one form of the protocol, with a client.
type Harness struct {
	// Transport makes the transport under test, for [gateway.New]. The gateway has no other.
	Transport func(*gateway.Gateway) gateway.Transport
	// Way is that of the transport's clients.
	Way gateway.Way
	// Form is what the client's frames contain.
	Form Form
	// Dial returns a client that has sent nothing yet. It may leave the connection to the first Send, if the first commands are part of the
	// request. ctx bounds Dial only.
	Dial func(ctx context.Context, t Target) (Conn, error)
	// Serve serves the clients of a gateway that come to a listener, until stop is called. stop closes the listener and waits for what Serve
	// began. Nil serves the gateway's Handler by net/http, over HTTP/1.1 and HTTP/2, and upgrades in place.
	Serve func(g *gateway.Gateway, t gateway.Transport, ln net.Listener) (stop func())
	// Listen makes the listener of a node, for the checks that run over sockets. Dial of [Target] connects to its Addr. Nil listens on a port of
	// loopback.
	Listen func(ctx context.Context) (net.Listener, error)
	// Compression sets the gateway's option of that name. The client then asks for compression, and fails if it gets none.
	Compression bool
	// ConnectsLate says of a one-way carrier that its connection exists before the client sends its connect request.
	ConnectsLate bool
	// Queues is how many queues the carrier has for each client, one behind the other; zero is one. A library below the carrier may have one of its
	// own. Each may hold 64 KiB and a frame.
	Queues int
	// EndsWithStatus says that the end of a connection has a status, beside the messages, with the code of the disconnect.
	EndsWithStatus bool
	// RealTime runs the checks in which time has to pass in real time, for carriers with goroutines that cannot be in a bubble of
	// testing/synctest.
	RealTime bool
}

// Target is what a client connects to.
type Target struct {
	// Dial opens a network connection to the client's node, whatever network and address are. The suite closes the connection when the check ends,
	// or to cut it before.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialCommands is where an emulated client sends the commands after the first ones. That may be another node.
	DialCommands func(ctx context.Context, network, address string) (net.Conn, error)
	// LastID is what [Resumer.LastID] of the client's previous connection returned.
	LastID string
}

// Conn is the connection of a client. Send is called by one goroutine at a time, and Receive by one, which may be another. Both may wait. They
// fail when the network connections that Target made are closed.
type Conn interface {
	// Send sends a frame of commands. In the JSON form there are line ends between them, in the Protobuf form each has its length before it. The
	// only frame of a one-way client is its connect request, without a command around it and without a length. An error means that the frame was
	// refused, or that the connection has ended. It is [errors.ErrUnsupported] if the carrier's clients cannot send such bytes.
	Send(frame []byte) error
	// Receive returns the next frame of the server, with one or more replies; of a one-way client with pushes. They are separated as commands are.
	// The frame is valid until the next call. Until the first call, and between calls, the client reads hardly anything. If the server has ended
	// the connection with a code outside of the protocol's messages, such as a WebSocket close code, the error is a [push.Disconnect].
	Receive() (frame []byte, err error)
	// Close ends the connection as a client does that leaves, and releases everything. It may be called more than once.
	Close()
}

// Resumer is a Conn of a one-way carrier that tells the client its position in all channels, as the ids of server-sent events do.
type Resumer interface {
	// LastID is what the client sends when it connects again; empty if nothing was told yet.
	LastID() string
}

// sends reports whether clients can send commands after they have connected.
func (h *Harness) sends() bool { return h.Way != gateway.OneWay }
