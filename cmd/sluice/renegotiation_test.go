package main_test

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	varint "encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// The types of TLS records (RFC 5246, section 6.2.1).
const (
	handshakeRecord   = 22
	applicationRecord = 23
)

// renegotiator is a client of TLS 1.2 that writes records of its own, as crypto/tls does not let clients.
type renegotiator struct {
	t    *testing.T
	raw  *recordedConn
	conn *tls.Conn
	aead cipher.AEAD
	salt []byte // of the nonces
	next uint64 // the number of the next record
}

// recordedConn is a connection that keeps what is received.
type recordedConn struct {
	net.Conn
	received bytes.Buffer
}

// Read implements net.Conn.
func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Write(p[:n])
	return n, err
}

// dialRenegotiator completes a handshake and derives the client's key from what crypto/tls logs.
func dialRenegotiator(t *testing.T, address string, pool *x509.CertPool) *renegotiator {
	t.Helper()
	raw, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	must(t, raw.SetDeadline(time.Now().Add(testwait.Bound)))
	r, log := &renegotiator{t: t, raw: &recordedConn{Conn: raw}, next: 1}, new(bytes.Buffer) // record 0 has ended the handshake
	r.conn = tls.Client(r.raw, &tls.Config{
		RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, KeyLogWriter: log,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	})
	must(t, r.conn.Handshake())
	var clientHex, masterHex string
	_, err = fmt.Sscanf(log.String(), "CLIENT_RANDOM %s %s", &clientHex, &masterHex)
	must(t, err)
	clientRandom, err1 := hex.DecodeString(clientHex)
	master, err2 := hex.DecodeString(masterHex)
	must(t, errors.Join(err1, err2))
	serverRandom := r.raw.received.Bytes()[5+4+2:][:32] // after the headers of the record and of ServerHello, and the version
	keys := expand(master, "key expansion", append(bytes.Clone(serverRandom), clientRandom...), 2*16+2*4)
	block, err := aes.NewCipher(keys[:16])
	must(t, err)
	r.aead, err = cipher.NewGCM(block)
	must(t, err)
	r.salt = keys[32:36]
	return r
}

// expand is the pseudorandom function of TLS 1.2 (RFC 5246, section 5).
func expand(secret []byte, label string, seed []byte, size int) (out []byte) {
	seed = append([]byte(label), seed...)
	hash := func(parts ...[]byte) []byte {
		h := hmac.New(sha256.New, secret)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	for a := hash(seed); len(out) < size; a = hash(a) {
		out = append(out, hash(a, seed)...)
	}
	return out[:size]
}

// write sends an encrypted record (RFC 5288, section 3).
func (r *renegotiator) write(kind byte, plain []byte) {
	r.t.Helper()
	explicit := varint.BigEndian.AppendUint64(nil, r.next)
	head := varint.BigEndian.AppendUint16([]byte{kind, 3, 3}, uint16(len(plain))) //nolint:gosec // small
	sealed := r.aead.Seal(nil, append(bytes.Clone(r.salt), explicit...), plain, append(bytes.Clone(explicit), head...))
	r.next++
	record := varint.BigEndian.AppendUint16([]byte{kind, 3, 3}, uint16(len(explicit)+len(sealed))) //nolint:gosec // small
	_, err := r.raw.Write(append(append(record, explicit...), sealed...))
	must(r.t, err)
}

// clientHello is a message that begins another handshake, as that of the first one did but for the random bytes.
func clientHello() []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0xc0, 0x2b, 1, 0) // no session, one cipher suite, no compression
	return append([]byte{1, 0, 0, byte(len(body))}, body...)
}

// TestRenegotiation: a node refuses to negotiate the keys of a connection anew, which would let one client have it compute without end. Only that
// connection ends.
func TestRenegotiation(t *testing.T) {
	t.Parallel()
	cert, pool := writeCertificate(t)
	files := fmt.Sprintf("{cert: %q, key: %q}", cert, cert)
	p := startNodeWith(t, "tls: "+files+"\ntcp: {listen: \"127.0.0.1:0\", tls: "+files+"}\nbroker: {kind: memory}\n")
	secured := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	witness, err := overSecuredTCP(t, p.tcp, secured)
	must(t, err)
	for name, way := range map[string]struct {
		address string
		ask     []byte
		answers func(in *bufio.Reader) error
	}{
		"HTTP": {p.public, []byte("GET /connection/uni_sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), func(in *bufio.Reader) error {
			response, err := http.ReadResponse(in, nil)
			if err == nil && response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			}
			return err
		}},
		"TCP": {p.tcp, protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect}), func(in *bufio.Reader) error {
			_, err := in.Peek(1)
			return err
		}},
	} {
		r := dialRenegotiator(t, way.address, pool)
		r.write(applicationRecord, way.ask) // shows that its records are valid
		in := bufio.NewReader(r.conn)
		if err := way.answers(in); err != nil {
			t.Errorf("%s: a record of the client is answered %v", name, err)
		}
		r.write(handshakeRecord, clientHello())
		_, err := in.WriteTo(new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), "tls: unexpected message") && !strings.Contains(err.Error(), "tls: no renegotiation") {
			t.Errorf("%s: another handshake is answered %v", name, err)
		}
	}
	publishSecured(t, p, secured, `"still there"`)
	if got, err := witness.next(); got != `"still there"` || err != nil {
		t.Errorf("the other client got %q, %v", got, err)
	}
}
