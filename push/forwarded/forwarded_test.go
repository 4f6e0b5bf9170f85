package forwarded_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/forwarded"
)

func ExampleProxies_Client() {
	proxies, err := forwarded.Parse([]string{"10.0.0.0/8"})
	if err != nil {
		panic(err)
	}
	header := http.Header{"X-Forwarded-For": {"1.1.1.1, 203.0.113.9, 10.0.0.7"}} // the client has sent the first one itself
	fmt.Println(proxies.Client(netip.MustParseAddr("10.0.0.8"), header))
	fmt.Println(proxies.Client(netip.MustParseAddr("198.51.100.1"), header))
	// Output:
	// 203.0.113.9
	// 198.51.100.1
}

func parse(t interface {
	Helper()
	Fatal(args ...any)
}, list ...string,
) forwarded.Proxies {
	t.Helper()
	proxies, err := forwarded.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return proxies
}

func TestClient(t *testing.T) {
	proxies := parse(t, "10.0.0.0/8", "2001:db8::1")
	for name, tt := range map[string]struct {
		peer   string
		header http.Header
		want   string
	}{
		"no header":               {"10.0.0.1", nil, "10.0.0.1"},
		"not trusted":             {"192.0.2.1", http.Header{"X-Forwarded-For": {"1.1.1.1"}}, "192.0.2.1"},
		"not trusted, Forwarded":  {"192.0.2.1", http.Header{"Forwarded": {"for=1.1.1.1"}}, "192.0.2.1"},
		"one":                     {"10.0.0.1", http.Header{"X-Forwarded-For": {"1.1.1.1"}}, "1.1.1.1"},
		"mapped peer":             {"::ffff:10.0.0.1", http.Header{"X-Forwarded-For": {"1.1.1.1"}}, "1.1.1.1"},
		"mapped client":           {"10.0.0.1", http.Header{"X-Forwarded-For": {"::ffff:1.1.1.1"}}, "1.1.1.1"},
		"IPv6":                    {"2001:db8::1", http.Header{"X-Forwarded-For": {"2001:db8::2"}}, "2001:db8::2"},
		"with port":               {"10.0.0.1", http.Header{"X-Forwarded-For": {"1.1.1.1:80"}}, "1.1.1.1"},
		"IPv6 with port":          {"10.0.0.1", http.Header{"X-Forwarded-For": {"[2001:db8::2]:80"}}, "2001:db8::2"},
		"several lines":           {"10.0.0.1", http.Header{"X-Forwarded-For": {"9.9.9.9, 1.1.1.1", "10.0.0.3,10.0.0.2"}}, "1.1.1.1"},
		"all trusted":             {"10.0.0.1", http.Header{"X-Forwarded-For": {"10.0.0.3, 10.0.0.2"}}, "10.0.0.3"},
		"malformed":               {"10.0.0.1", http.Header{"X-Forwarded-For": {"1.1.1.1, x"}}, "10.0.0.1"},
		"malformed further away":  {"10.0.0.1", http.Header{"X-Forwarded-For": {"x, 10.0.0.2"}}, "10.0.0.2"},
		"empty":                   {"10.0.0.1", http.Header{"X-Forwarded-For": {""}}, "10.0.0.1"},
		"both":                    {"10.0.0.1", http.Header{"X-Forwarded-For": {"1.1.1.1"}, "Forwarded": {"for=2.2.2.2"}}, "10.0.0.1"},
		"Forwarded":               {"10.0.0.1", http.Header{"Forwarded": {"for=1.1.1.1;proto=http;by=10.0.0.9"}}, "1.1.1.1"},
		"Forwarded, quoted":       {"10.0.0.1", http.Header{"Forwarded": {`proto=https; For="[2001:db8::2]:4711"`}}, "2001:db8::2"},
		"Forwarded, hidden":       {"10.0.0.1", http.Header{"Forwarded": {"for=1.1.1.1, for=_hidden"}}, "10.0.0.1"},
		"Forwarded, no for":       {"10.0.0.1", http.Header{"Forwarded": {"proto=http"}}, "10.0.0.1"},
		"Forwarded, two elements": {"10.0.0.1", http.Header{"Forwarded": {"for=9.9.9.9, for=1.1.1.1", "for=10.0.0.2"}}, "1.1.1.1"},
		"many hops":               {"10.0.0.1", http.Header{"X-Forwarded-For": {"1.1.1.1" + strings.Repeat(", 10.0.0.2", 1000)}}, "10.0.0.2"},
	} {
		if got := proxies.Client(netip.MustParseAddr(tt.peer), tt.header); got.String() != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, entry := range []string{"", "x", "10.0.0.0/33", "10.0.0.1/8", "fe80::1%eth0", "10.0.0.1:80"} {
		if _, err := forwarded.Parse([]string{"10.0.0.1", entry}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", entry)) {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

// TestNoDodging: whatever a client writes into the header, its address behind a trusted proxy is its own.
func TestNoDodging(t *testing.T) {
	proxies := parse(t, "10.0.0.0/8")
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.OneOf(rapid.String(), rapid.StringMatching(`((10\.0\.0\.[0-9]|[1-9]\.1\.1\.1|x|)(, ?|))*`))
		lines := rapid.SliceOfN(line, 0, 3).Draw(t, "lines")
		const client = "203.0.113.9"
		header := http.Header{"X-Forwarded-For": append(lines, client)} // as the proxy appends
		if got := proxies.Client(netip.MustParseAddr("10.0.0.1"), header); got.String() != client {
			t.Fatalf("the client of %q counts as %v", lines, got)
		}
	})
}
