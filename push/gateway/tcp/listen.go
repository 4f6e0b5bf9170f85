package tcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/sluice-push/sluice/push/gateway/sessionconn"
	"github.com/sluice-push/sluice/transport"
)

// UnixPrefix begins the address of a Unix socket, as in "unix:/run/sluice.sock".
const UnixPrefix = "unix:"

// ListenOptions are the settings of a listener. Nil means all defaults.
type ListenOptions struct {
	// Mode is the permissions of a Unix socket's file, that clients need to connect. Zero leaves them to the umask of the process.
	Mode fs.FileMode
	// SendBuffer is that of the gateway's Options, because connections have the options of their listener.
	SendBuffer int
	// Proxy expects headers of the PROXY protocol, before TLS, from the trusted peers: the address of a client is then that of the header. Nil: none.
	Proxy *transport.Proxy
	// Logger gets the errors that the listener recovers from; nil discards.
	Logger *slog.Logger
}

// Listen listens on "host:port", or on "unix:" and the path of a Unix socket, for Serve. A socket file without a listener is replaced. A listener
// that is in use is left alone: that is an error, as is a file that is no socket. Close of the listener removes the file.
func Listen(ctx context.Context, address string, o *ListenOptions) (net.Listener, error) {
	if o == nil {
		o = new(ListenOptions)
	}
	size := o.SendBuffer
	if size == 0 {
		size = 64 << 10
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(address, UnixPrefix); ok {
		network, address = "unix", path
	}
	l, err := transport.Listen(ctx, network, address, &transport.Options{
		Mode: o.Mode, SendBuffer: size, NotSentLowat: sessionconn.NotSentLowat, Proxy: o.Proxy, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("tcp: %w", explain(err, network, address))
	}
	return l, nil
}

// explain says more about a socket file in the way: the system's words are the same for all of them.
func explain(err error, network, path string) error {
	if network != "unix" || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if info, statErr := os.Lstat(path); statErr == nil && info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: the file exists and is no socket", err)
	}
	return fmt.Errorf("%w: a process seems to listen there", err)
}
