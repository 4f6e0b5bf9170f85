package main_test

import (
	"bufio"
	"context"
	"crypto/tls"
	varint "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// proxyHeader returns a header of the PROXY protocol for a client at an address.
func proxyHeader(version int, client netip.Addr) string {
	if version == 1 {
		return fmt.Sprintf("PROXY TCP4 %s 192.0.2.99 1000 443\r\n", client)
	}
	at := client.As4()
	return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + string(at[:]) + "\xc0\x00\x02\x63" + "\x03\xe8\x01\xbb"
}

// balancer is a balancer in front of a node, which says from which address a client comes.
type balancer struct {
	t       *testing.T
	node    *process
	tls     *tls.Config // of the clients, through the balancer; nil: none
	version int
	clients byte // addresses used so far
}

// dial returns a connection to an address of the node, which begins with a header; from is the peer that the node sees.
func (b *balancer) dial(address, from, header string) net.Conn {
	b.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(testwait.Context(b.t), "tcp", address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testwait.Bound))
	if _, err := io.WriteString(conn, header); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// through is dial for a client behind the balancer.
func (b *balancer) through(address string, client netip.Addr) net.Conn {
	b.t.Helper()
	return b.dial(address, "127.0.0.1", proxyHeader(b.version, client))
}

// secured is through with the client's TLS.
func (b *balancer) secured(address string, client netip.Addr) net.Conn {
	b.t.Helper()
	conn := b.through(address, client)
	if b.tls != nil {
		return tls.Client(conn, b.tls)
	}
	return conn
}

// get sends a request of HTTP/1.1 and returns the status, 0 if there is no answer. The connection stays open.
func get(t *testing.T, conn net.Conn, path, fields string) int {
	t.Helper()
	_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\n"+fields+"\r\n")
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	return res.StatusCode
}

const upgradeFields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"

// webSocket reports whether a client becomes one.
func (b *balancer) webSocket(client netip.Addr) bool {
	return get(b.t, b.secured(b.node.public, client), "/connection/websocket", upgradeFields) == http.StatusSwitchingProtocols
}

func (b *balancer) events(client netip.Addr) bool {
	return get(b.t, b.secured(b.node.public, client), "/connection/uni_sse", "") == http.StatusOK
}

func (b *balancer) grpc(client netip.Addr) bool {
	b.t.Helper()
	return b.callGRPC(func() net.Conn { return b.through(b.node.public, client) })
}

func (b *balancer) grpcAlone(client netip.Addr) bool {
	b.t.Helper()
	return b.callGRPC(func() net.Conn { return b.through(b.node.grpc, client) })
}

// callGRPC reports whether a client becomes one that connects with dial.
func (b *balancer) callGRPC(dial func() net.Conn) bool {
	b.t.Helper()
	ctx := testwait.Context(b.t)
	secured := insecure.NewCredentials()
	if b.tls != nil {
		secured = credentials.NewTLS(b.tls.Clone())
	}
	cc, err := grpc.NewClient("passthrough:///127.0.0.1", grpc.WithTransportCredentials(secured),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return dial(), nil }))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = cc.Close() })
	s, err := clientv1.NewClientClient(cc).Connect(ctx)
	if err == nil {
		err = s.Send(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{}})
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.t.Fatal(err)
	}
	_, err = s.Recv()
	if err != nil && status.Code(err) != codes.Unavailable {
		b.t.Error(err)
	}
	return err == nil
}

func (b *balancer) tcp(client netip.Addr) bool {
	b.t.Helper()
	conn := b.secured(b.node.tcp, client)
	if _, err := conn.Write(protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})); err != nil {
		b.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	size, err := varint.ReadUvarint(in)
	if err != nil {
		b.t.Fatal(err)
	}
	message := make([]byte, size)
	var r protocol.Reply
	if _, err = io.ReadFull(in, message); err == nil {
		err = protobuf.DecodeReply(message, &r)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return r.ID == 1
}

// Clients behind a balancer that speaks the PROXY protocol count by their own addresses, on every port and with every protocol, with TLS and without.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	cert, pool := writeCertificate(t)
	for _, tt := range []struct{ secure, shared bool }{{false, false}, {true, false}, {false, true}} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			b := &balancer{t: t}
			files := ""
			if tt.secure {
				files = fmt.Sprintf("tls: {cert: %q, key: %q}", cert, cert)
				b.tls = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
			}
			b.node = startNodeWith(t, files+`
proxy_protocol: true
trusted_proxies: [127.0.0.1]
tcp: {listen: "127.0.0.1:0", proxy_protocol: true, `+files+`}
grpc: {listen: "127.0.0.1:0", proxy_protocol: true, shared: `+fmt.Sprint(tt.shared)+`}
limits: {sessions_per_address: 1}
broker: {kind: memory}
`)
			for b.version = 1; b.version <= 2; b.version++ {
				ways := map[string]func(netip.Addr) bool{
					"WebSocket": b.webSocket, "events": b.events, "TCP": b.tcp, "gRPC": b.grpc, "gRPC alone": b.grpcAlone,
				}
				for name, connects := range ways {
					b.clients += 2
					one, other := netip.AddrFrom4([4]byte{198, 51, 100, b.clients}), netip.AddrFrom4([4]byte{198, 51, 100, b.clients + 1})
					if !connects(one) || connects(one) || !connects(other) {
						t.Errorf("%s, version %d: clients do not count by the address in the header", name, b.version)
					}
				}
			}
			b.strangers()
		})
	}
}

