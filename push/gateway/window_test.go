package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
)

// TestTinyWindow: a client of HTTP/2 that lets the server send one byte at a time, and few of them, is given up as one that reads nothing. Others get
// all meanwhile.
func TestTinyWindow(t *testing.T) {
	p := newPlace(t, &gateway.Options{WriteTimeout: 300 * time.Millisecond})
	witness := p.subscriber("a")
	conn, err := p.dial(t.Context())
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, http2.ClientPreface)
	must(t, err)
	framer := http2.NewFramer(conn, conn)
	must(t, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}))
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, f := range [][2]string{
		{":method", http.MethodGet},
		{":scheme", "http"},
		{":authority", p.addr},
		{":path", sseclients.OneWayPath + "?cf_connect=" + url.QueryEscape(`{"subs":{"a":{}}}`)},
	} {
		must(t, encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	must(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true, EndStream: true}))
	received, ended := make(chan int, 1), make(chan error, 1)
	go func() { ended <- readByByte(framer, received) }()
	testwait.Receive(t, received)
	data := `"` + strings.Repeat("x", 8<<10) + `"`
	for range 20 {
		at := p.publish("a", data)
		witness.want(fmt.Sprintf(`{"push":{"channel":"a","pub":{"data":%s,"offset":%d}}}`, data, at.Offset))
	}
	if err := testwait.Receive(t, ended); err != nil {
		t.Error(err)
	}
	testwait.True(t, "the end is counted", func() bool { return p.gateway.Stats().Transports[sseclients.OneWayName].TimedOut == 1 })
	if got := p.gateway.Len(); got != 1 {
		t.Errorf("%d clients are left", got)
	}
}

// readByByte reads a stream until the server resets it, and lets it send one byte more for each that comes, up to 2,000. It tells when the first have
// come.
func readByByte(framer *http2.Framer, received chan<- int) error {
	for n := 0; ; {
		f, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.DataFrame:
			if n += len(f.Data()); n == 100 {
				received <- n
			}
			if n < 2000 {
				err = framer.WriteWindowUpdate(1, 1)
			}
		case *http2.RSTStreamFrame:
			return nil
		}
		if err != nil {
			return err
		}
	}
}
