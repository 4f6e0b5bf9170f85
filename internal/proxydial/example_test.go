package proxydial_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/sluice-push/sluice/internal/proxydial"
)

// The proxies are those of the environment, which never apply to this machine.
func Example() {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	d := &proxydial.Dialer{Proxy: fromEnvironment}
	conn, err := d.Connect(ctx, &url.URL{Scheme: "ws", Host: s.Listener.Addr().String()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /live HTTP/1.1\r\nHost: example.com\r\n\r\n"); err != nil { // here a client would make the handshake
		fmt.Println(err)
		return
	}
	answer := make([]byte, len("HTTP/1.1 404"))
	_, err = io.ReadFull(conn, answer)
	fmt.Println(string(answer), err)
	// Output: HTTP/1.1 404 <nil>
}
