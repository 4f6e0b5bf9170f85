package transport_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/transport"
)

const proxySignature = "\r\n\r\n\x00\r\nQUIT\n"

// tlv is an extension. The value of a checksum is filled in later.
type tlv struct {
	kind  byte
	value string
}

// headerV1 returns the line for two addresses.
func headerV1(from, to netip.AddrPort) string {
	family := "TCP6"
	if from.Addr().Is4() {
		family = "TCP4"
	}
	return fmt.Sprintf("PROXY %s %s %s %d %d\r\n", family, from.Addr(), to.Addr(), from.Port(), to.Port())
}

// headerV2 returns a header with a body of addresses, and extensions.
func headerV2(command, family byte, addresses string, tlvs ...tlv) string {
	b := append([]byte(proxySignature), command, family, 0, 0)
	b = append(b, addresses...)
	sum := -1
	for _, x := range tlvs {
		b = append(b, x.kind)
		b = binary.BigEndian.AppendUint16(b, uint16(len(x.value)))
		if x.kind == 3 {
			sum = len(b)
		}
		b = append(b, x.value...)
	}
	binary.BigEndian.PutUint16(b[14:], uint16(len(b)-16))
	if sum >= 0 {
		binary.BigEndian.PutUint32(b[sum:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	return string(b)
}

// bodyV2 returns two addresses in the form of version 2, and their family.
func bodyV2(from, to netip.AddrPort) (family byte, body string) {
	b := append(from.Addr().AsSlice(), to.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	if from.Addr().Is4() {
		return 0x11, string(b)
	}
	return 0x21, string(b)
}

// zeros is the place of a checksum.
const zeros = "\x00\x00\x00\x00"

func pad(path string) string { return path + strings.Repeat("\x00", 108-len(path)) }

func TestProxyHeader(t *testing.T) {
	a4, b4 := netip.MustParseAddrPort("192.168.0.1:56324"), netip.MustParseAddrPort("192.168.0.11:443")
	a6, b6 := netip.MustParseAddrPort("[2001:db8::1]:0"), netip.MustParseAddrPort("[::]:65535")
	one4, one6 := netip.MustParseAddrPort("1.1.1.1:1"), netip.MustParseAddrPort("[::]:1")
	_, body4 := bodyV2(a4, b4)
	_, body6 := bodyV2(a6, b6)
	mapped := netip.AddrPortFrom(netip.AddrFrom16(a4.Addr().As16()), a4.Port())
	_, bodyMapped := bodyV2(mapped, mapped)
	type header = transport.ProxyHeader
	for _, c := range []struct {
		name, text string
		want       header
	}{
		{"1, IPv4", "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", header{Version: 1, Source: a4, Destination: b4}},
		{"1, IPv6", "PROXY TCP6 2001:DB8:0:0::1 :: 0 65535\r\n", header{Version: 1, Source: a6, Destination: b6}},
		{"1, shortest IPv4", "PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n", header{Version: 1, Source: one4, Destination: one4}},
		{"1, shortest IPv6", "PROXY TCP6 :: :: 1 1\r\n", header{Version: 1, Source: one6, Destination: one6}},
		{"1, mapped", "PROXY TCP6 ::ffff:192.168.0.1 ::FFFF:c0a8:b 56324 443\r\n", header{Version: 1, Source: a4, Destination: b4}},
		{"1, unknown", "PROXY UNKNOWN\r\n", header{Version: 1, Local: true}},
		{"1, unknown and more", "PROXY UNKNOWN " + strings.Repeat("f", 107-16) + "\r\n", header{Version: 1, Local: true}},
		{"2, IPv4", headerV2(0x21, 0x11, body4), header{Version: 2, Source: a4, Destination: b4}},
		{"2, UDP", headerV2(0x21, 0x12, body4), header{Version: 2, Source: a4, Destination: b4}},
		{"2, IPv6", headerV2(0x21, 0x21, body6), header{Version: 2, Source: a6, Destination: b6}},
		{"2, mapped", headerV2(0x21, 0x22, bodyMapped), header{Version: 2, Source: a4, Destination: a4}},
		{
			"2, Unix", headerV2(0x21, 0x31, pad("/run/a")+pad("\x00abstract")),
			header{Version: 2, Unix: true, SourcePath: "/run/a", DestinationPath: "@abstract"},
		},
		{"2, Unix without name", headerV2(0x21, 0x32, pad("")+pad("/b")), header{Version: 2, Unix: true, DestinationPath: "/b"}},
		{"2, local", headerV2(0x20, 0, ""), header{Version: 2, Local: true}},
		{"2, local with anything", headerV2(0x20, 0xff, "anything"), header{Version: 2, Local: true}},
		{"2, unspecified", headerV2(0x21, 0, "anything"), header{Version: 2, Local: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, n, err := transport.ParseProxy([]byte(c.text + "the client's"))
			if err != nil || n != len(c.text) {
				t.Fatal(n, err)
			}
			if !reflect.DeepEqual(*h, c.want) {
				t.Errorf("%+v, not %+v", *h, c.want)
			}
			checkGrowing(t, []byte(c.text))
		})
	}
}

// checkPieces checks that a caller which reads exactly the bytes that the parser asks for arrives at the header of n bytes that text begins
// with.
func checkPieces(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string, n int,
) {
	t.Helper()
	want, _, _ := transport.ParseProxy([]byte(text))
	steps := 0
	for have := 0; ; steps++ {
		h, more, err := transport.ParseProxy([]byte(text[:have]))
		if err != nil {
			t.Fatalf("refused after %d bytes of %q: %v", have, text, err)
		}
		if h != nil {
			if have != n || more != n || !reflect.DeepEqual(h, want) {
				t.Fatalf("%+v after %d bytes of %q, not %+v", h, have, text, want)
			}
			break
		}
		if more <= 0 || have+more > n {
			t.Fatalf("%d bytes asked for after %d of %q", more, have, text)
		}
		have += more
	}
	if steps > 50 { // of two bytes each, for the longest line of the unknown family
		t.Fatalf("%d reads for %q", steps, text)
	}
}

// hostileHeaders returns beginnings of connections that are invalid, whatever follows.
func hostileHeaders() map[string]string {
	from, to := netip.MustParseAddrPort("1.2.3.4:5"), netip.MustParseAddrPort("5.6.7.8:9")
	family, body := bodyV2(from, to)
	wrongSum := []byte(headerV2(0x21, family, body, tlv{3, zeros}))
	wrongSum[20] ^= 1
	cut := headerV2(0x21, family, body+"\x04\x00\x05abcd")
	return map[string]string{
		"http":                    "GET / HTTP/1.1\r\n",
		"TLS":                     "\x16\x03\x01\x02\x00\x01",
		"nothing like it":         "\x00",
		"lower case":              "proxy TCP4 1.2.3.4 5.6.7.8 5 9\r\n",
		"two spaces":              "PROXY  TCP4 1.2.3.4 5.6.7.8 5 9\r\n",
		"two spaces later":        "PROXY TCP4 1.2.3.4  5.6.7.8 5 9\r\n",
		"space at the end":        "PROXY TCP4 1.2.3.4 5.6.7.8 5 9 \r\n",
		"tab":                     "PROXY\tTCP4 1.2.3.4 5.6.7.8 5 9\r\n",
		"LF only":                 "PROXY TCP4 1.2.3.4 5.6.7.8 5 9\n",
		"CR only":                 "PROXY TCP4 1.2.3.4 5.6.7.8 5 9\rGET / HTTP/1.1\r\n",
		"CR twice":                "PROXY TCP4 1.2.3.4 5.6.7.8 5 9\r\r\n",
		"LF in unknown":           "PROXY UNKNOWN x\ny\r\n",
		"CR in unknown":           "PROXY UNKNOWN x\ry\r\n",
		"unknown too long":        "PROXY UNKNOWN " + strings.Repeat("f", 108-16) + "\r\n",
		"endless":                 "PROXY TCP4 " + strings.Repeat("1", 1000),
		"endless family":          "PROXY " + strings.Repeat("T", 1000),
		"family":                  "PROXY TCP5 1.2.3.4 5.6.7.8 5 9\r\n",
		"UDP":                     "PROXY UDP4 1.2.3.4 5.6.7.8 5 9\r\n",
		"no addresses":            "PROXY TCP4\r\n",
		"five fields":             "PROXY TCP4 1.2.3.4 5.6.7.8 5\r\n",
		"seven fields":            "PROXY TCP4 1.2.3.4 5.6.7.8 5 9 1\r\n",
		"other family":            "PROXY TCP4 ::1 ::2 5 9\r\n",
		"other family, second":    "PROXY TCP6 ::1 5.6.7.8 5 9\r\n",
		"octal address":           "PROXY TCP4 01.2.3.4 5.6.7.8 5 9\r\n",
		"three numbers":           "PROXY TCP4 1.2.3 5.6.7.8 5 9\r\n",
		"256":                     "PROXY TCP4 1.2.3.256 5.6.7.8 5 9\r\n",
		"zone":                    "PROXY TCP6 fe80::1%lo ::2 5 9\r\n",
		"brackets":                "PROXY TCP6 [::1] [::2] 5 9\r\n",
		"two gaps":                "PROXY TCP6 1::2::3 ::2 5 9\r\n",
		"name":                    "PROXY TCP4 localhost 5.6.7.8 5 9\r\n",
		"port 65536":              "PROXY TCP4 1.2.3.4 5.6.7.8 65536 9\r\n",
		"port 05":                 "PROXY TCP4 1.2.3.4 5.6.7.8 05 9\r\n",
		"port +5":                 "PROXY TCP4 1.2.3.4 5.6.7.8 +5 9\r\n",
		"port -1":                 "PROXY TCP4 1.2.3.4 5.6.7.8 -1 9\r\n",
		"port 5_0":                "PROXY TCP4 1.2.3.4 5.6.7.8 5_0 9\r\n",
		"no port":                 "PROXY TCP4 1.2.3.4 5.6.7.8  9\r\n",
		"zero byte":               "PROXY TCP4 1.2.3.4\x00 5.6.7.8 5 9\r\n",
		"2, version 1":            headerV2(0x11, family, body),
		"2, version 3":            headerV2(0x31, family, body),
		"2, command 2":            headerV2(0x22, family, body),
		"2, family 4":             headerV2(0x21, 0x41, body),
		"2, protocol 3":           headerV2(0x21, 0x13, body),
		"2, half unspecified":     headerV2(0x21, 0x10, body),
		"2, other half":           headerV2(0x21, 0x01, body),
		"2, short IPv4":           headerV2(0x21, 0x11, body[:11]),
		"2, short IPv6":           headerV2(0x21, 0x21, body),
		"2, short Unix":           headerV2(0x21, 0x31, strings.Repeat("a", 215)),
		"2, too long":             headerV2(0x20, 0, strings.Repeat("a", 4<<10-15)),
		"2, longest":              proxySignature + "\x21\x11\xff\xff",
		"2, extension cut off":    cut,
		"2, extension of 1 byte":  headerV2(0x21, family, body+"\x04"),
		"2, extension of 2 bytes": headerV2(0x21, family, body+"\x04\x00"),
		"2, wrong checksum":       string(wrongSum),
		"2, short checksum":       headerV2(0x21, family, body+"\x03\x00\x03abc"),
		"2, two checksums":        headerV2(0x21, family, body, tlv{3, zeros}, tlv{3, zeros}),
	}
}

func TestProxyHeaderRefused(t *testing.T) {
	for name, text := range hostileHeaders() {
		t.Run(name, func(t *testing.T) {
			h, n, err := transport.ParseProxy([]byte(text))
			if h != nil || !errors.Is(err, transport.ErrProxyHeader) {
				t.Errorf("%+v, %d, %v", h, n, err)
			}
		})
	}
}

func TestProxyHeaderTLV(t *testing.T) {
	family, body := bodyV2(netip.MustParseAddrPort("1.2.3.4:5"), netip.MustParseAddrPort("5.6.7.8:9"))
	text := headerV2(0x21, family, body, tlv{4, "padding"}, tlv{2, "example.org"}, tlv{3, zeros}, tlv{0xe0, ""}, tlv{2, "second"})
	p := []byte(text)
	h, n, err := transport.ParseProxy(p)
	if err != nil || n != len(text) {
		t.Fatal(n, err)
	}
	clear(p) // the owner of the buffer may change it
	if v, ok := h.TLV(2); !ok || string(v) != "example.org" {
		t.Errorf("%q, %v", v, ok)
	}
	if v, ok := h.TLV(0xe0); !ok || len(v) != 0 {
		t.Errorf("%q, %v", v, ok)
	}
	if _, ok := h.TLV(1); ok {
		t.Error("an extension from nowhere")
	}
}

// Every header that can be written is parsed to the same header, whatever follows, and in pieces of any size.
func TestProxyHeaderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := func(n int) []byte { return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes") }
		addr := func(n int) netip.AddrPort {
			a, _ := netip.AddrFromSlice(bytes(n))
			return netip.AddrPortFrom(a.Unmap(), rapid.Uint16().Draw(t, "port"))
		}
		size := rapid.SampledFrom([]int{4, 16}).Draw(t, "size")
		from, to := addr(size), addr(size)
		if from.Addr().Is4() != to.Addr().Is4() {
			return
		}
		var text string
		var tlvs []tlv
		if rapid.Bool().Draw(t, "version 1") {
			text = headerV1(from, to)
		} else {
			for kind := range rapid.IntRange(0, 6).Draw(t, "extensions") {
				x := tlv{byte(kind), string(bytes(rapid.IntRange(0, 9).Draw(t, "length")))}
				if kind == 3 {
					x.value = zeros
				}
				tlvs = append(tlvs, x)
			}
			family, body := bodyV2(from, to)
			text = headerV2(0x21, family, body, tlvs...)
		}
		h, n, err := transport.ParseProxy(append([]byte(text), bytes(3)...))
		if err != nil || n != len(text) || h.Source != from || h.Destination != to || h.Local || h.Unix {
			t.Fatalf("%+v, %d, %v of %q", h, n, err, text)
		}
		for _, x := range tlvs {
			if v, ok := h.TLV(x.kind); !ok || x.kind != 3 && string(v) != x.value {
				t.Fatalf("extension %d is %q, not %q", x.kind, v, x.value)
			}
		}
		checkPieces(t, text, n)
	})
}

// checkGrowing checks that the parser judges a prefix of b as it judges b. A header stays the same if more follows, refused bytes stay refused,
// and the parser never asks for more bytes than belong to the header.
func checkGrowing(t *testing.T, b []byte) {
	whole, length, wholeErr := transport.ParseProxy(b)
	for i := range b {
		h, n, err := transport.ParseProxy(b[:i])
		switch {
		case err != nil && wholeErr == nil:
			t.Fatalf("refused after %d bytes of %q only: %v", i, b, err)
		case h != nil && (n > i || n != length || !reflect.DeepEqual(h, whole)):
			t.Fatalf("%+v after %d bytes of %q, %+v of all", h, i, b, whole)
		case h == nil && err == nil && n <= 0:
			t.Fatalf("nothing asked for after %d bytes of %q", i, b)
		case h == nil && err == nil && whole != nil && i+n > length:
			t.Fatalf("%d bytes asked for after %d of %q", n, i, b)
		}
	}
	if whole != nil {
		checkPieces(t, string(b), length)
		for rest := range 256 {
			_, _ = whole.TLV(byte(rest))
		}
	}
	if wholeErr != nil && (whole != nil || !errors.Is(wholeErr, transport.ErrProxyHeader)) {
		t.Fatal(whole, wholeErr)
	}
}

func FuzzProxyV1(f *testing.F) {
	for _, text := range hostileHeaders() {
		f.Add([]byte(text))
	}
	for _, rest := range []string{
		"TCP4 1.2.3.4 5.6.7.8 5 9\r\nhello", "TCP6 ::1 2001:db8::ffff 0 65535\r\n", "UNKNOWN\r\n", "UNKNOWN x y\r\n", "TCP4 1.2.3.4\r", "",
		"TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
	} {
		f.Add([]byte("PROXY " + rest))
	}
	f.Fuzz(checkGrowing)
}

func FuzzProxyV2(f *testing.F) {
	for _, text := range hostileHeaders() {
		if rest, ok := strings.CutPrefix(text, proxySignature); ok {
			f.Add([]byte(rest))
		}
	}
	family, body := bodyV2(netip.MustParseAddrPort("1.2.3.4:5"), netip.MustParseAddrPort("5.6.7.8:9"))
	for _, text := range []string{
		headerV2(0x21, family, body) + "hello", headerV2(0x20, 0, "x"), headerV2(0x21, 0x31, pad("/a")+pad("\x00b")),
		headerV2(0x21, family, body, tlv{2, "example.org"}, tlv{3, zeros}),
	} {
		f.Add([]byte(text[len(proxySignature):]))
	}
	f.Fuzz(func(t *testing.T, rest []byte) { checkGrowing(t, append([]byte(proxySignature), rest...)) })
}
