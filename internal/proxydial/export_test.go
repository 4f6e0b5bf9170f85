package proxydial

import (
	"io"
	"net/url"
)

// Access for the tests of this package.
var ReadConnect = readConnect

// SOCKS5 asks a proxy for a connection to the host and port of the URL.
func SOCKS5(conn io.ReadWriter, user *url.Userinfo, server *url.URL) error {
	h, err := serverOf(server)
	if err != nil {
		return err
	}
	return socks5(conn, user, h)
}
