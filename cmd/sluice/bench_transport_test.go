package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

// Clients of every transport, in every form, get everything although the network resets their connections. The summary and the file name both.
func TestBenchTransports(t *testing.T) {
	t.Parallel()
	node := startCarriers(t)
	carriers(t, func(t *testing.T, transport, protocol string) {
		file := filepath.Join(t.TempDir(), "a.json")
		args := benchArgs(node.url(transport), "--publish-url", "http://"+node.public+"/api/publish", "--transport", transport, "--protocol", protocol, "--network", "delay=1ms,reset=300ms",
			"--prefix", "ticks:"+transport+"-"+protocol+"-", "--json", file)
		code, stdout, stderr := sluice.RunCommand("", nil, args...)
		if code != 0 || !strings.Contains(stdout, "nothing lost, duplicated, out of order or corrupt") || !strings.Contains(stdout, " ("+transport+", "+protocol+") ") {
			t.Fatalf("code %d\n%s%s", code, stdout, stderr)
		}
		r := openResult(t, file)
		if d := r.Deliveries; d.Expected == 0 || d.Received != d.Expected || d.Announced > 0 || r.Connects.Clients != 20 || r.Connects.Resets == 0 {
			t.Errorf("clients %+v, deliveries %+v", r.Connects, d)
		}
		if r.Spec.Transport != transport || r.Spec.Protocol != protocol {
			t.Errorf("spec %+v", r.Spec)
		}
		other := *r
		other.Spec.Transport, other.Spec.Protocol = "other", "another"
		text := report.Compare(*r, other)
		if !strings.Contains(text, "different settings") || !strings.Contains(text, "→ other\n") || !strings.Contains(text, "→ another\n") {
			t.Errorf("compared with another transport:\n%s", text)
		}
	})
}

// Transports and protocols that do not go together are refused, and so are addresses of another transport.
func TestBenchRefusesTransports(t *testing.T) {
	for _, tt := range []struct{ flags, stderr string }{
		{"--transport sse --protocol protobuf", `transport sse does not carry the protocol "protobuf": use json`},
		{"--transport sse --protocol plain", `transport sse does not carry the protocol "plain": use websocket`},
		{"--transport http_stream --url ws://127.0.0.1:1", `transport http_stream: "ws://127.0.0.1:1" is no address of a node: write it as in http://127.0.0.1:8000`},
		{"--transport sse --node ws://127.0.0.1:1", `"ws://127.0.0.1:1" is no address of a node`},
		{"--transport pigeon", "--transport must be one of"},
		{"--protocol centrifuge", `--protocol must be one of "json","protobuf","plain",""`},
		{"--protocol plain --shape market", "protocol plain has no channels"},
	} {
		code, stdout, stderr := sluice.RunCommand("", nil, append([]string{"bench"}, strings.Fields(tt.flags)...)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: code %d, stdout %q, stderr %q\nwant %q", tt.flags, code, stdout, stderr, tt.stderr)
		}
	}
}
