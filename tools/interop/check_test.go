package interop_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// check compares what both sides observed with what they should have observed.
func check(t *testing.T, s scenario, said report, seen observed, weConnect bool) {
	t.Helper()
	if want := arrivals(s.ours.send); !s.abrupt || len(said.Received) > 0 { // a peer that is cut off may miss messages that it has not read yet
		equal(t, "the peer received", said.Received, want)
	}
	equal(t, "our side received", seen.arrivals, arrivals(s.theirs.send))
	if said.Pong != s.theirs.ping {
		t.Errorf("the peer's pong is %q, want %q", said.Pong, s.theirs.ping)
	}
	if s.ours.ping != "" {
		equal(t, "our side's pongs", seen.pongs, []string{s.ours.ping})
	}
	checkEnd(t, s, said, seen)
	checkAgreement(t, s, said)
	if sameMessages(s.ours.send) && seen.stats != nil {
		checkBytes(t, s, said, seen.stats, weConnect)
	}
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s %+v, want %+v", what, got, want)
	}
}

// checkEnd checks on both sides how the connection ended.
func checkEnd(t *testing.T, s scenario, said report, seen observed) {
	t.Helper()
	if s.abrupt {
		if said.Clean || said.Code != websocket.CloseAbnormal {
			t.Errorf("the peer saw code %d, clean: %v, without a close frame", said.Code, said.Clean)
		}
		if seen.ending.code != websocket.CloseAbnormal || seen.ending.by != session.ByLocal && seen.ending.by != 0 {
			t.Errorf("our side was told %+v", seen.ending)
		}
		return
	}
	begun, by := s.ours.close, session.ByLocal
	if begun == nil {
		begun, by = s.theirs.close, session.ByPeer
	}
	code := begun.Code
	if code == 0 {
		code = websocket.CloseNoStatus
	}
	if said.Code != code || !said.Clean {
		t.Errorf("the peer saw code %d, clean: %v, want %d, true", said.Code, said.Clean, code)
	}
	// The answer to a close frame may omit its reason (RFC 6455 §5.5.1).
	if by == session.ByLocal && said.Reason != begun.Reason {
		t.Errorf("the peer saw the reason %q, want %q", said.Reason, begun.Reason)
	}
	if len(said.Errors) > 0 {
		t.Errorf("the peer had errors: %q", said.Errors)
	}
	if seen.ending.by == 0 {
		by = 0
	}
	if want := (ending{by, code, begun.Reason}); seen.ending != want {
		t.Errorf("our side was told %+v, want %+v", seen.ending, want)
	}
}

// agreement is the negotiated extension.
type agreement struct {
	deflate    bool
	noTakeover [2]bool // no context takeover: from the server, from the client
	bits       [2]int
	unknown    string // an unknown parameter
}

// parse parses the Sec-WebSocket-Extensions of a response (RFC 7692 §7.1).
func parse(field string) agreement {
	a := agreement{bits: [2]int{15, 15}}
	for i, part := range strings.Split(field, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(strings.Trim(value, `"`))
		switch {
		case i == 0 && name == "permessage-deflate":
			a.deflate = true
		case i == 0 && name == "":
		case name == "server_no_context_takeover":
			a.noTakeover[0] = true
		case name == "client_no_context_takeover":
			a.noTakeover[1] = true
		case name == "server_max_window_bits" && err == nil:
			a.bits[0] = n
		case name == "client_max_window_bits" && err == nil:
			a.bits[1] = n
		default:
			a.unknown = part
		}
	}
	return a
}

// checkAgreement checks the negotiated extension.
func checkAgreement(t *testing.T, s scenario, said report) {
	t.Helper()
	a := parse(said.Agreed)
	both := s.ours.deflate != nil && s.theirs.deflate != nil && s.can&inflates != 0
	if a.deflate != both || a.unknown != "" {
		t.Errorf("agreed on %q, compression should be %v", said.Agreed, both)
	}
	if !both {
		return
	}
	// Only the server's windows and contexts are checked here: a server must do as requested. A client may, and checkBytes checks that by the
	// number of bytes.
	if wanted := s.ours.deflate.Bits; wanted != 0 && a.bits[0] != wanted {
		t.Errorf("agreed on %q, we want windows of %d bits", said.Agreed, wanted)
	}
	if wanted := s.theirs.deflate.Bits; wanted != 0 && a.bits[0] != wanted {
		t.Errorf("agreed on %q, they want windows of %d bits", said.Agreed, wanted)
	}
	if !s.ours.deflate.Takeover && !a.noTakeover[0] {
		t.Errorf("agreed on %q, the server has a context", said.Agreed)
	}
	if s.ours.deflate.Takeover && a.noTakeover != [2]bool{} {
		t.Errorf("agreed on %q, nobody refused a context", said.Agreed)
	}
}

// sameMessages reports whether context takeover makes a difference for the messages.
func sameMessages(list []message) bool {
	return len(list) > 1 && list[0].Kind == "digits" && list[0] == list[1]
}

// checkBytes checks the number of bytes in each direction, which shows whether contexts and windows were used as negotiated.
func checkBytes(t *testing.T, s scenario, said report, stats *session.Stats, weConnect bool) {
	t.Helper()
	a := parse(said.Agreed)
	fromServer, fromClient := stats.BytesOut, stats.BytesIn
	if weConnect {
		fromServer, fromClient = fromClient, fromServer
	}
	for i, n := range []uint64{fromServer, fromClient} {
		peerSends := (i == 0) == weConnect
		if n == 0 {
			continue // unknown: the bytes that a loop received
		}
		want := "plain"
		switch {
		case !a.deflate, peerSends && s.can&compresses == 0:
		case a.noTakeover[i], a.bits[i] == 9, !s.ours.deflate.Takeover, !peerSends && s.ours.deflate.Bits == 9:
			want = "each by itself" // a window of 512 bytes does not reach back to the previous message 1,000 bytes ago
		default:
			want = "with a context"
		}
		if got := classOf(n); got != want {
			t.Errorf("%d bytes of %s, agreed on %q: %s, want %s", n, [...]string{"the server", "the client"}[i], said.Agreed, got, want)
		}
	}
}

// classOf tells from the number of bytes on a connection how ten messages of a thousand hexadecimal digits were compressed. The handshake takes
// some hundred bytes.
func classOf(n uint64) string {
	switch {
	case n > 400 && n < 3000:
		return "with a context"
	case n > 4500 && n < 8500:
		return "each by itself"
	case n > 10_000 && n < 12_500:
		return "plain"
	}
	return fmt.Sprintf("neither plain nor compressed: %d", n)
}
