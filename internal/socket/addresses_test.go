package socket_test

import (
	"net/netip"
	"testing"

	"github.com/sluice-push/sluice/internal/socket"
)

// Equal addresses are one, up to a bound; beyond that they are right all the same.
func TestAddresses(t *testing.T) {
	var shared socket.Addresses
	same := 0
	for i := range 400 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(1000+i))
		first, second := shared.TCP(at), shared.TCP(at)
		if first.Local.String() != at.String() || second.Local.String() != at.String() {
			t.Fatalf("%v and %v, want %v", first, second, at)
		}
		if first == second {
			same++
		}
	}
	if same != 256 {
		t.Errorf("%d addresses are shared", same)
	}
}
