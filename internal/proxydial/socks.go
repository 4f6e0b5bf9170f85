package proxydial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
)

// Constants of SOCKS5 (RFC 1928, RFC 1929).
const (
	socksVersion = 5 // §3
	authVersion  = 1 // RFC 1929 §2

	methodNone     = 0x00 // §3
	methodPassword = 0x02
	methodRefused  = 0xff

	commandConnect = 1 // §4

	addressIPv4 = 1 // §5
	addressName = 3
	addressIPv6 = 4

	maxSocksString = 255 // bytes in a name, a user or a password: the length is one byte
)

// socksReplies are the reasons for a refusal (RFC 1928 §6).
var socksReplies = [...]string{
	1: "general failure", 2: "not allowed by the rules", 3: "network unreachable", 4: "host unreachable", 5: "connection refused",
	6: "TTL expired", 7: "command not supported", 8: "address type not supported",
}

// socks5 asks a SOCKS5 proxy for a connection to the server. It sends names unresolved: the proxy resolves them. It reads no byte behind the
// proxy's replies.
func socks5(conn io.ReadWriter, user *url.Userinfo, server *hop) error {
	host, err := server.remote()
	if err != nil {
		return err
	}
	request := []byte{socksVersion, commandConnect, 0}
	if ip, err := netip.ParseAddr(host); err != nil {
		if len(host) > maxSocksString {
			return fmt.Errorf("the name of the server has more than %d bytes", maxSocksString)
		}
		request = append(request, addressName, byte(len(host)))
		request = append(request, host...)
	} else if ip.Is4() {
		request = append(append(request, addressIPv4), ip.AsSlice()...)
	} else {
		request = append(append(request, addressIPv6), ip.AsSlice()...)
	}
	request = binary.BigEndian.AppendUint16(request, server.port)
	if err := socksGreet(conn, user); err != nil {
		return err
	}
	if _, err := conn.Write(request); err != nil {
		return err
	}
	return socksReply(conn)
}

// socksGreet negotiates the authentication method, and authenticates.
func socksGreet(conn io.ReadWriter, user *url.Userinfo) error {
	name, password, known := credentials(user)
	greeting := []byte{socksVersion, 1, methodNone}
	if known {
		if name == "" || len(name) > maxSocksString || len(password) > maxSocksString {
			return fmt.Errorf("user or password is not valid: use at most %d bytes each, and a user that is not empty", maxSocksString)
		}
		greeting = []byte{socksVersion, 2, methodNone, methodPassword}
	}
	answer, err := ask(conn, greeting)
	switch method := answer[1]; {
	case err != nil:
		return err
	case answer[0] != socksVersion:
		return fmt.Errorf("the proxy answered with version %d: not a SOCKS5 proxy", answer[0])
	case method == methodNone:
		return nil
	case method == methodRefused && known:
		return errors.New("the proxy accepts neither user and password nor anonymous access")
	case method == methodRefused:
		return errors.New("the proxy requires authentication: put user and password into its URL")
	case method != methodPassword || !known:
		return fmt.Errorf("the proxy chose method %d, which was not offered", method)
	}
	login := append([]byte{authVersion, byte(len(name))}, name...)
	login = append(append(login, byte(len(password))), password...)
	answer, err = ask(conn, login)
	switch {
	case err != nil:
		return err
	case answer[0] != authVersion:
		return fmt.Errorf("the proxy answered to user and password with version %d", answer[0])
	case answer[1] != 0:
		return fmt.Errorf("the proxy refused user and password with status %d", answer[1])
	}
	return nil
}

// ask sends a message, and reads an answer of two bytes.
func ask(conn io.ReadWriter, message []byte) (answer [2]byte, err error) {
	if _, err := conn.Write(message); err != nil {
		return answer, err
	}
	return answer, readAll(conn, answer[:])
}

// socksReply reads the reply to a request (RFC 1928 §6).
func socksReply(r io.Reader) error {
	var reply [4]byte
	if err := readAll(r, reply[:]); err != nil {
		return err
	}
	code := reply[1]
	switch {
	case reply[0] != socksVersion:
		return fmt.Errorf("malformed reply: version %d", reply[0])
	case code != 0 && int(code) < len(socksReplies):
		return fmt.Errorf("the proxy cannot connect: %s", socksReplies[code])
	case code != 0:
		return fmt.Errorf("the proxy cannot connect: reply %d", code)
	case reply[2] != 0:
		return errors.New("malformed reply: the reserved byte is set")
	}
	var bound [maxSocksString + 2]byte // the proxy's own address and port, which are not used
	var size int
	switch reply[3] {
	case addressIPv4:
		size = 4
	case addressIPv6:
		size = 16
	case addressName:
		if err := readAll(r, bound[:1]); err != nil {
			return err
		}
		size = int(bound[0])
	default:
		return fmt.Errorf("malformed reply: address of type %d", reply[3])
	}
	return readAll(r, bound[:size+2])
}

// readAll fills buf. If the connection ends before, the error is io.ErrUnexpectedEOF.
func readAll(r io.Reader, buf []byte) error {
	_, err := io.ReadFull(r, buf)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
