package sockopt_test

import (
	"net/netip"
	"testing"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// Equal addresses share one AddrPair, up to a bound; beyond that they are copies with the right contents.
func TestAddresses(t *testing.T) {
	var shared sockopt.Addresses
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
