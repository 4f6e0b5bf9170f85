package tlsmem

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// ServerState is the state that all connections of one server share. The zero value is ready. It must not be copied.
type ServerState struct {
	Pool Pool
	Test func() error // checks that a Conn works; nil is the function Test; must be set before the first call of Works

	once sync.Once
	err  error
}

// Works reports whether a [Conn] works. The first call runs the test, and other calls wait for it. If the test fails, the first call passes the
// error to failed.
func (x *ServerState) Works(failed func(error)) bool {
	x.once.Do(func() {
		test := x.Test
		if test == nil {
			test = Test
		}
		if x.err = test(); x.err != nil {
			failed(x.err)
		}
	})
	return x.err == nil
}

// Test checks that a [Conn] works with this version of crypto/tls. The check runs in memory, with TLS 1.3 and 1.2, and with small and large
// records that arrive byte by byte and many at once. It takes some milliseconds. After an error connections have to be left to goroutines.
func Test() error {
	config, err := testConfig()
	if err != nil {
		return fmt.Errorf("tlsmem: %w", err)
	}
	for _, version := range []uint16{tls.VersionTLS13, tls.VersionTLS12} {
		if err := testVersion(config, version); err != nil {
			return fmt.Errorf("tlsmem: %s: %w", tls.VersionName(version), err)
		}
	}
	return nil
}

// testConfig returns a server's configuration with a certificate for this test alone.
func testConfig() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}, nil
}

// nowhere is the Underlying of a connection without a socket.
type nowhere struct{}

func (nowhere) LocalAddr() net.Addr  { return &net.UnixAddr{Net: "unix"} }
func (nowhere) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }
func (nowhere) Socket() net.Conn     { return nil }

// pair is the two ends of a connection in memory after their handshake. Both are a Conn: after the handshake client and server behave alike.
type pair struct{ server, client *Conn }

// newPair makes the handshake over a pipe.
func newPair(config *tls.Config, version uint16) (*pair, error) {
	config = config.Clone()
	config.MinVersion, config.MaxVersion = version, version
	here, there := net.Pipe()
	defer there.Close() //nolint:errcheck // not needed after the handshake
	until := time.Now().Add(handshakeLimit)
	_, _ = here.SetDeadline(until), there.SetDeadline(until)
	pool := new(Pool)
	p := &pair{
		server: NewServer(here, config, nowhere{}, pool),
		client: &Conn{wire: wire{conn: there, underlying: nowhere{}, pool: pool}},
	}
	p.client.conn = tls.Client(&p.client.wire, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate was made a moment ago
	done := make(chan error, 1)
	go func() {
		err := p.server.conn.Handshake()
		_ = here.Close()
		done <- err
	}()
	err := p.client.conn.Handshake()
	if err != nil {
		_ = there.Close()
		return nil, errors.Join(err, <-done)
	}
	tickets, err := io.ReadAll(there) // the bytes that the server sends after its handshake
	if err := errors.Join(err, <-done); err != nil {
		return nil, err
	}
	p.server.Detach()
	p.client.Detach()
	if _, err := p.client.receive(tickets, 1); !errors.Is(err, ErrNeedMore) {
		return nil, fmt.Errorf("tickets: %w", err)
	}
	return p, nil
}

// handshakeLimit bounds a handshake in memory, which takes about a millisecond.
const handshakeLimit = 10 * time.Second

// testVersion is Test for one version of TLS.
func testVersion(config *tls.Config, version uint16) error {
	p, err := newPair(config, version)
	if err != nil {
		return err
	}
	sizes := []struct{ bytes, cut int }{{1, 1}, {700, 1}, {MaxPlaintext, 1000}, {6 * MaxPlaintext, 3 * MaxPlaintext}, {0, 1}, {100, 1}}
	for _, size := range sizes {
		if err := p.client.talk(p.server, size.bytes, size.cut); err != nil {
			return fmt.Errorf("%d bytes to the server: %w", size.bytes, err)
		}
		if err := p.server.talk(p.client, size.bytes, size.cut); err != nil {
			return fmt.Errorf("%d bytes to the client: %w", size.bytes, err)
		}
	}
	if err := p.client.part(p.server); err != nil {
		return fmt.Errorf("end of the client: %w", err)
	}
	if err := p.server.talk(p.client, 100, 1); err != nil {
		return fmt.Errorf("after the end of the client: %w", err)
	}
	if err := p.server.part(p.client); err != nil {
		return fmt.Errorf("end of the server: %w", err)
	}
	return nil
}

// talk sends size bytes to the other end, which is fed pieces of cut bytes, and checks that they arrive.
func (c *Conn) talk(to *Conn, size, cut int) error {
	message := make([]byte, size)
	for i := range message {
		message[i] = byte(i * i >> 3)
	}
	var sent []byte
	for rest := message; len(rest) > 0; rest = rest[min(len(rest), MaxPlaintext):] {
		if err := c.Write(rest[:min(len(rest), MaxPlaintext)]); err != nil {
			return err
		}
		sent = c.collect(sent)
	}
	got, err := to.receive(sent, cut)
	switch {
	case !errors.Is(err, ErrNeedMore):
		return err
	case !bytes.Equal(got, message):
		return errors.New("other bytes have arrived")
	case to.Pending() > 0:
		return errors.New("there was an answer")
	}
	return nil
}

// part ends the direction from c to the other end, and checks that the other end reads io.EOF.
func (c *Conn) part(to *Conn) error {
	if err := c.CloseWrite(); err != nil {
		return err
	}
	if got, err := to.receive(c.collect(nil), 1); !errors.Is(err, io.EOF) || len(got) > 0 {
		return fmt.Errorf("%d bytes, %w", len(got), err)
	}
	return nil
}

// collect appends all bytes that wait to be sent. Each Flush takes half of them.
func (c *Conn) collect(to []byte) []byte {
	for c.Pending() > 0 {
		_, _ = c.Flush(func(p []byte) (int, error) {
			p = p[:(len(p)+1)/2]
			to = append(to, p...)
			return len(p), nil
		})
	}
	return to
}

// receive feeds bytes in pieces of cut bytes, and returns the plaintext and the last error of Read.
func (c *Conn) receive(all []byte, cut int) (got []byte, err error) {
	buf := make([]byte, 1000)
	for err = ErrNeedMore; len(all) > 0 && errors.Is(err, ErrNeedMore); all = all[min(len(all), cut):] {
		c.Feed(all[:min(len(all), cut)])
		for err = nil; err == nil; {
			var n int
			n, err = c.Read(buf)
			got = append(got, buf[:n]...)
		}
		if errors.Is(err, ErrNeedMore) && c.Unread() > 0 {
			return got, fmt.Errorf("%d bytes were not taken", c.Unread())
		}
	}
	return got, err
}
