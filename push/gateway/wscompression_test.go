package gateway_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
)

const extensions = "Sec-Websocket-Extensions"

// compressedWS returns a connection that asks for compression.
func (p *place) compressedWS() (*wsClient, *http.Response) {
	p.t.Helper()
	d := websocket.Dialer{EnableCompression: true}
	conn, res, err := d.DialContext(testwait.Context(p.t), "ws://"+p.addr+wsclients.Path, nil)
	must(p.t, err)
	c := &wsClient{t: p.t, conn: conn}
	p.t.Cleanup(func() { _ = conn.Close() })
	must(p.t, conn.SetReadDeadline(c.deadline()))
	must(p.t, conn.SetWriteDeadline(c.deadline()))
	return c, res
}

// Messages are compressed if compression is on and the client asks for it, which others do not notice.
func TestCompressedWebSocket(t *testing.T) {
	data := `"` + strings.Repeat("x", 20_000) + `"`
	for _, tt := range []struct{ on, asks, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			p := newPlace(t, &gateway.Options{Compression: tt.on})
			var c *wsClient
			var res *http.Response
			if tt.asks {
				c, res = p.compressedWS()
			} else {
				var err error
				c, res, err = p.dialWS(nil)
				must(t, err)
			}
			if got := res.Header.Get(extensions); strings.HasPrefix(got, "permessage-deflate") != tt.want || strings.Contains(got, "bits") {
				t.Errorf("the server answers %q", got)
			}
			c.send(`{"id":1,"connect":{}}` + "\n" + `{"id":2,"subscribe":{"channel":"a"}}`)
			c.receive()
			c.receive()
			sent := func() uint64 { return p.gateway.Stats().Transports[wsclients.Name].BytesOut }
			before := sent()
			p.publish("a", data)
			if got := c.receive(); !strings.Contains(got, data) {
				t.Errorf("got %.100s", got)
			}
			wantSent(t, sent, before, tt.want)
			before = sent()
			c.send(`{"id":3,"history":{"channel":"a","limit":1}}`) // a reply
			if got := c.receive(); !strings.Contains(got, data) {
				t.Errorf("got %.100s", got)
			}
			wantSent(t, sent, before, tt.want)
		})
	}
}

// wantSent fails the test unless 20,000 bytes are counted as sent, or much less if they were compressed.
func wantSent(t *testing.T, sent func() uint64, before uint64, isCompressed bool) {
	t.Helper()
	if !isCompressed {
		testwait.True(t, "all of it to be counted as sent", func() bool { return sent()-before > 20_000 })
	} else if n := sent() - before; n >= 1000 {
		t.Errorf("20,000 bytes were sent as %d", n)
	}
}

// Clients with compression share frames, and clients without get others of the same publication.
func TestCompressedAndPlain(t *testing.T) {
	p := newPlace(t, &gateway.Options{Compression: true})
	var all []*wsClient
	for i := range 6 {
		c, _ := p.compressedWS()
		if i%2 == 0 {
			c = p.connectWS(nil)
		}
		c.send(`{"id":1,"connect":{}}` + "\n" + `{"id":2,"subscribe":{"channel":"a"}}`)
		c.receive()
		c.receive()
		all = append(all, c)
	}
	for i := range 100 {
		p.publish("a", fmt.Sprintf(`"%d %s"`, i, strings.Repeat("x", i*10))) // short ones are not compressed
	}
	for k, c := range all {
		for i := range 100 {
			if got := c.receive(); !strings.Contains(got, fmt.Sprintf(`"%d `, i)) {
				t.Fatalf("client %d got %.100s, want publication %d", k, got, i)
			}
		}
	}
}

// A client whose window is too small for frames that all share gets none that are compressed.
func TestSmallWindow(t *testing.T) {
	p := newPlace(t, &gateway.Options{Compression: true})
	for offer, want := range map[string]string{
		"permessage-deflate; server_max_window_bits=10":                     "",
		"permessage-deflate; server_max_window_bits=10, permessage-deflate": "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
		"permessage-deflate; client_max_window_bits":                        "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
	} {
		conn, err := net.Dial("tcp", p.addr)
		must(t, err)
		_, err = io.WriteString(conn, "GET "+wsclients.Path+" HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: "+offer+"\r\n\r\n")
		must(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if got := res.Header.Get(extensions); res.StatusCode != http.StatusSwitchingProtocols || got != want {
			t.Errorf("%s is answered %s, %q", offer, res.Status, got)
		}
		_ = res.Body.Close()
		_ = conn.Close()
	}
}

// What a compressed message inflates to is bounded as one is that is not compressed.
func TestWebSocketBomb(t *testing.T) {
	p := newPlace(t, &gateway.Options{Compression: true, MessageBytes: 1000})
	for _, size := range []int{1001, 500_000} { // compressed, both are small enough
		c, _ := p.compressedWS()
		c.send(`{"id":1,"connect":{}}` + strings.Repeat("\n", 1000-21)) // as much as there may be
		if got := c.receive(); !strings.HasPrefix(got, `{"id":1,"connect"`) {
			t.Fatalf("got %s", got)
		}
		c.send(strings.Repeat(" ", size))
		_, _, err := c.conn.ReadMessage()
		closed := new(websocket.CloseError)
		if !errors.As(err, &closed) || closed.Code != websocket.CloseMessageTooBig {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A compressed message may be larger than what it inflates to, which is what the limit is for.
func TestPoorlyCompressed(t *testing.T) {
	const most = 1 << 20
	p := newPlace(t, &gateway.Options{Compression: true, MessageBytes: most})
	c, _ := p.compressedWS()
	message := `{"id":1,"connect":{}}` + strings.Repeat("\n", most-21)
	var payload []byte
	for part := range slices.Chunk([]byte(message), 50) { // stored blocks (RFC 1951, section 3.2.4)
		payload = append(payload, 0, byte(len(part)), 0, ^byte(len(part)), 0xff)
		payload = append(payload, part...)
	}
	payload = append(payload, 0)
	frame := binary.BigEndian.AppendUint64([]byte{0x80 | 0x40 | websocket.TextMessage, 0x80 | 127}, uint64(len(payload)))
	frame = append(frame, 0, 0, 0, 0) // a mask of zeros
	_, err := c.conn.NetConn().Write(append(frame, payload...))
	must(t, err)
	if got := c.receive(); !strings.HasPrefix(got, `{"id":1,"connect"`) {
		t.Errorf("got %s", got)
	}
}
