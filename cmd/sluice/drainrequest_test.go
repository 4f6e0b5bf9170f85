//go:build unix

package main_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
)

// drainAnswer is what POST /drain answers.
type drainAnswer struct {
	Started        bool
	State          string
	Clients        int
	ClientsAtStart int `json:"clients_at_start"`
	Delay, Spread  string
}

// drain sends POST /drain with a query.
func (p *process) drain(query string) (a drainAnswer) {
	p.t.Helper()
	res, body := send(p.t, http.MethodPost, "http://"+p.internal+"/drain"+query, "", nil)
	if err := json.Unmarshal([]byte(body), &a); err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("answered %s %s", res.Status, body)
	}
	return a
}

// wantExit waits for the end of the process, and fails the test unless it was a success.
func (p *process) wantExit() {
	p.t.Helper()
	testwait.Receive(p.t, p.exited)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("exit code %d", code)
	}
}

// TestDrainRequest: an operator drains a running node. All clients are asked to connect again, and the process ends, as after SIGTERM.
func TestDrainRequest(t *testing.T) {
	t.Parallel()
	p := startDraining(t, "1h", "1h")
	const clients = 10
	var all []*clientconn.Conn
	for range clients {
		all = append(all, connected(t, p))
	}
	if a := p.drain("?delay=0s&spread=300ms"); !a.Started || a.State != "spread" || a.ClientsAtStart != clients || a.Delay != "0s" || a.Spread != "300ms" {
		t.Errorf("answered %+v", a)
	}
	for _, conn := range all {
		wantShutdown(t, conn)
	}
	p.wantExit()
	if said := p.stderr.String(); !strings.Contains(said, "draining") || strings.Contains(said, "a signal") {
		t.Error("the log does not tell of the draining, or of a signal that did not come")
	}
}

// TestDrainRequestAtOnce: without times in the request and the configuration, the node ends at once, after its answer.
func TestDrainRequestAtOnce(t *testing.T) {
	t.Parallel()
	p := startNode(t, "--insecure")
	conn := connected(t, p)
	if a := p.drain(""); !a.Started || a.ClientsAtStart != 1 || a.Delay != "0s" || a.Spread != "0s" {
		t.Errorf("answered %+v", a)
	}
	wantShutdown(t, conn)
	p.wantExit()
}

// TestDrainRequestAgain: further requests report how far the drain is and change nothing, whether a request or a signal has begun it. A signal ends it.
func TestDrainRequestAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		begin func(p *process)
	}{
		"begun by a request": {func(p *process) {
			if a := p.drain("?delay=30m"); !a.Started || a.Delay != "30m" {
				p.t.Errorf("answered %+v", a)
			}
		}},
		"begun by a signal": {(*process).signal},
	} {
		t.Run(name, func(t *testing.T) {
			p := startDraining(t, "30m", "1h")
			conn := connected(t, p)
			tt.begin(p)
			testwait.True(t, "the node is not ready", func() bool {
				return answers("http://"+p.internal+"/health/ready", http.StatusServiceUnavailable, "about to shut down")
			})
			second := connected(t, p)
			for range 2 {
				if a := p.drain("?delay=0s&spread=0s"); a != (drainAnswer{State: "delay", Clients: 2, ClientsAtStart: 1, Delay: "30m", Spread: "1h"}) {
					t.Errorf("answered %+v", a)
				}
			}
			exchange(t, conn, &protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}}, nil)
			if code := p.terminate(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			wantShutdown(t, conn)
			wantShutdown(t, second)
			if !strings.Contains(p.stderr.String(), "a signal ends the draining") {
				t.Error("the log does not say that a signal came")
			}
		})
	}
}

// TestDrainRefuses: no page of any site can drain a node, and nothing that is not understood does.
func TestDrainRefuses(t *testing.T) {
	t.Parallel()
	p := startNode(t, "--insecure")
	url := "http://" + p.internal + "/drain"
	for _, tt := range []struct {
		name, method, query, body string
		header                    http.Header
		status                    int
		text                      string
	}{
		{"a form of another site", "POST", "", "", http.Header{"Origin": {"https://evil.example"}}, 403, "page"},
		{"a sandboxed form", "POST", "", "", http.Header{"Origin": {"null"}}, 403, "page"},
		{"a page of the same host", "POST", "", "", http.Header{"Origin": {"http://" + p.internal}}, 403, "page"},
		{"an empty origin", "POST", "", "", http.Header{"Origin": {""}}, 403, "page"},
		{"another site in the background", "POST", "", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403, "cross-site"},
		{"a link of another site", "POST", "", "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, 403, "page"},
		{"another port", "POST", "", "", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403, "page"},
		{"a host that resolves to loopback", "POST", "", "", http.Header{"Host": {"evil.example:9000"}}, 421, "host"},
		{"GET", "GET", "", "", nil, 405, ""},
		{"HEAD", "HEAD", "", "", nil, 405, ""},
		{"a body", "POST", "", "{}", nil, 400, "body"},
		{"no duration", "POST", "?delay=5", "", nil, 400, "delay: \"5\" is not a duration"},
		{"a negative time", "POST", "?spread=-1s", "", nil, 400, "spread: -1s is out of range: use 0s to 1h"},
		{"too long a time", "POST", "?delay=61m", "", nil, 400, "delay: 1h1m is out of range"},
		{"two times", "POST", "?delay=1s&delay=2s", "", nil, 400, "delay is given 2 times"},
		{"another parameter", "POST", "?dleay=1s", "", nil, 400, "dleay: no such parameter"},
		{"wait", "POST", "?wait=maybe", "", nil, 400, "wait: use true or false"},
		{"no query", "POST", "?%", "", nil, 400, "query"},
	} {
		if res, body := send(t, tt.method, url+tt.query, tt.body, tt.header); res.StatusCode != tt.status || !strings.Contains(body, tt.text) {
			t.Errorf("%s: %s %s", tt.name, res.Status, body)
		}
	}
	if !answers("http://"+p.internal+"/health/ready", http.StatusOK, "ready") {
		t.Error("the node is not ready any more")
	}
	if res, _ := send(t, http.MethodPost, "http://"+p.public+"/drain", "", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("on the public address: %s", res.Status)
	}
}
