package discovery_test

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
	typeA, typeAAAA, typeSRV = 1, 28, 33
)

// Codes of answers.
const (
	codeNone, codeFailure, codeNoName = 0, 2, 3
)

// record is what a DNS server has under a name.
type record struct {
	name string // with a dot at its end
	kind uint16
	ttl  uint32
	data []byte
}

func address(name, ip string, ttl uint32) record {
	a := netip.MustParseAddr(ip)
	kind := uint16(typeA)
	if a.Is6() {
		kind = typeAAAA
	}
	return record{name: name, kind: kind, ttl: ttl, data: a.AsSlice()}
}

func srv(name, target string, port, priority, weight uint16) record {
	data := binary.BigEndian.AppendUint16(nil, priority)
	data = binary.BigEndian.AppendUint16(data, weight)
	data = binary.BigEndian.AppendUint16(data, port)
	return record{name: name, kind: typeSRV, data: appendName(data, target)}
}

func appendName(dst []byte, name string) []byte {
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label != "" {
			dst = append(append(dst, byte(len(label))), label...)
		}
	}
	return append(dst, 0)
}

// dnsServer is a DNS server on loopback, over UDP and TCP.
type dnsServer struct {
	udp net.PacketConn
	tcp net.Listener

	mu        sync.Mutex // guards what follows
	records   []record
	code      byte // of all answers
	truncated bool // answers over UDP are empty, and say that they are cut
	asked     int
}

func newDNSServer(t *testing.T) *dnsServer {
	t.Helper()
	s := &dnsServer{}
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

func (s *dnsServer) addr() string { return s.tcp.Addr().String() }

// set replaces what the server has.
func (s *dnsServer) set(code byte, truncated bool, records ...record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.truncated, s.records = code, truncated, records
}

// questions returns how often the server was asked.
func (s *dnsServer) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *dnsServer) serveUDP() {
	buffer := make([]byte, 2048)
	for {
		n, from, err := s.udp.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = s.udp.WriteTo(s.answer(buffer[:n], true), from)
	}
}

func (s *dnsServer) serveTCP() {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err == nil {
			question := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(conn, question); err == nil {
				answer := s.answer(question, false)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
		}
		_ = conn.Close()
	}
}

// answer answers a question, which has one name.
func (s *dnsServer) answer(question []byte, udp bool) []byte {
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
		if r.kind != kind || s.code != codeNone {
			continue
		}
		count++
		answer = append(answer, 0xc0, 12) // the name of the question
		answer = binary.BigEndian.AppendUint16(answer, r.kind)
		answer = binary.BigEndian.AppendUint16(answer, 1)
		answer = binary.BigEndian.AppendUint32(answer, r.ttl)
		answer = binary.BigEndian.AppendUint16(answer, uint16(len(r.data)))
		answer = append(answer, r.data...)
	}
	binary.BigEndian.PutUint16(answer[6:], count)
	if !known && s.code == codeNone {
		answer[3] |= codeNoName
	}
	return answer
}
