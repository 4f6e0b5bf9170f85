package explain_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/cmd/sluice/internal/explain"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nodes = `{"node":"gw-1","cluster":"prod","members":[
{"id":"gw-1","cluster":"prod","role":"gateway","public":"https://gw-1.example.com","labels":{"zone":"a"}},
{"id":"gw-2","cluster":"prod","role":"gateway","public":"https://gw-2.example.com","labels":{"zone":"b"},"draining":true},
{"id":"gw-3","cluster":"prod","role":"gateway","public":"https://gw-3.example.com","labels":{"zone":"b","tier":"vip"}},
{"id":"hub-1","cluster":"prod","role":"hub","link":"10.0.0.1:7000","labels":{"zone":"a"}},
{"id":"hub-2","cluster":"prod","role":"hub","link":"10.0.0.2:7000","labels":{"zone":"b"}}]}`

const settings = `
role: gateway
cluster:
  name: prod
  labels: {zone: a}
  discovery: {addresses: ["10.0.0.1:7000", "10.0.0.2:7000"]}
  placement: {policy: zone}
  route:
    policy: user
    require: [{name: vip, claims: {tier: vip}, labels: {tier: vip}}]
    prefer: [{name: near, prefixes: [10.0.0.0/8], order: [{zone: b}]}]
namespaces: [{name: quotes, mode: table, partitions: 8}]
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// process has tokens of a connection and of a subscription, and no others.
var process = &explain.Process{Inspect: func(_ *config.Config, token string) (*auth.Connection, *auth.Subscription, error) {
	switch token {
	case "connection":
		return &auth.Connection{Token: auth.Token{User: "ann"}, Claims: map[string]string{"tier": "vip", "plan": "gold"}}, nil, nil
	case "subscription":
		return nil, &auth.Subscription{}, nil
	}
	return nil, nil, errors.New("bad token")
}}

// command is a command that explains something.
type command interface {
	Validate() error
	Run(out io.Writer, p *explain.Process) error
}

// run returns what a command prints.
func run(c command) (string, error) {
	if err := c.Validate(); err != nil {
		return "", err
	}
	var out strings.Builder
	err := c.Run(&out, process)
	return out.String(), err
}

func route(t *testing.T, members string) *explain.Route {
	t.Helper()
	c := &explain.Route{}
	c.Config, c.Members = write(t, "sluice.yaml", settings), members
	return c
}

func placement(t *testing.T, members string) *explain.Placement {
	t.Helper()
	c := &explain.Placement{Channel: "quotes:ACME"}
	c.Config, c.Members = write(t, "sluice.yaml", settings), members
	return c
}

// What the commands print, step by step.
func TestExplain(t *testing.T) {
	file := write(t, "nodes.json", nodes)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, nodes) }))
	defer node.Close()
	near := route(t, file)
	near.User, near.Addr = "bob", netip.MustParseAddr("10.1.2.3")
	claims := route(t, file)
	claims.Token, claims.Claims = "connection", map[string]string{"plan": "silver"}
	channel := route(t, "")
	channel.Internal = node.URL
	channel.Token, channel.Channel = "connection", "quotes:ACME"
	static := route(t, "")
	static.User, static.Channel = "bob", "quotes:ACME"
	other := placement(t, file)
	other.Zone = "b"
	for name, c := range map[string]command{
		"route": near, "claims": claims, "channel": channel, "static": static, "placement": placement(t, file), "zone": other,
		"placement-static": placement(t, ""),
	} {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := run(c); err != nil || got != string(want) {
				t.Errorf("%v, printed\n%s", err, got)
			}
		})
	}
}

// With the policy least_loaded, other runs draw other gateways.
func TestLeastLoaded(t *testing.T) {
	c := route(t, write(t, "nodes.json", nodes))
	c.Config = write(t, "sluice.yaml", strings.NewReplacer("policy: user", "policy: least_loaded").Replace(settings))
	seen := make(map[string]bool)
	for range 100 {
		got, err := run(c)
		if err != nil {
			t.Fatal(err)
		}
		_, result, _ := strings.Cut(got, "result: ")
		first, _, _ := strings.Cut(result, ",")
		seen[first] = true
	}
	if !seen["gw-1"] || !seen["gw-3"] || len(seen) != 2 {
		t.Errorf("the first gateways are %v", seen)
	}
}

// The errors say what to do.
func TestErrors(t *testing.T) {
	file := write(t, "nodes.json", nodes)
	change := func(change func(c *explain.Route)) command {
		c := route(t, file)
		change(c)
		return c
	}
	unknown := placement(t, file)
	unknown.Channel = "trades:x"
	for want, c := range map[string]command{
		"set cluster.name": change(func(c *explain.Route) { c.Config = write(t, "x.yaml", "linger: 1m") }),
		"unknown key":      change(func(c *explain.Route) { c.Config = write(t, "x.yaml", "lingr: 1m") }),
		`is in the cluster "prod", and the configuration is for the cluster "test"`: change(func(c *explain.Route) {
			c.Config = write(t, "x.yaml", "cluster: {name: test}")
		}),
		"is in no cluster":                         change(func(c *explain.Route) { c.Members = write(t, "x.json", `{"node":"a","members":[{"id":"a"}]}`) }),
		"not JSON as sluice info --json prints it": change(func(c *explain.Route) { c.Members = write(t, "x.json", "a") }),
		"no such file":                             change(func(c *explain.Route) { c.Members = file + "x" }),
		"bad token":                                change(func(c *explain.Route) { c.Token = "x" }),
		"is for a subscription":                    change(func(c *explain.Route) { c.Token = "subscription" }),
		"leave --user out":                         change(func(c *explain.Route) { c.Token, c.User = "connection", "bob" }),
		"--channel: ":                              change(func(c *explain.Route) { c.Channel = ":x" }),
		"add --internal":                           change(func(c *explain.Route) { c.CA = file }),
		"is not an address":                        change(func(c *explain.Route) { c.Internal = "9000" }),
		`namespace "news" is not in`:               change(func(c *explain.Route) { c.Channel = "news:x" }),
		`namespace "trades" is not in the configuration`: unknown,
	} {
		if got, err := run(c); err == nil || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("%v, printed %q; want %s", err, got, want)
		}
	}
}
