package main_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
	websocket "github.com/sluice-push/sluice/bench/websocket"
)

// frame makes a binary message of n bytes as a client sends it, and as a server does (RFC 6455 §5.2).
func frame(n, seed int) (masked, plain []byte) {
	payload, mask := make([]byte, n), []byte{byte(seed), 0x5A, 0, 0xFF}
	for i := range payload {
		payload[i] = byte(i * (seed + 3) >> 3)
	}
	plain = []byte{0x82}
	switch {
	case n < 126:
		plain = append(plain, byte(n))
	case n < 1<<16:
		plain = binary.BigEndian.AppendUint16(append(plain, 126), uint16(n))
	default:
		plain = binary.BigEndian.AppendUint64(append(plain, 127), uint64(n))
	}
	masked = append(bytes.Clone(plain), mask...)
	masked[1] |= 0x80
	for i, b := range payload {
		masked = append(masked, b^mask[i%4])
	}
	return masked, append(plain, payload...)
}

// All servers say the same, however the bytes arrive and however slowly the answers are taken.
func TestServers(t *testing.T) {
	programs := loadtest.Compile(t, "websocket")
	var in, want []byte
	for i := range 5 {
		for _, n := range []int{0, 1, 7, 8, 9, 125, 126, 128, 1 << 10, 1<<16 - 1, 1 << 16} {
			masked, plain := frame(n, i)
			in, want = append(in, masked...), append(want, plain...)
		}
	}
	few, fewPlain := frame(126, 1)
	many, manyPlain := frame(64<<10, 1)
	for _, server := range websocket.ServerNames() {
		t.Run(server, func(t *testing.T) {
			addr, _ := loadtest.Serve(t, programs, server, websocket.Args(false))
			conn := loadtest.Upgrade(t, addr)
			loadtest.Converse(t, conn, few, fewPlain, 1)
			for _, chunk := range []int{1000, 1 << 20} {
				loadtest.Converse(t, conn, in, want, chunk)
			}
			loadtest.Converse(t, conn, bytes.Repeat(many, 256), bytes.Repeat(manyPlain, 256), len(many)*256)
		})
	}
}

// With -broadcast each message goes to all.
func TestBroadcast(t *testing.T) {
	programs := loadtest.Compile(t, "websocket")
	for _, server := range websocket.ServerNames() {
		t.Run(server, func(t *testing.T) {
			addr, settle := loadtest.Serve(t, programs, server, websocket.Args(true))
			conns := []net.Conn{loadtest.Upgrade(t, addr), loadtest.Upgrade(t, addr), loadtest.Upgrade(t, addr)}
			if err := settle(len(conns)); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				masked, plain := frame(256, i)
				if _, err := conns[0].Write(masked); err != nil {
					t.Fatal(err)
				}
				for _, c := range conns {
					receive(t, c, plain)
				}
			}
		})
	}
}

// receive wants bytes.
func receive(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%x, %v, want %x", got, err, want)
	}
}

// The client notices whatever is wrong with an answer.
func TestClient(t *testing.T) {
	programs := loadtest.Compile(t, "websocket")
	flip := func(i int) func([]byte) []byte {
		return func(answer []byte) []byte {
			answer[i] ^= 1
			return answer
		}
	}
	good := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
	for _, tt := range []struct {
		name, response string
		change         func([]byte) []byte
		want           string
	}{
		{name: "right", response: good},
		{name: "status", response: strings.Replace(good, "101", "200", 1), want: "a wrong response"},
		{name: "accept", response: strings.Replace(good, "s3p", "s3q", 1), want: "a wrong response"},
		{name: "early", response: good + "\x82\x00", want: "a wrong response"},
		{name: "long", response: strings.Replace(good, "\r\n", "\r\nX: "+strings.Repeat("x", 2000)+"\r\n", 1), want: "response: "},
		{name: "no response", want: "recv: "},
		{name: "opcode", response: good, change: flip(0), want: "a wrong answer"},
		{name: "length", response: good, change: flip(1), want: "a wrong answer"},
		{name: "number", response: good, change: flip(9), want: "a wrong answer"},
		{name: "first byte", response: good, change: flip(10), want: "wrong bytes in an answer"},
		{name: "last byte", response: good, change: flip(101), want: "wrong bytes in an answer"},
		{name: "twice", response: good, change: func(b []byte) []byte { return append(b, b...) }, want: "an answer to nothing"},
		{name: "none", response: good, change: func([]byte) []byte { return nil }, want: "recv: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := loadtest.Once(t, func(conn net.Conn) { answerOnce(conn, tt.response, tt.change) })
			err := loadtest.Client(programs, port, "websocket")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// answerOnce answers the upgrade and one message of 100 bytes, changed.
func answerOnce(conn net.Conn, response string, change func([]byte) []byte) {
	r := bufio.NewReader(conn)
	if _, err := http.ReadRequest(r); err != nil {
		return
	}
	if _, err := io.WriteString(conn, response); err != nil || response == "" {
		return
	}
	in := make([]byte, 2+4+100)
	if _, err := io.ReadFull(r, in); err != nil {
		return
	}
	out := append([]byte{in[0], in[1] &^ 0x80}, in[6:]...)
	for i := range out[2:] {
		out[2+i] ^= in[2+i%4]
	}
	if change != nil {
		out = change(out)
	}
	_, _ = conn.Write(out)
}
