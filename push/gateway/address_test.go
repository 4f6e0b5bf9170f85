package gateway_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluice-push/sluice/push/forwarded"
	"github.com/sluice-push/sluice/push/gateway"
)

// TestProxies: behind a trusted proxy clients count by their own addresses, whatever else they say; others count as themselves.
func TestProxies(t *testing.T) {
	proxies, err := forwarded.Parse([]string{"127.0.0.1"})
	must(t, err)
	for name, tt := range map[string]struct {
		proxies forwarded.Proxies
		lines   []string // of X-Forwarded-For, of one client after the other
		refused int
	}{
		"trusted":         {proxies, []string{"192.0.2.1", "192.0.2.2", "10.9.9.9, 192.0.2.1"}, 1},
		"none is trusted": {nil, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, &gateway.Options{Proxies: tt.proxies, SessionsPerAddress: 1})
			p.log.expect(`msg="limit exceeded"`)
			refused := 0
			for _, line := range tt.lines {
				if _, _, err := p.dialWS(http.Header{"X-Forwarded-For": {line}}); err != nil {
					refused++
				}
			}
			if n := p.gateway.Stats().Refused.Address; refused != tt.refused || n != uint64(tt.refused) {
				t.Errorf("%d were refused, %d were counted, want %d", refused, n, tt.refused)
			}
		})
	}
}

// Clients behind one IPv6 network, or one IPv4 address, count together.
func TestAddressOf(t *testing.T) {
	for _, tt := range []struct{ remote, want string }{
		{"192.0.2.1:80", "192.0.2.1"},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::"},
		{"[2001:db8:1:2::9]:81", "2001:db8:1:2::"},
		{"[fe80::1%eth0]:80", "fe80::"},
		{"192.0.2.1", "192.0.2.1"},
		{"@", "invalid IP"},
		{"", "invalid IP"},
		{"pipe", "invalid IP"},
	} {
		if got := fmt.Sprint(gateway.AddressOf(tt.remote)); got != tt.want {
			t.Errorf("%q counts as %s, want %s", tt.remote, got, tt.want)
		}
	}
}
