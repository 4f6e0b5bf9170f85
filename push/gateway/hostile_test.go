package gateway_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
)

// isGoodbye reports whether a connection ended with a code that says why.
func isGoodbye(err error) bool {
	closed := new(websocket.CloseError)
	return errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure
}

// frame makes a masked frame, with a first byte and a length that may be lies.
func frame(first byte, length uint64, payload string) string {
	out := []byte{first}
	switch {
	case length < 126:
		out = append(out, 0x80|byte(length))
	case length < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(length))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), length)
	}
	return string(append(out, 0, 0, 0, 0)) + payload // masked with zeros
}

func text(payload string) string { return frame(0x81, uint64(len(payload)), payload) }

// TestHostileBytes: what is not the protocol ends that connection with a code, at once, and no other.
func TestHostileBytes(t *testing.T) {
	p := newPlace(t, &gateway.Options{MessageBytes: 1 << 10})
	witness := p.client()
	for _, tt := range []struct {
		name, bytes string
		code        int
	}{
		{"unmasked", "\x81\x02{}", 1002},
		{"a reserved bit", frame(0xc1, 2, "{}"), 1002},
		{"a reserved opcode", frame(0x83, 2, "{}"), 1002},
		{"a continuation of nothing", frame(0x80, 2, "{}"), 1002},
		{"a message within a message", frame(0x01, 1, "{") + frame(0x81, 1, "}"), 1002},
		{"a long control frame", frame(0x89, 126, ""), 1002},
		{"a fragmented control frame", frame(0x09, 1, "x"), 1002},
		{"a length with the highest bit", frame(0x81, 1<<63, ""), 1002},
		{"a length of a terabyte", frame(0x81, 1<<40, ""), 1009},
		{"one byte too many", frame(0x81, 1025, ""), 1009},
		{"too many in fragments", frame(0x01, 1000, strings.Repeat(" ", 1000)) + frame(0x80, 25, ""), 1009},
		{"very many fragments", frame(0x01, 0, "") + strings.Repeat(frame(0x00, 0, ""), 2000), 1008},
		{"a close code that may not travel", frame(0x88, 2, "\x03\xed"), 1002},
		{"half a close code", frame(0x88, 1, "\x03"), 1002},
		{"a proper end", frame(0x88, 2, "\x03\xe8"), 1000},
		{"noise", "GET / HTTP/1.1\r\n\r\n", 1002},
		{"NUL", text("\x00"), 3501},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := p.client()
			_, err := c.conn.NetConn().Write([]byte(tt.bytes))
			must(t, err)
			c.wantClose(tt.code, "")
			witness.ask(`{"id":2,"ping":{}}`, `{"id":2,"ping":{}}`)
		})
	}
	testwait.True(t, "all have left", func() bool { return p.gateway.Len() == 1 })
}

