package proxydial_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluice-push/sluice/internal/proxydial"
)

// FuzzConnect checks that net/http accepts every response to CONNECT that this package accepts. It also checks that reading byte by byte takes
// no more than the head.
func FuzzConnect(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200\r\nA: b\r\n\r\n", "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\n\r\n",
		"HTTP/1.1 200 x\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 200 x\n\n", "HTTP/1.1 200 x\r\nA\r\n\r\n", "HTTP/1.1 2", "\x05\xff",
		"HTTP/1.1 200 x\r\nA: b\r\n c\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		slow := bytes.NewReader(stream)
		err := proxydial.ReadConnect(iotest.OneByteReader(slow))
		used := len(stream) - slow.Len()
		if used > 8192 {
			t.Errorf("%d bytes were read", used)
		}
		whole := proxydial.ReadConnect(bytes.NewReader(stream))
		if err != nil {
			if whole == nil {
				t.Errorf("at once it is accepted, byte by byte it is %v", err)
			}
			return
		}
		if !bytes.HasSuffix(stream[:used], []byte("\r\n\r\n")) || (whole == nil) != (used == len(stream)) {
			t.Errorf("%d of %d bytes used; at once the verdict is %v", used, len(stream), whole)
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(stream[:used])), &http.Request{Method: http.MethodConnect})
		if err != nil {
			if text := err.Error(); !strings.Contains(text, "Content-Length") && !strings.Contains(text, "transfer encoding") &&
				!strings.Contains(text, "railer") { // fields about a body are ignored
				t.Errorf("accepted what net/http refuses with %v", err)
			}
			return
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode < 200 || res.StatusCode > 299 {
			t.Errorf("accepted with status %d", res.StatusCode)
		}
	})
}

// scripted is a proxy whose answers are there before the request.
type scripted struct {
	io.Reader
	said bytes.Buffer
}

func (s *scripted) Write(p []byte) (int, error) { return s.said.Write(p) }

// FuzzSOCKS5 checks that the result does not depend on how the replies are cut, and that no byte behind them is read.
func FuzzSOCKS5(f *testing.F) {
	for _, seed := range []string{
		"\x05\x00" + socksOK, "\x05\x02\x01\x00" + socksOK, "\x05\x00\x05\x00\x00\x03\x02hi\x00\x50", "\x05\xff", "\x05\x02\x01\x01",
		"\x05\x00\x05\x00\x00\x04" + strings.Repeat("x", 18), "\x05\x00\x05\x05\x00\x01", "HTTP/1.1 400 x\r\n\r\n", "\x05\x00" + socksOK + "behind",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, stream []byte, known bool) {
		var user *url.Userinfo
		if known {
			user = url.UserPassword("u", "p")
		}
		server := &url.URL{Scheme: "ws", Host: "h"}
		run := func(cut func(io.Reader) io.Reader) (verdict, said string, used int) {
			r := bytes.NewReader(stream)
			proxy := &scripted{Reader: cut(r)}
			verdict = "accepted"
			if err := proxydial.SOCKS5(proxy, user, server); err != nil {
				verdict = err.Error()
			}
			return verdict, proxy.said.String(), len(stream) - r.Len()
		}
		verdict, said, used := run(func(r io.Reader) io.Reader { return r })
		for _, cut := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader} {
			if v, s, n := run(cut); v != verdict || s != said || n != used {
				t.Errorf("cut: %s, %q, %d; whole: %s, %q, %d", v, s, n, verdict, said, used)
			}
		}
		if verdict != "accepted" {
			return
		}
		if want := socksSize(stream, known); used != want {
			t.Errorf("%d bytes used of %q, want %d", used, stream, want)
		}
		if !strings.HasSuffix(said, socksRequest) {
			t.Errorf("accepted, and said %q", said)
		}
	})
}

// socksSize returns the length of the replies of a proxy that follows the protocol.
func socksSize(stream []byte, known bool) int {
	size := 2
	if known && stream[1] == 2 {
		size += 2
	}
	switch reply := stream[size:]; reply[3] {
	case 1:
		return size + 4 + 4 + 2
	case 3:
		return size + 4 + 1 + int(reply[4]) + 2
	default:
		return size + 4 + 16 + 2
	}
}
