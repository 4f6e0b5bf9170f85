package gateway_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/compression"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
)

// A client that does not send the body it announced is given up, and one that announces too much is told.
func TestBodies(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { // net/http keeps connections half a second whose body it has not read
		testwait.True(t, "net/http has given up the connections", func() bool { return goleak.Find(before) == nil })
	})
	p := newPlace(t, &gateway.Options{ConnectTimeout: 50 * time.Millisecond, MessageBytes: 1000})
	for _, path := range []string{httpstream.Path, httpstream.OneWayPath, gateway.EmulationPath} {
		for _, tt := range []struct {
			length int
			body   string
			status int
		}{
			{10, "{", http.StatusRequestTimeout},
			{10_000, strings.Repeat("x", 10_000), http.StatusRequestEntityTooLarge},
		} {
			conn, err := p.dial(t.Context())
			must(t, err)
			must(t, conn.SetDeadline(time.Now().Add(patience)))
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", path, p.addr, tt.length, tt.body)
			must(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must(t, err)
			if res.StatusCode != tt.status {
				t.Errorf("%s: %d of %d bytes are answered %s", path, len(tt.body), tt.length, res.Status)
			}
			_ = res.Body.Close()
			_ = conn.Close()
		}
	}
	if got := p.gateway.Stats().Refused.Request; got != 6 {
		t.Errorf("%d requests are counted as refused", got)
	}
}

// A compressed body is taken if compression is on, and is bounded by what it inflates to; any other encoding is refused.
func TestCompressedBodies(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { // as above
		testwait.True(t, "net/http has given up the connections", func() bool { return goleak.Find(before) == nil })
	})
	const most = 1000
	gzipped := func(text string) string { return string(compression.AppendGzip(nil, []byte(text))) }
	command := `{"id":1,"connect":{}}`
	for _, tt := range []struct {
		name           string
		on             bool
		encoding, body string
		status         int
	}{
		{"plain", true, "", command, http.StatusOK},
		{"identity", false, "identity", command, http.StatusOK},
		{"compressed", true, "gzip", gzipped(command), http.StatusOK},
		{"compressed, in capitals", true, "GZIP", gzipped(command), http.StatusOK},
		{"off", false, "gzip", gzipped(command), http.StatusUnsupportedMediaType},
		{"another encoding", true, "br", command, http.StatusUnsupportedMediaType},
		{"two encodings", true, "gzip, gzip", gzipped(gzipped(command)), http.StatusUnsupportedMediaType},
		{"not compressed", true, "gzip", command, http.StatusBadRequest},
		{"cut off", true, "gzip", gzipped(command)[:20], http.StatusBadRequest},
		{"bomb", true, "gzip", gzipped(strings.Repeat(" ", 500_000)), http.StatusRequestEntityTooLarge},
		{"one byte too many", true, "gzip", gzipped(command + strings.Repeat("\n", most+1-len(command))), http.StatusRequestEntityTooLarge},
		{"large before it is inflated", true, "gzip", strings.Repeat("x", most+1), http.StatusRequestEntityTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, &gateway.Options{MessageBytes: most, Compression: tt.on})
			r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, "http://"+p.addr+httpstream.Path, strings.NewReader(tt.body))
			must(t, err)
			if tt.encoding != "" {
				r.Header.Set("Content-Encoding", tt.encoding)
			}
			client := http.Client{Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			res, err := client.Do(r)
			must(t, err)
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != tt.status {
				t.Errorf("answered %s", res.Status)
			}
			if got := p.gateway.Stats().Refused.Request; got != 0 != (tt.status != http.StatusOK) {
				t.Errorf("%d requests are counted as refused", got)
			}
		})
	}
	// Commands beside the stream have twice the room, because JSON escapes them.
	p := newPlace(t, &gateway.Options{MessageBytes: most, Compression: true})
	bomb := gzipped(`{"session":"a","node":"` + p.hub.ID() + `","data":"` + strings.Repeat(" ", 500_000) + `"}`)
	r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, "http://"+p.addr+gateway.EmulationPath, strings.NewReader(bomb))
	must(t, err)
	r.Header.Set("Content-Encoding", "gzip")
	res, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a bomb beside the stream is answered %s", res.Status)
	}
}

