//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
	"github.com/sluice-push/sluice/cmd/sluice/internal/clusternode"
	"github.com/sluice-push/sluice/internal/testwait"
)

// info returns what the command says of the cluster of a node.
func info(t *testing.T, p *process) *clusternode.View {
	t.Helper()
	code, stdout, stderr := sluice.RunCommand("", nil, "info", "--json", "--internal", p.internal)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	view, err := clusternode.ReadView(strings.NewReader(stdout))
	must(t, err)
	return view
}

// TestInfo: a hub and a gateway say what their cluster is, the choices are explained with what they say, and the metrics count them.
func TestInfo(t *testing.T) {
	t.Parallel()
	const settings = "role: %s\ncluster: {name: prod, node: %s, discovery: {addresses: [%s]}, link: {listen: %q, secret: s}}\n" +
		"namespaces: [{name: quotes, mode: table, partitions: 4, allow: {subscribe: [anonymous]}}]\n"
	h := startNode(t, "--insecure", "--config", writeFile(t, "hub.yaml", fmt.Sprintf(settings, "hub", "hub-1", "", "127.0.0.1:0")))
	first := info(t, h)
	if len(first.Members) != 1 || first.Node != "hub-1" || first.Members[0].Link == "" {
		t.Fatalf("the hub says %+v", first)
	}
	file := writeFile(t, "gateway.yaml", fmt.Sprintf(settings, "gateway", "gw-1", `"`+first.Members[0].Link+`"`, ""))
	g := startNode(t, "--insecure", "--config", file)
	connected(t, g)
	for _, p := range []*process{h, g} {
		testwait.True(t, "the node knows both, and the client", func() bool {
			v := info(t, p)
			return len(v.Members) == 2 && v.Members[0].ID == "gw-1" && v.Members[0].Sessions == 1 && !v.Members[0].Draining && !v.Members[1].Draining
		})
	}
	if ns := info(t, g).Namespaces; len(ns) != 1 || ns[0].Name != "quotes" || strings.Join(ns[0].Hubs, " ") != "hub-1 hub-1 hub-1 hub-1" {
		t.Errorf("the partitions are %+v", ns)
	}
	code, stdout, stderr := runBinary(t, "info", "--internal", "http://"+g.internal)
	if code != 0 || !strings.HasPrefix(stdout, "Cluster \"prod\": 2 nodes, as gw-1 knows them.\n") || !strings.HasSuffix(stdout, "\nquotes     hub-1  0-3\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}

	for _, args := range [][]string{{"--internal", h.internal}, {"--members", writeFile(t, "nodes.json", command(t, "info", "--json", "--internal", g.internal))}} {
		got := command(t, append([]string{"config", "explain", "route", "-c", file, "--user", "ann", "--addr", "10.1.2.3", "--claim", "tier=vip", "--claim", "a=b;c,d", "--channel", "quotes:ACME"}, args...)...)
		if !strings.HasPrefix(got, "gateways for the user \"ann\", address 10.1.2.3, claim a=b;c,d, claim tier=vip, channel \"quotes:ACME\"\n") ||
			!strings.Contains(got, "\nresult: gw-1\n\nchannel \"quotes:ACME\" is in partition ") || !strings.HasSuffix(got, "\nresult: hub-1") {
			t.Errorf("%v: explained as\n%s", args, got)
		}
		if got := command(t, append([]string{"config", "explain", "placement", "-c", file, "--channel", "quotes:ACME"}, args...)...); !strings.HasSuffix(got, "\nresult: hub-1") {
			t.Errorf("%v: explained as\n%s", args, got)
		}
	}

	h.eventuallyShown("the hub has links, and the cluster two nodes", func(s map[string]*dto.MetricFamily) bool {
		return metric(s["sluice_cluster_links"]) > 0 && metric(s["sluice_cluster_nodes"], "role", "hub") == 1 &&
			metric(s["sluice_cluster_nodes"], "role", "gateway") == 1 && metric(s["sluice_cluster_draining_nodes"]) == 0
	})
}

// TestInfoAlone: a node in no cluster is its only node. Pages of other sites do not learn that.
func TestInfoAlone(t *testing.T) {
	t.Parallel()
	p := startNode(t, "--insecure")
	connected(t, p)
	if v := info(t, p); v.Cluster != "" || len(v.Members) != 1 || v.Members[0].Sessions != 1 || v.Members[0].Public != "http://"+p.public {
		t.Errorf("the node says %+v", v)
	}
	code, stdout, stderr := sluice.RunCommand("", nil, "info", "--internal", p.internal)
	if code != 0 || !strings.Contains(stdout, " is in no cluster: ") || stderr != "" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	for name, tt := range map[string]struct {
		change func(r *http.Request)
		status int
	}{
		"another site": {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"another host": {func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		"another way":  {func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.internal+clusternode.Path, nil)
		must(t, err)
		tt.change(r)
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, err)
		_ = res.Body.Close()
		if res.StatusCode != tt.status || json.Valid(body) {
			t.Errorf("%s: %s %s", name, res.Status, body)
		}
	}
}

// TestInfoRefused: the flags of the commands.
func TestInfoRefused(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "nodes.json", "{}")
	for args, tt := range map[string]struct {
		code int
		want string
	}{
		"info --internal 9000":                                               {2, "is not an address"},
		"info --internal 127.0.0.1:1":                                        {1, "http://127.0.0.1:1 does not answer"},
		"config explain":                                                     {2, "--channel"},
		"config explain route --addr x":                                      {2, "--addr"},
		"config explain route --claim x":                                     {2, "--claim"},
		"config explain route":                                               {1, "set cluster.name"},
		"config explain route --internal a:1 --members " + file:              {2, "--members"},
		"config explain route --members " + filepath.Join(file, "x"):         {2, "--members"},
		"config explain route --ca " + file:                                  {2, "add --internal"},
		"config explain placement":                                           {2, "--channel"},
		"config explain placement --channel quotes:a --internal ftp://a":     {2, "is not a URL"},
		"config explain placement --channel :a":                              {2, "--channel: "},
		"config explain route --user ann --channel a --action subscribe":     {2, "--action"},
		"config explain permission --channel a --action eat":                 {1, "--action: unknown action"},
		"config explain route --members " + file + " -c " + file + "missing": {1, "missing"},
	} {
		code, stdout, stderr := sluice.RunCommand("", nil, strings.Fields(args)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
}