// TestDeepData: data nested too deep is the error of its command, and of nothing else.
func TestDeepData(t *testing.T) {
	c := newPlace(t, nil).client()
	c.ask(`{"id":2,"rpc":{"data":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)+`}}`,
		`{"id":2,"error":{"code":107,"message":"rpc: a value is nested deeper than 128 levels at byte 150"}}`)
	c.ask(`{"id":3,"ping":{}}`, `{"id":3,"ping":{}}`)
}

// TestByteByByte: how a message is cut on its way makes no difference.
func TestByteByByte(t *testing.T) {
	p := newPlace(t, nil)
	c := p.client()
	must(t, c.conn.NetConn().(*net.TCPConn).SetNoDelay(true))
	all := text("{\"id\":2,\"ping\":{}}\n{}\n{\"id\":3,\"ping\":{}}") +
		frame(0x01, 3, `{"i`) + frame(0x89, 0, "") + frame(0x80, 15, `d":4,"ping":{}}`) // a ping within a message in two fragments
	for _, b := range []byte(all) {
		_, err := c.conn.NetConn().Write([]byte{b})
		must(t, err)
	}
	c.want(`{"id":2,"ping":{}}`, `{"id":3,"ping":{}}`, `{"id":4,"ping":{}}`)
}

// TestReset: connections that are reset in the middle of anything leave nothing behind.
func TestReset(t *testing.T) {
	p := newPlace(t, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			c, _, err := p.dialWS(nil)
			if err != nil {
				t.Error(err)
				return
			}
			all := text(`{"id":1,"connect":{}}`) + text(`{"id":2,"subscribe":{"channel":"a"}}`) + text(`{"id":3,"history":{"channel":"a","limit":-1}}`)
			conn := c.conn.NetConn().(*net.TCPConn)
			_, _ = conn.Write([]byte(all[:i*len(all)/40]))
			_ = conn.SetLinger(0)
			_ = conn.Close()
		})
	}
	for i := range 100 {
		p.publish("a", filler(i))
	}
	testwait.Return(t, wg.Wait)
	testwait.True(t, "all have left", func() bool { return p.gateway.Len() == 0 && p.hub.Stats().Sessions == 0 })
}

// TestHistoryIsBounded: one answer holds only so much, and the rest can be asked for.
func TestHistoryIsBounded(t *testing.T) {
	p := newPlace(t, nil)
	const n = 1000
	for i := range n {
		p.publish("a", filler(i))
	}
	c := p.client()
	epoch, seen := p.epoch("a"), 0
	for answers := 0; seen < n; answers++ {
		c.send(fmt.Sprintf(`{"id":2,"history":{"channel":"a","limit":-1,"since":{"offset":%d,"epoch":%q}}}`, seen, epoch))
		got := c.receive()
		if len(got) > gateway.HistoryBytes*11/10 {
			t.Fatalf("an answer of %d bytes", len(got))
		}
		var answer struct {
			History struct {
				Publications []struct {
					Offset int
					Tags   map[string]string
				}
				Offset int
			}
		}
		must(t, json.Unmarshal([]byte(got), &answer))
		if len(answer.History.Publications) == 0 || answer.History.Offset != n {
			t.Fatalf("after %d: %d publications, position %d", seen, len(answer.History.Publications), answer.History.Offset)
		}
		for _, pub := range answer.History.Publications {
			if seen++; pub.Offset != seen {
				t.Fatalf("publication %d is %d", seen, pub.Offset)
			}
			isLast := pub.Offset == answer.History.Publications[len(answer.History.Publications)-1].Offset
			if more := pub.Tags[push.TagMore] == "1"; more != (isLast && seen < n) {
				t.Fatalf("publication %d of %d says that there is more: %t", seen, n, more)
			}
		}
	}
	p.publish("a", `"`+strings.Repeat("y", 2*gateway.HistoryBytes)+`"`) // a large one comes alone
	c.send(`{"id":3,"history":{"channel":"a","limit":2,"reverse":true}}`)
	if got := c.receive(); strings.Count(got, `"offset":`) != 2 {
		t.Errorf("%d offsets in an answer of %d bytes", strings.Count(got, `"offset":`), len(got))
	}
}

// FuzzMessage: whatever a connected client sends is answered, or ends its connection with a code, and the node goes on.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"id":2,"ping":{}}`, `{"id":2,"subscribe":{"channel":"a"}}`, `{"id":2,"publish":{"channel":"table:a","key":"k","data":[1]}}`,
		`{"id":2,"history":{"channel":"a","limit":-1,"since":{"offset":1},"reverse":true}}`, `{"id":2,"presence":{"channel":"chat:1"}}`,
		"{\"id\":2,\"unsubscribe\":{}}\n{\"send\":{}}", `{"id":1,"connect":{}}`, `{"id":2,"rpc":{}}`, `{"id":2,"dance":{}}`, `nul`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	p := newPlace(f, nil)
	f.Fuzz(func(t *testing.T, message []byte) {
		own := *p
		own.t = t
		c, _, err := own.dialWS(nil)
		must(t, err)
		defer func() { _ = c.conn.Close() }()
		must(t, c.conn.WriteMessage(websocket.TextMessage, []byte(`{"id":1,"connect":{}}`)))
		must(t, c.conn.WriteMessage(websocket.BinaryMessage, message))
		must(t, c.conn.WriteMessage(websocket.TextMessage, []byte(`{"id":4294967295,"ping":{}}`)))
		for {
			_, got, err := c.conn.ReadMessage()
			if err != nil {
				if !isGoodbye(err) {
					t.Errorf("%q: %v", message, err)
				}
				return
			}
			if string(got) == `{"id":4294967295,"ping":{}}` {
				return
			}
			if !json.Valid(got) || strings.Contains(string(got), `"code":100`) {
				t.Errorf("%q is answered %q", message, got)
			}
		}
	})
}
