package wire_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// negotiate makes a server answer an offer. It returns the answer, empty for none, and the status.
func negotiate(tb testing.TB, c *wire.Compression, offer ...string) (answer, status string) {
	tb.Helper()
	var fields []string
	for _, o := range offer {
		fields = append(fields, "Sec-WebSocket-Extensions: "+o)
	}
	codec := wire.NewHandshake(&wire.Options{Compression: c})
	_, _, _ = codec.Decode([]byte(request(fields...)))
	lines := strings.Split(string(codec.AppendReplies(nil)), "\r\n")
	_, status, _ = strings.Cut(lines[0], " ")
	for _, line := range lines {
		if value, ok := strings.CutPrefix(line, "Sec-WebSocket-Extensions: "); ok {
			answer = value
		}
	}
	return answer, status[:min(3, len(status))]
}

// noSmall is a deflater that keeps only the largest window.
func noSmall(int, int) wire.Deflater { return nil }

// TestNegotiation goes through RFC 7692 §5 and §7.1 as the server.
func TestNegotiation(t *testing.T) {
	both := &wire.Compression{Takeover: true, PeerTakeover: true, WindowBits: 15}
	plain := &wire.Compression{}
	const none = "; server_no_context_takeover; client_no_context_takeover"
	for _, tt := range []struct {
		name   string
		c      *wire.Compression
		offer  string
		answer string
	}{
		{"nothing is offered", both, "", ""},
		{"compression is off", nil, "permessage-deflate", ""},
		{"another extension", both, "permessage-bzip2, x-webkit-deflate-frame", ""},
		{"contexts on both sides", both, "permessage-deflate", "permessage-deflate"},
		{"no contexts here", plain, "permessage-deflate", "permessage-deflate" + none},
		{"§7.1.1.1 the client wants no context of ours", both, "permessage-deflate; server_no_context_takeover", "permessage-deflate; server_no_context_takeover"},
		{"§7.1.1.2 the client will keep none", both, "permessage-deflate; client_no_context_takeover", "permessage-deflate; client_no_context_takeover"},
		{"§7.1.2.1 a smaller window of ours", both, "permessage-deflate; server_max_window_bits=10", "permessage-deflate; server_max_window_bits=10"},
		{"§7.1.2.1 in quotes", both, `permessage-deflate; server_max_window_bits="8"`, "permessage-deflate; server_max_window_bits=8"},
		{"never larger than was asked for", &wire.Compression{Takeover: true, PeerTakeover: true, WindowBits: 9}, "permessage-deflate; server_max_window_bits=12", "permessage-deflate; server_max_window_bits=9"},
		{"§7.1.2.2 the client's window may be limited", &wire.Compression{Takeover: true, WindowBits: 15, PeerTakeover: true, PeerWindowBits: 9}, "permessage-deflate; client_max_window_bits", "permessage-deflate; client_max_window_bits=9"},
		{"§7.1.2.2 not if it did not say so", &wire.Compression{Takeover: true, WindowBits: 15, PeerTakeover: true, PeerWindowBits: 9}, "permessage-deflate", "permessage-deflate"},
		{"§7.1.2.2 the client's own limit", both, "permessage-deflate; client_max_window_bits=11", "permessage-deflate; client_max_window_bits=11"},
		{"a deflater without small windows declines", &wire.Compression{NewDeflater: noSmall}, "permessage-deflate; server_max_window_bits=8", ""},
		{"the second offer is as good", both, "permessage-deflate; unknown, permessage-deflate; client_no_context_takeover", "permessage-deflate; client_no_context_takeover"},
		{"an unknown parameter", both, "permessage-deflate; surprise=1", ""},
		{"a parameter twice", both, "permessage-deflate; server_max_window_bits=10; server_max_window_bits=10", ""},
		{"a value where none belongs", both, "permessage-deflate; server_no_context_takeover=1", ""},
		{"no value where one belongs", both, "permessage-deflate; server_max_window_bits", ""},
		{"a window too small", both, "permessage-deflate; server_max_window_bits=7", ""},
		{"a window too large", both, "permessage-deflate; client_max_window_bits=16", ""},
		{"a leading zero", both, "permessage-deflate; client_max_window_bits=010", ""},
		{"spaces", both, " permessage-deflate ;\tclient_no_context_takeover ,", "permessage-deflate; client_no_context_takeover"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if answer, status := negotiate(t, tt.c, tt.offer); answer != tt.answer || status != "101" {
				t.Errorf("%q is answered %q, %s; want %q", tt.offer, answer, status, tt.answer)
			}
		})
	}
	for _, offer := range []string{"permessage-deflate; =1", ";", "permessage-deflate; a=", "a b", `a; b="c d"`, `a; b="c`, "permessage-deflate;", "a; b=\"\""} {
		if _, status := negotiate(t, both, offer); status != "400" {
			t.Errorf("%q is answered with %s", offer, status)
		}
	}
	if answer, _ := negotiate(t, both, "permessage-bzip2", "permessage-deflate"); answer != "permessage-deflate" {
		t.Errorf("an offer in a second field is answered %q", answer)
	}
	refusing := &wire.Options{Compression: both, Accept: func(_ *wire.Request, res *wire.Response) error {
		res.Compress = false
		return nil
	}}
	c := wire.NewHandshake(refusing)
	_, _, _ = c.Decode([]byte(request("Sec-WebSocket-Extensions: permessage-deflate")))
	if strings.Contains(string(c.AppendReplies(nil)), "permessage") || c.Compresses(1000) {
		t.Error("Accept could not turn compression off")
	}
}

