package tlsconn

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

// Shared is what the connections of one server have in common. The zero value is ready, and must not be copied.
type Shared struct {
	Pool Pool
	Test func() error // what shows whether a Conn works, or nil for that of this package; to be set before the first call of Works

	once sync.Once
	err  error
}

// Works reports whether a [Conn] works, which is tested once: if not, the first call, during which others wait, hands the reason to failed.
func (x *Shared) Works(failed func(error)) bool {
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

// Test shows whether a [Conn] works with this version of crypto/tls: in memory, with TLS 1.3 and 1.2, with records that come byte by
// byte and many at once, small and large. It takes some milliseconds. Any error says that connections have to be left to goroutines.
func Test() error {
	config, err := testConfig()
	if err != nil {
		return fmt.Errorf("tlsconn: %w", err)
	}
	for _, version := range []uint16{tls.VersionTLS13, tls.VersionTLS12} {
		if err := testVersion(config, version); err != nil {
			return fmt.Errorf("tlsconn: %s: %w", tls.VersionName(version), err)
		}
	}
	return nil
}

// testConfig makes a server's configuration with a certificate that nobody else sees.
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

// nowhere are the ends of a connection that has none.
type nowhere struct{}

func (nowhere) LocalAddr() net.Addr  { return &net.UnixAddr{Net: "unix"} }
func (nowhere) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }
func (nowhere) Socket() net.Conn     { return nil }

// pair are two ends in memory after their handshake. Both are a Conn: after the handshake nothing tells a client from a server.
type pair struct{ server, client *Conn }

// newPair makes the handshake, over a pipe.
func newPair(config *tls.Config, version uint16) (*pair, error) {
	config = config.Clone()
	config.MinVersion, config.MaxVersion = version, version
	here, there := net.Pipe()
	defer there.Close() //nolint:errcheck // it is not needed after the handshake
	until := time.Now().Add(handshakeLimit)
	_, _ = here.SetDeadline(until), there.SetDeadline(until)
	pool := new(Pool)
	p := &pair{
		server: NewServer(here, config, nowhere{}, pool),
		client: &Conn{wire: wire{conn: there, ends: nowhere{}, pool: pool}},
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
	tickets, err := io.ReadAll(there) // what the server says after its handshake
	if err := errors.Join(err, <-done); err != nil {
		return nil, err
	}
	p.server.Detach()
	p.client.Detach()
	if _, err := p.client.receive(tickets, 1); !errors.Is(err, ErrMore) {
		return nil, fmt.Errorf("tickets: %w", err)
	}
	return p, nil
}

// handshakeLimit is for a handshake in memory, which takes a millisecond.
const handshakeLimit = 10 * time.Second

// testVersion is Test for one version of TLS.
func testVersion(config *tls.Config, version uint16) error {
	p, err := newPair(config, version)
	if err != nil {
		return err
	}
	sizes := []struct{ bytes, cut int }{{1, 1}, {700, 1}, {MaxPlain, 1000}, {6 * MaxPlain, 3 * MaxPlain}, {0, 1}, {100, 1}}
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

// talk sends so many bytes to another end, and looks whether they arrive. They are fed cut into pieces.
func (c *Conn) talk(to *Conn, size, cut int) error {
	message := make([]byte, size)
	for i := range message {
		message[i] = byte(i * i >> 3)
	}
	var sent []byte
	for rest := message; len(rest) > 0; rest = rest[min(len(rest), MaxPlain):] {
		if err := c.Write(rest[:min(len(rest), MaxPlain)]); err != nil {
			return err
		}
		sent = c.collect(sent)
	}
	got, err := to.receive(sent, cut)
	switch {
	case !errors.Is(err, ErrMore):
		return err
	case !bytes.Equal(got, message):
		return errors.New("other bytes have arrived")
	case to.Pending() > 0:
		return errors.New("there was an answer")
	}
	return nil
}

// part ends one direction.
func (c *Conn) part(to *Conn) error {
	if err := c.CloseWrite(); err != nil {
		return err
	}
	if got, err := to.receive(c.collect(nil), 1); !errors.Is(err, io.EOF) || len(got) > 0 {
		return fmt.Errorf("%d bytes, %w", len(got), err)
	}
	return nil
}

// collect appends all that waits to be sent, which goes in two pieces.
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

// receive feeds bytes in pieces, and returns what is read, and the last error of Read.
func (c *Conn) receive(all []byte, cut int) (got []byte, err error) {
	buf := make([]byte, 1000)
	for err = ErrMore; len(all) > 0 && errors.Is(err, ErrMore); all = all[min(len(all), cut):] {
		c.Feed(all[:min(len(all), cut)])
		for err = nil; err == nil; {
			var n int
			n, err = c.Read(buf)
			got = append(got, buf[:n]...)
		}
		if errors.Is(err, ErrMore) && c.Fed() > 0 {
			return got, fmt.Errorf("%d bytes were not taken", c.Fed())
		}
	}
	return got, err
}
