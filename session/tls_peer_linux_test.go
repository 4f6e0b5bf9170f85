package session_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// tlsPeer is a TLS 1.3 client after its handshake. It can ask for key updates and put any bytes into a record, for which crypto/tls has no
// functions: RFC 8446, sections 4.6.3, 5.2 and 7.2.
type tlsPeer struct {
	t       testing.TB
	conn    net.Conn
	out, in direction
}

// direction holds the keys of one direction.
type direction struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	number uint64
}

// The types of records, RFC 8446 section 5.1.
const (
	recordHandshake   = 22
	recordApplication = 23
)

// newTLSPeer makes the handshake on conn with crypto/tls, and then goes on with the keys from its log.
func newTLSPeer(t testing.TB, conn net.Conn) *tlsPeer {
	t.Helper()
	var keys bytes.Buffer
	c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &keys, MinVersion: tls.VersionTLS13}) //nolint:gosec // the certificate is not what is tested
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if id := c.ConnectionState().CipherSuite; id != tls.TLS_AES_128_GCM_SHA256 {
		t.Fatalf("the cipher suite is %s", tls.CipherSuiteName(id))
	}
	p := &tlsPeer{t: t, conn: conn}
	for line := range strings.Lines(keys.String()) {
		f := strings.Fields(line)
		secret, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		switch f[0] {
		case "CLIENT_TRAFFIC_SECRET_0":
			p.out.use(t, secret)
		case "SERVER_TRAFFIC_SECRET_0":
			p.in.use(t, secret)
		}
	}
	return p
}

// expand is HKDF-Expand-Label.
func expand(t testing.TB, secret []byte, label string, n int) []byte {
	label = "tls13 " + label
	info := append(binary.BigEndian.AppendUint16(nil, uint16(n)), byte(len(label)))
	key, err := hkdf.Expand(sha256.New, secret, string(info)+label+"\x00", n)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// use changes the keys to those of a secret.
func (h *direction) use(t testing.TB, secret []byte) {
	block, err := aes.NewCipher(expand(t, secret, "key", 16))
	if err != nil {
		t.Fatal(err)
	}
	if h.aead, err = cipher.NewGCM(block); err != nil {
		t.Fatal(err)
	}
	h.secret, h.iv, h.number = secret, expand(t, secret, "iv", 12), 0
}

// update changes the keys to the next ones.
func (h *direction) update(t testing.TB) { h.use(t, expand(t, h.secret, "traffic upd", 32)) }

func (h *direction) nonce() []byte {
	nonce := bytes.Clone(h.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(h.number >> (56 - 8*i))
	}
	h.number++
	return nonce
}

// seal makes a record.
func (p *tlsPeer) seal(typ byte, data []byte) []byte {
	header := binary.BigEndian.AppendUint16([]byte{recordApplication, 3, 3}, uint16(len(data)+1+p.out.aead.Overhead()))
	return p.out.aead.Seal(header, p.out.nonce(), append(bytes.Clone(data), typ), header)
}

// open reads a record. It follows key updates of the server.
func (p *tlsPeer) open() (typ byte, data []byte, err error) {
	var header [5]byte
	if _, err := io.ReadFull(p.conn, header[:]); err != nil {
		return 0, nil, err
	}
	data = make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(p.conn, data); err != nil {
		return 0, nil, err
	}
	if data, err = p.in.aead.Open(data[:0], p.in.nonce(), data, header[:]); err != nil {
		return 0, nil, fmt.Errorf("record %d: %w", p.in.number-1, err)
	}
	data = bytes.TrimRight(data, "\x00")
	typ, data = data[len(data)-1], data[:len(data)-1]
	if typ == recordHandshake && data[0] == keyUpdate {
		p.in.update(p.t)
	}
	return typ, data, nil
}

// keyUpdate is the type of that message, RFC 8446 section 4.6.3.
const keyUpdate = 24

// updateKeys returns records of cut bytes with a key update that asks for one in return.
func (p *tlsPeer) updateKeys(cut int) (records []byte) {
	message := []byte{keyUpdate, 0, 0, 1, 1}
	for ; len(message) > 0; message = message[min(cut, len(message)):] {
		records = append(records, p.seal(recordHandshake, message[:min(cut, len(message))])...)
	}
	p.out.update(p.t)
	return records
}
