package clientaddr_test

import (
	"net"
	"testing"

	"github.com/sluice-push/sluice/internal/clientaddr"
)

func of(a net.Addr) string { return clientaddr.Of(clientaddr.AddrPort(a).Addr()).String() }

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1:80":                     "192.0.2.1",
		"[::ffff:192.0.2.1]:80":            "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:80":        "2001:db8:1:2::",
		"[fe80::1%eth0]:80":                "fe80::",
		"[2001:db8:1:2:ffff:ffff:0:1]:443": "2001:db8:1:2::",
	} {
		addr, err := net.ResolveTCPAddr("tcp", in)
		if err != nil {
			t.Fatal(err)
		}
		if got := of(addr); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	if got := of(&net.UnixAddr{Name: "x"}); got != "invalid IP" {
		t.Errorf("a Unix address gave %s", got)
	}
	if got := of(nil); got != "invalid IP" {
		t.Errorf("no address gave %s", got)
	}
}

// An IPv4 address that IPv6 carries is one of IPv4, and what is no address of IP stays none.
func TestPlain(t *testing.T) {
	for in, want := range map[net.Addr]string{
		&net.TCPAddr{IP: net.ParseIP("192.0.2.1").To16(), Port: 80}: "192.0.2.1:80",
		&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 80}:      "[2001:db8::1]:80",
		&net.UnixAddr{Name: "x"}:                                    "invalid AddrPort",
	} {
		if got := clientaddr.Plain(in).String(); got != want {
			t.Errorf("%v: %s, want %s", in, got, want)
		}
	}
}
