package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
)

// TestFewDescriptors: clients of HTTP streams, of which each has a connection for its commands beside that of its stream, do not use up the
// descriptors of a node that admits as many clients as it has descriptors for. All commands are carried out, and so are those of the API.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	path, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	const descriptors, clients = 128, 64 // as many as TestCapacity says
	args := append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, descriptors), path}, serveArgs(t, []string{"--insecure"})...)
	node := launch(t, exec.Command("/bin/sh", args...))
	node.greeting()
	ctx := testwait.Context(t)
	var all []*clientconn.Conn
	for i := range clients {
		transport := []string{"http_stream", "sse"}[i%2]
		c, err := clientconn.Dial(ctx, &clientconn.Options{
			URL: "http://" + node.public, Transport: transport, DialContext: dialTCP,
			Commands: []*protocol.Command{{ID: 1, Kind: protocol.KindConnect}},
		})
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		defer c.Close()
		var r protocol.Reply
		if err := c.Receive(ctx, &r); err != nil || r.Connect.Session == "" {
			t.Fatalf("client %d: %+v, %v", i, r, err)
		}
		all = append(all, c)
	}
	for round := range 3 {
		for i, c := range all {
			channel := fmt.Sprintf("c%d-%d", i, round)
			cmd := protocol.Command{ID: uint32(2 + round), Kind: protocol.KindPublish} //nolint:gosec // small
			cmd.Publish = protocol.PublishRequest{Channel: channel, Data: []byte("1")}
			exchange(t, c, &cmd, func(*protocol.Push) {})
			history := protocol.Command{ID: uint32(100 + round), Kind: protocol.KindHistory} //nolint:gosec // small
			history.History = protocol.HistoryRequest{Channel: channel, Limit: 1}
			if r := exchange(t, c, &history, func(*protocol.Push) {}); len(r.History.Publications) != 1 {
				t.Errorf("client %d: nothing was published", i)
			}
		}
	}
	if head := node.head("c0-0"); head != 1 {
		t.Errorf("the API answers %d", head)
	}
	if said := node.stderr.String(); strings.Contains(said, "file descriptors left") {
		t.Error("the node ran out of descriptors")
	}
	if got := node.descriptors(t); got > descriptors*7/8 {
		t.Errorf("the node has %d descriptors open, of %d", got, descriptors)
	}
}

// descriptors returns how many descriptors the process has open.
func (p *process) descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// dialTCP makes a connection that no other client shares.
func dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// TestHalfOpen: connections that send no request, and clients that come beside them, leave descriptors for the store: a client that is connected goes
// on publishing. When those connections have ended, others are accepted again.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	path, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	const descriptors = 128
	const least = descriptors / 8 / 2 // that are left
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("grpc: {listen: \"127.0.0.1:0\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, descriptors), path}, serveArgs(t, []string{"--insecure", "--config", file})...)
	node := launch(t, exec.Command("/bin/sh", args...))
	node.greeting()
	ctx := testwait.Context(t)
	connect := func() (*clientconn.Conn, error) {
		c, err := clientconn.Dial(ctx, &clientconn.Options{
			URL: "http://" + node.public, Transport: "websocket", DialContext: dialTCP,
			Commands: []*protocol.Command{{ID: 1, Kind: protocol.KindConnect}},
		})
		if err != nil {
			return nil, err
		}
		t.Cleanup(c.Close)
		var r protocol.Reply
		return c, c.Receive(ctx, &r)
	}
	witness, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	for i := range 3 * descriptors {
		c, err := net.Dial("tcp", []string{node.public, node.grpc}[i%2])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "G") // the node may have closed it
		open = append(open, c)
	}
	testwait.True(t, "the node has said that it closes connections", func() bool {
		return strings.Contains(node.stderr.String(), "few file descriptors left")
	})
	for range 2 * least {
		if _, err := connect(); err == nil {
			t.Error("a client took one of the last descriptors")
		}
	}
	for i := range uint32(20) {
		cmd := protocol.Command{ID: 2 + i, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: fmt.Sprint("c", i), Data: []byte("1")}}
		exchange(t, witness, &cmd, func(*protocol.Push) {})
	}
	if got := node.descriptors(t); got > descriptors-least/2 { // the store has opened files
		t.Errorf("the node has %d descriptors open, of %d", got, descriptors)
	}
	if said := node.stderr.String(); strings.Contains(said, "no file descriptors left") {
		t.Error("the node ran out of descriptors")
	}
	for _, c := range open {
		_ = c.Close()
	}
	testwait.True(t, "a client is connected again", func() bool {
		_, err := connect()
		return err == nil
	})
}
