package main_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
	library "github.com/sluice-push/sluice/bench/library"
)

// frame makes a frame of n bytes whose id is id.
func frame(proto string, n int, id uint64) []byte {
	f := make([]byte, n)
	for i := range f {
		f[i] = byte(i * int(id+3) >> 3)
	}
	binary.BigEndian.PutUint32(f, uint32(n))
	if proto == "echo" {
		if n >= 12 {
			binary.BigEndian.PutUint64(f[4:], id)
		}
		return f
	}
	f[4] = 2
	binary.BigEndian.PutUint64(f[5:], id)
	return f
}

// acked returns the answer to a frame.
func acked(proto string, f []byte) []byte {
	if proto == "echo" {
		return f
	}
	ack := []byte{0, 0, 0, 14, 0x81, 13: 0}
	copy(ack[5:], f[5:13])
	return ack
}

// All servers say the same, however the bytes arrive and however slowly the answers are taken.
func TestServers(t *testing.T) {
	programs := loadtest.Compile(t, "frames")
	for _, proto := range []string{"ack", "echo"} {
		sizes := []int{13, 14, 915, 16 << 10, 64 << 10, 13, 915, 17}
		if proto == "echo" {
			sizes = append(sizes, 4, 5, 4, 12)
		}
		var in, want []byte
		for i := range 10 * len(sizes) {
			f := frame(proto, sizes[i%len(sizes)], uint64(i))
			in, want = append(in, f...), append(want, acked(proto, f)...)
		}
		for _, server := range library.ServerNames() {
			t.Run(server+" "+proto, func(t *testing.T) {
				addr, _ := loadtest.Serve(t, programs, server, library.Args(proto))
				loadtest.Converse(t, loadtest.Dial(t, addr), in[:13+14+915], want[:len(answers(proto, in[:13+14+915]))], 1)
				for _, chunk := range []int{1000, 1 << 20} {
					loadtest.Converse(t, loadtest.Dial(t, addr), in, want, chunk)
				}
				many := bytes.Repeat(frame(proto, 64<<10, 1), 256)
				loadtest.Converse(t, loadtest.Dial(t, addr), many, answers(proto, many), len(many))
			})
		}
	}
}

// answers returns the answers to whole frames.
func answers(proto string, in []byte) (all []byte) {
	for len(in) > 0 {
		n := binary.BigEndian.Uint32(in)
		all = append(all, acked(proto, in[:n])...)
		in = in[n:]
	}
	return all
}

// The client notices whatever is wrong with an answer.
func TestClient(t *testing.T) {
	programs := loadtest.Compile(t, "frames")
	flip := func(i int) func([]byte) []byte {
		return func(answer []byte) []byte {
			answer[i] ^= 1
			return answer
		}
	}
	for _, tt := range []struct {
		name, proto string
		change      func([]byte) []byte
		want        string
	}{
		{name: "right", proto: "ack"},
		{name: "right", proto: "echo"},
		{name: "length", proto: "ack", change: flip(3), want: "a wrong answer"},
		{name: "command", proto: "ack", change: flip(4), want: "a wrong answer"},
		{name: "id", proto: "ack", change: flip(12), want: "a wrong answer"},
		{name: "result", proto: "ack", change: flip(13), want: "a wrong answer"},
		{name: "length", proto: "echo", change: flip(2), want: "a wrong answer"},
		{name: "id", proto: "echo", change: flip(11), want: "a wrong answer"},
		{name: "first byte", proto: "echo", change: flip(12), want: "wrong bytes in an answer"},
		{name: "last byte", proto: "echo", change: flip(99), want: "wrong bytes in an answer"},
		{name: "twice", proto: "ack", change: func(b []byte) []byte { return append(b, b...) }, want: "an answer to nothing"},
		{name: "none", proto: "ack", change: func([]byte) []byte { return nil }, want: "recv: "},
	} {
		t.Run(fmt.Sprint(tt.proto, " ", tt.name), func(t *testing.T) {
			port := answerOnce(t, tt.proto, tt.change)
			err := loadtest.Client(programs, port, tt.proto)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// answerOnce is a server of one connection that answers one frame of 100 bytes, with a changed answer, and ends.
func answerOnce(t *testing.T, proto string, change func([]byte) []byte) (port string) {
	return loadtest.Once(t, func(conn net.Conn) {
		in := make([]byte, 100)
		if _, err := io.ReadFull(conn, in); err != nil {
			return
		}
		out := acked(proto, in)
		if change != nil {
			out = change(out)
		}
		_, _ = conn.Write(out)
	})
}

// The codec cuts a stream into frames that are the stream again, and asks for no more than it needs.
func FuzzFraming(f *testing.F) {
	f.Add(true, append(frame("echo", 20, 1), frame("echo", 5, 2)...))
	f.Add(false, frame("ack", 915, 1))
	f.Add(false, []byte{0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, echo bool, in []byte) {
		codec := library.Framing(echo)
		for len(in) > 0 {
			msg, n, err := codec.Decode(in)
			switch {
			case err != nil:
				if size := binary.BigEndian.Uint32(in); size > 3 && size <= 64<<10 && (echo || size > 12) {
					t.Fatalf("a frame of %d bytes is refused: %v", size, err)
				}
				return
			case n > 0:
				if n != int(binary.BigEndian.Uint32(in)) || !bytes.Equal(msg, in[:n]) {
					t.Fatalf("%d bytes of %x are the message %x", n, in, msg)
				}
				in = in[n:]
			default:
				if need := len(in) - n; n == 0 || need > 4 && need != int(binary.BigEndian.Uint32(in)) {
					t.Fatalf("%d for %x", n, in)
				}
				return
			}
		}
	})
}