// A stream is compressed if compression is on and the client asks for it, and ends as a whole.
func TestCompressedStreams(t *testing.T) {
	for _, tt := range []struct {
		on           bool
		accept       string
		encoding     string
		isCompressed bool
	}{
		{true, "gzip, deflate, br", "gzip", true}, {true, "br", "", false}, {true, "", "", false}, {true, "gzip;q=0", "", false}, {false, "gzip", "", false},
	} {
		for method, path := range map[string]string{
			http.MethodPost: httpstream.OneWayPath, http.MethodGet: sseclients.OneWayPath + "?cf_connect=" + url.QueryEscape(`{"subs":{"a":{}}}`),
		} {
			t.Run(fmt.Sprint(tt.on, tt.accept, method), func(t *testing.T) {
				p := newPlace(t, &gateway.Options{Compression: tt.on})
				body := map[string]string{http.MethodPost: `{"subs":{"a":{}}}`}[method]
				r, err := http.NewRequestWithContext(testwait.Context(t), method, "http://"+p.addr+path, strings.NewReader(body))
				must(t, err)
				if tt.accept != "" {
					r.Header.Set("Accept-Encoding", tt.accept)
				}
				client := http.Client{Transport: &http.Transport{DisableCompression: true}}
				defer client.CloseIdleConnections()
				res, err := client.Do(r)
				must(t, err)
				defer func() { _ = res.Body.Close() }()
				if got := res.Header.Get("Content-Encoding"); got != tt.encoding {
					t.Fatalf("content encoding %q", got)
				}
				if got := res.Header.Get("Vary"); strings.Contains(got, "Accept-Encoding") != tt.on {
					t.Errorf("vary %q", got)
				}
				in := io.Reader(res.Body)
				if tt.isCompressed {
					in, err = gzip.NewReader(res.Body)
					must(t, err)
				}
				lines := bufio.NewReader(in)
				until := func(text string) {
					for {
						line, err := lines.ReadString('\n')
						must(t, err)
						if strings.Contains(line, text) {
							return
						}
					}
				}
				until("connect")
				sent := func() (n uint64) {
					for _, s := range p.gateway.Stats().Transports {
						n += s.BytesOut
					}
					return n
				}
				before := sent()
				p.publish("a", `"`+strings.Repeat("x", 20_000)+`"`)
				until("xxxx")
				wantSent(t, sent, before, tt.isCompressed)
				ended := make(chan error, 1)
				go func() { ended <- p.gateway.Shutdown(testwait.Context(t)) }()
				until(`"code":3001`)
				if _, err := io.ReadAll(lines); err != nil { // the checksum of all
					t.Errorf("the end: %v", err)
				}
				must(t, <-ended)
			})
		}
	}
}

// A client that announces a body and does not send it holds no connection, also where the handler does not read the body.
func TestUnreadBodies(t *testing.T) {
	p := newPlace(t, &gateway.Options{ConnectTimeout: 50 * time.Millisecond})
	p.log.expect("origin not allowed")
	const page = "Origin: https://elsewhere.example\r\n"
	own := "Origin: http://" + p.addr + "\r\n"
	t.Run("all at once", func(t *testing.T) {
		for head, status := range map[string]int{
			"GET /connection/sse?cf_connect=%7B%22id%22:1,%22connect%22:%7B%7D%7D HTTP/1.1\r\n": http.StatusBadRequest,
			"GET /connection/uni_sse HTTP/1.1\r\n":                                              http.StatusBadRequest,
			"GET /connection/sse HTTP/1.1\r\n" + page:                                           http.StatusForbidden,
			"POST /emulation HTTP/1.1\r\n" + page:                                               http.StatusForbidden,
			"POST /connection/http_stream HTTP/1.1\r\n" + page:                                  http.StatusForbidden,
			"OPTIONS /emulation HTTP/1.1\r\nAccess-Control-Request-Method: POST\r\n" + own:      http.StatusNoContent,
			"PUT /emulation HTTP/1.1\r\n":                                                       http.StatusMethodNotAllowed,
			"POST /elsewhere HTTP/1.1\r\n":                                                      http.StatusNotFound,
			"POST /emulation HTTP/1.1\r\n":                                                      http.StatusRequestTimeout,
			"GET /connection/websocket HTTP/1.1\r\n":                                            http.StatusBadRequest,
			"POST /emulation HTTP/1.1\r\nExpect: 100-continue\r\n":                              http.StatusContinue,
		} {
			t.Run(head, func(t *testing.T) {
				t.Parallel()
				conn, err := p.dial(t.Context())
				must(t, err)
				defer func() { _ = conn.Close() }()
				must(t, conn.SetDeadline(time.Now().Add(patience)))
				_, err = fmt.Fprintf(conn, "%sHost: %s\r\nContent-Length: 10\r\n\r\n{", head, p.addr)
				must(t, err)
				if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), fmt.Sprint("HTTP/1.1 ", status)) {
					t.Errorf("%q, %v, want status %d", got, err, status)
				}
			})
		}
	})
	testwait.True(t, "no client", func() bool { return p.gateway.Len() == 0 })
}

// A stream goes on when the time in which its body had to arrive is over.
func TestStreamAfterBody(t *testing.T) {
	inFakeTime(t, &gateway.Options{ConnectTimeout: time.Second}, func(t *testing.T, p *place) {
		conn, err := p.dial(t.Context())
		must(t, err)
		defer func() { _ = conn.Close() }()
		const body = `{"subs":{"a":{}}}`
		go func() { // a pipe has no buffer
			_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", httpstream.OneWayPath, len(body), body)
		}()
		in := bufio.NewReader(conn)
		until := func(text string) {
			for line := ""; !strings.Contains(line, text); {
				line, err = in.ReadString('\n')
				must(t, err)
			}
		}
		until("connect")
		pass(10 * time.Second)
		p.publish("a", `"later"`)
		until("later")
	})
}
