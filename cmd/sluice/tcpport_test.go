package main_test

import (
	"bufio"
	varint "encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// A node with tcp.listen serves clients there, says so, and sends them elsewhere when it ends.
func TestTCPPort(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "sluice") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file, path := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "s")
	if err := os.WriteFile(file, []byte("tcp: {listen: \"unix:"+path+"\"}\nbroker: {kind: memory}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startNode(t, "--demo", "--config", file)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	conn.SetDeadline(time.Now().Add(testwait.Bound))
	in := bufio.NewReader(conn)
	receive := func() (r protocol.Reply) {
		t.Helper()
		size, err := varint.ReadUvarint(in)
		if err != nil {
			t.Fatal(err)
		}
		message := make([]byte, size)
		if _, err := io.ReadFull(in, message); err != nil {
			t.Fatal(err)
		}
		if err := protobuf.DecodeReply(message, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	commands := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	subscribe := protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "quotes:all"}}
	if _, err := conn.Write(protobuf.AppendCommand(commands, &subscribe)); err != nil {
		t.Fatal(err)
	}
	if r := receive(); r.ID != 1 || r.Connect.Client == "" {
		t.Fatalf("connecting was answered %+v", r)
	}
	if r := receive(); r.ID != 2 || r.Error != nil {
		t.Fatalf("subscribing was answered %+v", r)
	}
	if r := receive(); r.Push.Kind != protocol.PushPublication {
		t.Fatalf("received %+v", r)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for r := receive(); r.Push.Kind != protocol.PushDisconnect; r = receive() {
		if r.Push.Kind != protocol.PushPublication {
			t.Fatalf("received %+v", r)
		}
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the disconnect: %v", err)
	}
	_ = conn.Close()
	testwait.Receive(t, p.exited)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket file is left: %v", err)
	}
}

// TestTCPPortRefuses: a TCP port that cannot be is said at the start.
func TestTCPPortRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, tt := range map[string]struct {
		config string
		want   []string
	}{
		"in use": {
			`{listen: "` + taken.Addr().String() + `"}`,
			[]string{"cannot listen on " + taken.Addr().String(), `"tcp.listen"`, "address already in use"},
		},
		"no certificate": {`{listen: "127.0.0.1:0", tls: {cert: /nowhere/cert, key: /nowhere/key}}`, []string{`"tcp.tls"`, "/nowhere/cert"}},
		"no folder":      {`{listen: "unix:/nowhere/s"}`, []string{"cannot listen on unix:/nowhere/s", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte("tcp: "+tt.config+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := runBinary(t, "serve", "--insecure", "--listen", "127.0.0.1:0", "--internal", "127.0.0.1:0", "--config", file)
			if code == 0 || stdout != "" {
				t.Errorf("exit code %d, printed %q", code, stdout)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("the error lacks %q:\n%s", want, stderr)
				}
			}
		})
	}
}
