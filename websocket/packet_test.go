package websocket_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
	"github.com/sluice-push/sluice/websocket/wire"
)

// answerAtOnce accepts handshakes until the listener is closed, and sends the response and frames in one packet.
func answerAtOnce(ln net.Listener, frames []byte) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			c, in := wire.NewHandshake(nil), []byte(nil)
			for n := 0; n == 0; {
				part := make([]byte, 4096)
				k, err := conn.Read(part)
				if err != nil {
					return
				}
				in = append(in, part[:k]...)
				if _, n, err = c.Decode(in); err != nil {
					return
				}
			}
			_, _ = conn.Write(append(c.AppendReplies(nil), frames...))
			_, _ = io.Copy(io.Discard, conn)
		}()
	}
}

// Frames behind the response, in the same packet, reach a handler and a caller of Receive.
func TestBehindTheResponse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go answerAtOnce(ln, []byte("\x81\x010\x81\x011\x89\x00\x81\x012\x88\x02\x0f\xa0"))
	url := "ws://" + ln.Addr().String()
	for _, way := range ways[:2] {
		o := &websocket.Options{Session: session.Options{Engine: way.engine}}
		c := dial(t, url, o)
		for i := range 3 {
			if m := receive(t, c); string(m.Data) != fmt.Sprint(i) {
				t.Errorf("%s: got %q", way.name, m.Data)
			}
		}
		if _, err := c.Receive(within(t)); websocket.CodeOf(err) != 4000 {
			t.Errorf("%s: %v", way.name, err)
		}

		told := make(chan string, 10)
		client := websocket.NewClient(&websocket.Handler{
			Message: func(_ *websocket.Conn, m websocket.Message) { told <- string(m.Data) },
			Close:   func(_ *websocket.Conn, info *session.CloseInfo) { told <- fmt.Sprint(websocket.CodeOf(info.Err)) },
		}, o)
		if _, err := client.Dial(within(t), url); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"0", "1", "2", "4000"} {
			if got := get(t, told); got != want {
				t.Errorf("%s: told %q, want %q", way.name, got, want)
			}
		}
		_ = client.Close()
	}
}

// Frames behind the request, in the same packet, are not lost either, and each ping is answered.
func TestBehindTheRequest(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		_, url := start(echo, nil)
		conn := bare(t, url)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		pings := strings.Repeat(frame(0x89, "x"), 100)
		if _, err := io.WriteString(conn, request+frame(0x81, "first")+pings+frame(0x88, "\x03\xe8")); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		want := "\r\n\r\n\x81\x05first" + strings.Repeat("\x8a\x01x", 100) + "\x88\x02\x03\xe8"
		if err != nil || !bytes.HasSuffix(answer, []byte(want)) {
			t.Errorf("%q, %v", answer, err)
		}
	})
}