// strangers connect from an address that is not trusted: they need no header, and if they send one, it is no request.
func (b *balancer) strangers() {
	t := b.t
	for i, header := range []string{"", proxyHeader(1, netip.AddrFrom4([4]byte{198, 51, 100, 200})), proxyHeader(2, netip.AddrFrom4([4]byte{198, 51, 100, 201}))} {
		conn := b.dial(b.node.public, "127.0.0.2", header)
		if b.tls != nil && header == "" {
			conn = tls.Client(conn, b.tls)
		}
		switch got := get(t, conn, "/connection/websocket", upgradeFields); {
		case header == "" && got != http.StatusSwitchingProtocols:
			t.Errorf("a client without a header got status %d", got)
		case header != "" && got != 0 && got != http.StatusBadRequest:
			t.Errorf("a client with the header %q got status %d", header, got)
		}
		conn = b.dial(b.node.tcp, fmt.Sprintf("127.0.0.%d", 3+i), header+strings.Repeat("x", 100)) // the first byte is taken for a length
		if b.tls == nil && header != "" {
			text, _ := io.ReadAll(conn)
			if !strings.Contains(string(text), "bad request") {
				t.Errorf("a client with the header %q got %q", header, text)
			}
		}
		b.strangerOfGRPC(fmt.Sprintf("127.0.0.%d", 6+i), header)
	}
}

// strangerOfGRPC is a client of the address of gRPC alone. If it sends a header, HTTP/2 does not begin as it has to, and the connection ends.
func (b *balancer) strangerOfGRPC(from, header string) {
	if header == "" {
		if !b.callGRPC(func() net.Conn { return b.dial(b.node.grpc, from, "") }) {
			b.t.Error("a client of gRPC without a header is refused")
		}
		return
	}
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" // with empty settings
	conn := b.dial(b.node.grpc, from, header+preface)
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		b.t.Errorf("a client of gRPC with the header %q: %v", header, err)
	}
}

// A connection of the balancer that does not begin with a header, or not with a valid one, is closed without an answer: at once, or after some seconds.
// It is counted as refused, on every port.
func TestProxyProtocolWithoutHeader(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) { t.Parallel(); testWithoutHeader(t, secure) })
	}
}

func testWithoutHeader(t *testing.T, secure bool) {
	files := ""
	if secure {
		cert, _ := writeCertificate(t)
		files = fmt.Sprintf("tls: {cert: %q, key: %q}", cert, cert)
	}
	b := &balancer{t: t}
	b.node = startNodeWith(t, files+`
proxy_protocol: true
trusted_proxies: [127.0.0.1]
tcp: {listen: "127.0.0.1:0", proxy_protocol: true, `+files+`}
grpc: {listen: "127.0.0.1:0", proxy_protocol: true}
broker: {kind: memory}
`)
	refused := func(want int) {
		t.Helper()
		b.node.eventuallyShown(fmt.Sprint(want, " connections are refused"), func(shown map[string]*dto.MetricFamily) bool {
			return metric(shown["sluice_connections_refused_total"], "reason", "request") == float64(want)
		})
	}
	ports := []string{b.node.public, b.node.tcp, b.node.grpc}
	for i, address := range ports {
		_, _ = io.Copy(io.Discard, b.dial(address, "127.0.0.1", "PROXY x\r\n")) // an error is that of a connection that is reset
		refused(i + 1)
	}
	texts := []string{
		"", "PROXY TCP4 198.51.100.1", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PROXY TCP4 x y 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	}
	var conns []net.Conn // which wait at the same time
	for _, address := range ports {
		for _, text := range texts {
			conns = append(conns, b.dial(address, "127.0.0.1", text))
		}
	}
	for i, conn := range conns {
		got, err := io.ReadAll(conn)
		if len(got) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %q: %q, %v", texts[i%len(texts)], got, err)
		}
	}
	refused(len(ports) + len(conns))
}