// TestClientNegotiation: a client's offer states its abilities, and an answer that it cannot keep fails the connection (§7.1).
func TestClientNegotiation(t *testing.T) {
	const none = "; server_no_context_takeover; client_no_context_takeover"
	for _, tt := range []struct {
		name   string
		c      *wire.Compression
		offer  string
		good   []string
		refuse []string
	}{
		{"off", nil, "", []string{""}, []string{"permessage-deflate", "x"}},
		{
			"no contexts", &wire.Compression{}, "permessage-deflate" + none + "; client_max_window_bits",
			[]string{"", "permessage-deflate" + none, "permessage-deflate; server_no_context_takeover; client_max_window_bits=8", "permessage-deflate; server_no_context_takeover; server_max_window_bits=15"},
			[]string{"permessage-deflate", "permessage-deflate; server_no_context_takeover; client_max_window_bits", "permessage-deflate" + none + ", permessage-deflate" + none, "permessage-deflate; a", "permessage-deflate" + none + "; server_max_window_bits=16"},
		},
		{
			"small windows", &wire.Compression{Takeover: true, PeerTakeover: true, WindowBits: 10, PeerWindowBits: 9},
			"permessage-deflate; server_max_window_bits=9; client_max_window_bits=10",
			[]string{"permessage-deflate; server_max_window_bits=9", "permessage-deflate; server_max_window_bits=8; client_max_window_bits=15"},
			[]string{"permessage-deflate", "permessage-deflate; server_max_window_bits=10", ";"},
		},
		{
			"a deflater without small windows", &wire.Compression{NewDeflater: largest},
			"permessage-deflate" + none + "; client_max_window_bits",
			[]string{"permessage-deflate" + none},
			[]string{"permessage-deflate" + none + "; client_max_window_bits=9"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := wire.NewEndpoint(&wire.Options{Compression: tt.c})
			if got := e.Offer(); got != tt.offer {
				t.Errorf("offers %q, want %q", got, tt.offer)
			}
			var c wire.Codec
			for _, answer := range tt.good {
				if err := e.Client(&c, &wire.ClientResponse{Extensions: answer}); err != nil {
					t.Errorf("%q: %v", answer, err)
				}
			}
			for _, answer := range tt.refuse {
				if err := e.Client(&c, &wire.ClientResponse{Extensions: answer}); err == nil {
					t.Errorf("%q is taken", answer)
				}
			}
		})
	}
}

// stored is a deflater of blocks without compression.
type stored struct{}

func (stored) Reset() {}

func (stored) Append(dst, msg []byte) []byte {
	for len(msg) > 0 {
		n := min(len(msg), 0xffff)
		dst = append(dst, 0, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		dst, msg = append(dst, msg[:n]...), msg[n:]
	}
	return append(dst, 0)
}

func largest(_, bits int) wire.Deflater {
	if bits < 15 {
		return nil
	}
	return stored{}
}

// TestPluggedDeflater: the application can replace the compressor.
func TestPluggedDeflater(t *testing.T) {
	p := connect(t, &wire.Options{Compression: &wire.Compression{Takeover: true, PeerTakeover: true, WindowBits: 15, Threshold: -1, NewDeflater: largest}},
		&wire.Options{Compression: &wire.Compression{Takeover: true, PeerTakeover: true}})
	stream, err := p.client.AppendMessage(nil, wire.OpText, []byte("Hello"))
	if err != nil {
		t.Fatal(err)
	}
	if len(stream) != 2+4+5+5+1 || stream[0] != 0xc1 {
		t.Errorf("%x is not what the deflater made", stream)
	}
	if msg, _, err := p.server.Decode(stream); string(msg) != "Hello" || err != nil {
		t.Errorf("%q, %v", msg, err)
	}
}

// FuzzExtensions: no header causes a failure, and an answer accepts only offered parameters (RFC 7692 §5.1).
func FuzzExtensions(f *testing.F) {
	for _, seed := range []string{
		"permessage-deflate", "permessage-deflate; client_max_window_bits", `a; b="c", permessage-deflate; server_max_window_bits=9`, ",,", ";", "a;b=;", "a=\"\\",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, offer string) {
		if strings.ContainsAny(offer, "\r\n") || len(offer) > 4000 {
			return
		}
		answer, status := negotiate(t, &wire.Compression{Takeover: true, PeerTakeover: true, WindowBits: 15}, offer)
		if answer == "" {
			return
		}
		if status != "101" || !strings.HasPrefix(answer, "permessage-deflate") || !strings.Contains(offer, "permessage-deflate") {
			t.Errorf("%q is answered %q, %s", offer, answer, status)
		}
		for param := range strings.SplitSeq(answer, "; ") {
			name, _, _ := strings.Cut(param, "=")
			if !strings.Contains(offer, name) {
				t.Errorf("%q is answered %q", offer, answer)
			}
		}
	})
}
