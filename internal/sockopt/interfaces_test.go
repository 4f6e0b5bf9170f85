package sockopt_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// Names of interfaces are cached, for a while, up to a bound.
func TestInterfaceTable(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil || len(all) == 0 {
		t.Fatal("no interface: ", err)
	}
	lo := all[0]
	now := time.Unix(1000, 0)
	var z sockopt.InterfaceTable
	a := netip.MustParseAddrPort("[fe80::1]:5")
	want := netip.AddrPortFrom(a.Addr().WithZone(lo.Name), 5)
	for _, at := range []time.Time{now, now.Add(time.Second), now.Add(time.Hour)} {
		if got := z.With(a, uint32(lo.Index), at); got != want {
			t.Error(got, want)
		}
		if got := z.Index(lo.Name, at); got != uint32(lo.Index) {
			t.Error(got)
		}
	}
	if z.Index("no such interface", now) != 0 || z.Index("12", now) != 12 || z.With(a, 1<<30, now).Addr().Zone() != "1073741824" {
		t.Error("unknown interfaces")
	}
	if n := testing.AllocsPerRun(100, func() { z.With(a, uint32(lo.Index), now); z.Index(lo.Name, now) }); n != 0 {
		t.Error(n, "allocations")
	}
	for i := range uint32(300) {
		z.With(a, 1<<20+i, now)
	}
	if z.Len() > 100 {
		t.Error(z.Len())
	}
}
