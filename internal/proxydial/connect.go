package proxydial

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// maxConnectHead is the most bytes in the head of a response to CONNECT, with its empty line.
const maxConnectHead = 8 << 10

// connect asks an HTTP proxy for a tunnel to the server (RFC 9110 §9.3.6).
func connect(conn io.ReadWriter, user *url.Userinfo, server *hop) error {
	host, err := server.remote()
	if err != nil {
		return err
	}
	authority := net.JoinHostPort(host, strconv.Itoa(int(server.port)))
	request := "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n"
	if name, password, ok := credentials(user); ok {
		if strings.Contains(name, ":") {
			return errors.New("the user contains a colon, which cannot be sent") // RFC 7617 §2
		}
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return err
	}
	return readConnect(conn)
}

// credentials returns the user name and password in a URL. ok is false if there are none.
func credentials(user *url.Userinfo) (name, password string, ok bool) {
	password, _ = user.Password()
	return user.Username(), password, user.String() != ""
}

// readConnect reads the response to CONNECT. If bytes follow the response, that is an error: a server that sends before it is asked speaks
// neither TLS nor HTTP, and the bytes would be lost.
func readConnect(r io.Reader) error {
	buf := make([]byte, maxConnectHead)
	for have := 0; ; {
		n, err := r.Read(buf[have:])
		end, malformed := findEnd(buf[:have+n], have)
		have += n
		switch {
		case malformed != nil:
			return malformed
		case end > 0:
			if err := checkConnect(string(buf[:end])); err != nil {
				return err
			}
			if end < have {
				return errors.New("the proxy sent unexpected bytes after its response")
			}
			return nil
		case have == len(buf):
			return fmt.Errorf("the head of the response exceeds %d bytes", maxConnectHead)
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}

// findEnd returns the length of the head, or 0 if in does not contain all of it. It begins at seen, before which the head does not end. It fails
// if in cannot be the beginning of a head.
func findEnd(in []byte, seen int) (end int, err error) {
	const start = "HTTP/1."
	if k := min(len(in), len(start)); string(in[:k]) != start[:k] {
		return 0, fmt.Errorf("the response begins with %q: not an HTTP/1.1 proxy", in[:min(len(in), 16)])
	}
	for i := seen; i < len(in); i++ {
		if in[i] != '\n' {
			continue
		}
		if in[i-1] != '\r' { // i > 0: the start was checked
			return 0, errors.New("malformed response: a line does not end in CRLF") // RFC 9112 §2.2
		}
		if bytes.HasSuffix(in[:i+1], []byte("\r\n\r\n")) {
			return i + 1, nil
		}
	}
	return 0, nil
}

// checkConnect checks a whole head. Every status 2xx opens the tunnel; then fields about a body are to be ignored.
func checkConnect(head string) error {
	line, fields, _ := strings.Cut(head, "\r\n")
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	minor, err := strconv.Atoi(strings.TrimPrefix(version, "HTTP/1.")) // findEnd has checked the prefix
	status, bad := strconv.Atoi(code)
	if errors.Join(err, bad) != nil || minor < 0 || len(version) != len("HTTP/1.1") || len(code) != len("200") || status < 100 || status > 599 {
		return fmt.Errorf("malformed response: status line %.64q", line)
	}
	header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(fields))).ReadMIMEHeader()
	if err != nil {
		return fmt.Errorf("malformed response: %w", err)
	}
	if status >= 200 && status <= 299 {
		return nil
	}
	if status == http.StatusProxyAuthRequired {
		return fmt.Errorf("status 407: proxy authentication required (%.256q): check the credentials in the proxy URL", header.Get("Proxy-Authenticate"))
	}
	return fmt.Errorf("status %d %s", status, http.StatusText(status))
}
