package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
)

// carriers calls f for each transport of clients and each form that it carries, in a subtest.
func carriers(t *testing.T, f func(t *testing.T, transport, protocol string)) {
	t.Helper()
	for _, transport := range clientconn.Transports() {
		for _, protocol := range clientconn.ProtocolsOf(transport) {
			t.Run(transport+" "+protocol, func(t *testing.T) {
				t.Parallel()
				f(t, transport, protocol)
			})
		}
	}
}

// startCarriers starts a node that all transports reach.
func startCarriers(t *testing.T) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	must(t, os.WriteFile(file, []byte("tcp: {listen: \"127.0.0.1:0\"}\n"), 0o600))
	return startNode(t, "--demo", "--config", file)
}

// url returns the address for a transport.
func (p *process) url(transport string) string {
	if transport == "tcp" {
		return "tcp://" + p.tcp
	}
	return "http://" + p.public
}

// A client publishes with a key and tags, and removes, over every transport and in every form.
func TestPubAsClient(t *testing.T) {
	t.Parallel()
	node := startCarriers(t)
	carriers(t, func(t *testing.T, transport, protocol string) {
		channel := fmt.Sprintf("quotes:%s-%s", transport, protocol)
		stream := fmt.Sprintf("ticks:%s-%s", transport, protocol)
		as := []string{"--url=" + node.url(transport), "--transport", transport, "--protocol", protocol}
		for _, args := range [][]string{
			{"pub", channel, `{"price": 1}`, "--key", "K"},
			{"pub", channel, "2", "--key", "L"},
			{"pub", channel, "--remove", "--key", "K"},
			{"pub", stream, "-", "--tag", "venue=x"},
		} {
			code, stdout, stderr := sluice.RunCommand("{\n\"price\":\n3}\n", nil, append(args, as...)...)
			if code != 0 || stdout != "published\n" || stderr != "" {
				t.Errorf("%q: code %d, %q %s", args, code, stdout, stderr)
			}
		}
		code, stdout, stderr := sluice.RunCommand("", nil, append([]string{"sub", channel, "-n", "1"}, as...)...)
		if code != 0 || stdout != "L 2\n" {
			t.Errorf("sub: code %d, %q %s", code, stdout, stderr)
		}
		history := fmt.Sprint(node.api("history", map[string]any{"channel": stream, "limit": 10})["publications"])
		if !strings.Contains(history, "data:map[price:3]") || !strings.Contains(history, "tags:map[venue:x]") || !strings.Contains(history, "client:") {
			t.Errorf("the stream has %s", history)
		}
		code, _, stderr = sluice.RunCommand("", nil, append([]string{"pub", "nowhere:x", "1"}, as...)...)
		if code != 1 || !strings.Contains(stderr, "the node refused the publication: unknown channel") {
			t.Errorf("an unknown namespace: code %d, %s", code, stderr)
		}
	})
}

// A client is told why the node refuses it, or its publication, over every transport and in every form.
func TestPubAsClientIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	config := "broker: {kind: memory}\ntcp: {listen: \"127.0.0.1:0\"}\nauth: {anonymous: true}\nnamespaces:\n  - {name: read, mode: stream, allow: {subscribe: [anonymous], publish: [api]}}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	node := startNode(t, "--config", file)
	carriers(t, func(t *testing.T, transport, protocol string) {
		as := []string{"pub", "read:x", "1", "--url=" + node.url(transport), "--transport", transport, "--protocol", protocol}
		for _, tt := range []struct{ token, stderr string }{
			{"", "the node refused the publication: permission denied (code 103)"},
			{"wrong", "(code 3500)"},
		} {
			code, stdout, stderr := sluice.RunCommand("", nil, append(as, "--token", tt.token)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("token %q: code %d, %q %s", tt.token, code, stdout, stderr)
			}
		}
	})
}

// A client can do less than the HTTP API. Flags that do not go together are refused.
func TestPubRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"clear":             {[]string{"quotes:x", "--clear", "--transport", "sse"}, 2, "a client cannot clear a channel: leave out --transport, or --clear"},
		"idempotency key":   {[]string{"news", "1", "--idempotency-key", "x", "--transport", "sse"}, 2, "leave out --transport, or --idempotency-key"},
		"protocol alone":    {[]string{"news", "1", "--protocol", "json"}, 2, "--protocol is for clients: add --transport"},
		"unknown transport": {[]string{"news", "1", "--transport", "pigeon"}, 2, "--transport must be one of"},
		"unknown protocol":  {[]string{"news", "1", "--transport", "sse", "--protocol", "xml"}, 2, "--protocol must be one of"},
		"sse in protobuf":   {[]string{"news", "1", "--transport", "sse", "--protocol", "protobuf"}, 2, `transport sse does not carry the protocol "protobuf": use json`},
		"no address":        {[]string{"news", "1", "--transport", "sse", "--url", "localhost"}, 1, `"localhost" is no address of a node`},
		"nobody, websocket": {[]string{"news", "1", "--transport", "websocket", "--url", "http://127.0.0.1:1"}, 1, "does not answer"},
		"nobody, stream":    {[]string{"news", "1", "--transport", "http_stream", "--url", "http://127.0.0.1:1"}, 1, "does not answer"},
	} {
		code, stdout, stderr := sluice.RunCommand("", nil, append([]string{"pub"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: code %d, stdout %q, stderr %q\nwant %d and %q", name, code, stdout, stderr, tt.code, tt.stderr)
		}
	}
}
