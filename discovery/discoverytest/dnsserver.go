package discoverytest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// Types of records.
const (
	TypeA, TypeAAAA, TypeSRV = 1, 28, 33
)

// Codes of answers.
const (
	CodeNone, CodeFailure, codeNoName = 0, 2, 3
)

// Record is what a [DNSServer] has under a name.
type Record struct {
	name string // with a dot at its end
	kind uint16
	TTL  uint32 // in seconds
	data []byte
}

// Address returns an A or AAAA record. The time to live is in seconds.
func Address(name, ip string, ttl uint32) Record {
	a := netip.MustParseAddr(ip)
	kind := uint16(TypeA)
	if a.Is6() {
		kind = TypeAAAA
	}
	return Record{name: name, kind: kind, TTL: ttl, data: a.AsSlice()}
}

// SRV returns a service record.
func SRV(name, target string, port, priority, weight uint16) Record {
	data := binary.BigEndian.AppendUint16(nil, priority)
	data = binary.BigEndian.AppendUint16(data, weight)
	data = binary.BigEndian.AppendUint16(data, port)
	return Record{name: name, kind: TypeSRV, data: AppendName(data, target)}
}

// AppendName appends a name as DNS messages have it.
func AppendName(dst []byte, name string) []byte {
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label != "" {
			dst = append(append(dst, byte(len(label))), label...)
		}
	}
	return append(dst, 0)
}

// DNSServer is a DNS server on loopback, over UDP and TCP.
type DNSServer struct {
	udp net.PacketConn
	tcp net.Listener

	mu        sync.Mutex // guards what follows
	records   []Record
	code      byte // of all answers
	truncated bool // answers over UDP are empty, and say that they are cut
	asked     int
}

// NewDNSServer starts a DNS server, which ends with the test.
func NewDNSServer(t testing.TB) *DNSServer {
	t.Helper()
	s := &DNSServer{}
	for { // until the port is free for both
		var err error
		if s.tcp, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if s.udp, err = new(net.ListenConfig).ListenPacket(t.Context(), "udp", s.tcp.Addr().String()); err == nil {
			break
		}
		_ = s.tcp.Close()
	}
	var serving sync.WaitGroup
	serving.Go(s.serveUDP)
	serving.Go(s.serveTCP)
	t.Cleanup(func() {
		_, _ = s.udp.Close(), s.tcp.Close()
		serving.Wait()
	})
	return s
}

// Addr returns the address of the server, HOST:PORT.
func (s *DNSServer) Addr() string { return s.tcp.Addr().String() }

// Set replaces what the server has: the code of all answers; whether answers over UDP are cut, so that clients ask over TCP; and the records.
func (s *DNSServer) Set(code byte, truncated bool, records ...Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.truncated, s.records = code, truncated, records
}

// Questions returns how often the server was asked.
func (s *DNSServer) Questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *DNSServer) serveUDP() {
	buffer := make([]byte, 2048)
	for {
		n, from, err := s.udp.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = s.udp.WriteTo(s.Answer(buffer[:n], true), from)
	}
}

func (s *DNSServer) serveTCP() {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err == nil {
			question := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(conn, question); err == nil {
				answer := s.Answer(question, false)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
		}
		_ = conn.Close()
	}
}

// Answer answers a question, which has one name.
func (s *DNSServer) Answer(question []byte, udp bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	end := 12
	var name strings.Builder
	for question[end] != 0 {
		n := int(question[end])
		name.Write(question[end+1 : end+1+n])
		name.WriteByte('.')
		end += 1 + n
	}
	end += 5 // the end of the name, type, class
	kind := binary.BigEndian.Uint16(question[end-4:])
	answer := append([]byte(nil), question[:end]...)
	binary.BigEndian.PutUint16(answer[2:], 0x8180|uint16(s.code)) // a response; recursion wanted and had
	binary.BigEndian.PutUint16(answer[10:], 0)                    // what a question has besides is not repeated
	if udp && s.truncated {
		answer[2] |= 2
		return answer
	}
	count, known := uint16(0), false
	for _, r := range s.records {
		if r.name != name.String() {
			continue
		}
		known = true
		if r.kind != kind || s.code != CodeNone {
			continue
		}
		count++
		answer = append(answer, 0xc0, 12) // the name of the question
		answer = binary.BigEndian.AppendUint16(answer, r.kind)
		answer = binary.BigEndian.AppendUint16(answer, 1)
		answer = binary.BigEndian.AppendUint32(answer, r.TTL)
		answer = binary.BigEndian.AppendUint16(answer, uint16(len(r.data)))
		answer = append(answer, r.data...)
	}
	binary.BigEndian.PutUint16(answer[6:], count)
	if !known && s.code == CodeNone {
		answer[3] |= codeNoName
	}
	return answer
}
