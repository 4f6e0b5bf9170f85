package loadtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// Faults are detected in the other form, too, and over a transport on which each client has a goroutine.
func TestWrongsOfForms(t *testing.T) {
	type fault struct {
		relay func(h *hostile) func(*reader, int, string)
		want  loadtest.Deliveries // only the counts of wrong deliveries
	}
	changed := func(f func(message string) string) func(*hostile) func(*reader, int, string) {
		return func(*hostile) func(*reader, int, string) { return change(f) }
	}
	lostAndCorrupt := loadtest.Deliveries{Lost: 1, Corrupt: 1}
	faults := map[string]fault{
		"nothing": {relay: changed(func(message string) string { return message })},
		"lost":    {relay: changed(func(string) string { return "" }), want: loadtest.Deliveries{Lost: 1}},
		"twice": {relay: func(*hostile) func(*reader, int, string) {
			return once(func(to *reader, message string) { to.send(message); to.send(message) })
		}, want: loadtest.Deliveries{Duplicated: 1}},
		"swapped":         {relay: func(*hostile) func(*reader, int, string) { return swap }, want: loadtest.Deliveries{Disordered: 1}},
		"filler changed":  {relay: changed(func(message string) string { return flip(message, 100) }), want: lostAndCorrupt},
		"number changed":  {relay: changed(func(message string) string { return flip(message, 20) }), want: lostAndCorrupt},
		"another channel": {relay: changed(func(message string) string { return strings.Replace(message, "load-0", "load-1", 1) }), want: lostAndCorrupt},
		"no such channel": {relay: changed(func(message string) string { return strings.Replace(message, "load-0", "load-x", 1) }), want: lostAndCorrupt},
		"more said": {relay: func(h *hostile) func(*reader, int, string) {
			return only(func(to *reader, n int, message string) {
				if n == at {
					message = h.push(protocol.Push{Kind: protocol.PushPublication, Publication: push.Publication{
						Data: dataOf(h, n), Offset: uint64(n), Tags: map[string]string{"a": "b"}, //nolint:gosec // a count
					}})
				}
				to.send(message)
			})
		}},
		"pings": {relay: func(h *hostile) func(*reader, int, string) {
			return once(func(to *reader, message string) {
				ping := h.encode(&protocol.Reply{})
				to.send(ping)
				to.send(message)
				to.send(ping)
			})
		}},
	}
	for _, server := range []*hostile{{form: loadtest.Protobuf}, {form: loadtest.Protobuf, stream: true}, {stream: true}} {
		for name, c := range faults {
			t.Run(nameOf(server)+", "+name, func(t *testing.T) {
				t.Parallel()
				h := &hostile{form: server.form, stream: server.stream}
				h.relay = c.relay(h)
				r := h.against(t, loadtest.Spec{Patience: time.Second})
				d := r.Deliveries
				wrong := loadtest.Deliveries{Lost: d.Lost, Announced: d.Announced, Duplicated: d.Duplicated, Disordered: d.Disordered, Corrupt: d.Corrupt}
				if wrong != c.want {
					t.Errorf("found %+v, want %+v", wrong, c.want)
				}
				if d.Expected == 0 || d.Received != d.Expected-d.Lost || d.Expected != 4*r.Publications.Sent {
					t.Errorf("deliveries %+v of %+v", d, r.Publications)
				}
				if want := map[string]int{"pings": 2}[name]; h.stream && h.pongs != want {
					t.Errorf("%d pings were answered, want %d", h.pongs, want)
				}
			})
		}
	}
}

// nameOf returns the name of a hostile server's transport and form.
func nameOf(h *hostile) string {
	name := "websocket"
	if h.stream {
		name = "http_stream"
	}
	if h.form == loadtest.Protobuf {
		return name + ", protobuf"
	}
	return name + ", json"
}

// dataOf returns the data of publication n.
func dataOf(h *hostile, n int) []byte {
	data, _, _ := strings.Cut(strings.TrimPrefix(h.log[n-1], `{"data":`), `,"offset"`)
	return []byte(data)
}

// Messages that cannot be decoded count as corrupt.
func TestGarbageInProtobuf(t *testing.T) {
	for name, c := range map[string]struct {
		garbage string
		want    loadtest.Deliveries
	}{
		"a message":          {"\x01\x07", loadtest.Deliveries{Corrupt: 1}},
		"a length too large": {"\x7f\x07", loadtest.Deliveries{Corrupt: 1}},
		"an endless length":  {"\x80", loadtest.Deliveries{Corrupt: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hostile{form: loadtest.Protobuf, relay: once(func(to *reader, message string) { to.send(message); to.send(c.garbage) })}
			d := h.against(t, loadtest.Spec{Patience: time.Second}).Deliveries
			if d.Corrupt != c.want.Corrupt || d.Lost != 0 || d.Received != d.Expected {
				t.Errorf("deliveries %+v", d)
			}
		})
	}
}

// A server of Protobuf that claims a full recovery, but delivers too few or too many of the missed publications, is detected.
func TestStormLieOfForms(t *testing.T) {
	for name, c := range map[string]struct {
		missed func(since int, all []string) []string
		wrong  func(*loadtest.Deliveries) bool
	}{
		"all":          {func(since int, all []string) []string { return all[since:] }, (*loadtest.Deliveries).Sound},
		"one too many": {func(since int, all []string) []string { return all[since-1:] }, func(d *loadtest.Deliveries) bool { return d.Lost == 0 && d.Duplicated == 4 }},
		"one too few": {
			func(since int, all []string) []string { return all[min(since+1, len(all)):] },
			func(d *loadtest.Deliveries) bool { return d.Lost > 0 && d.Lost <= 4 && d.Announced == 0 },
		},
	} {
		for _, server := range []*hostile{{form: loadtest.Protobuf}, {form: loadtest.Protobuf, stream: true}} {
			t.Run(nameOf(server)+", "+name, func(t *testing.T) {
				t.Parallel()
				h := &hostile{form: server.form, stream: server.stream, behind: 3}
				h.missed = func(since int, all []string) ([]string, bool) { return c.missed(since, all), true }
				r := h.against(t, loadtest.Spec{Shape: loadtest.Storm, Rate: 400, Patience: time.Second})
				if r.Storm == nil || r.Storm.Cut != 4 || !c.wrong(&r.Deliveries) {
					t.Errorf("deliveries %+v, recovery %+v", r.Deliveries, r.Storm)
				}
			})
		}
	}
}

// If the server of a stream announces its end, the missing publications count as Announced, and otherwise as Lost.
func TestStreamCut(t *testing.T) {
	disconnect := protocol.Push{Kind: protocol.PushDisconnect, Disconnect: push.Disconnect{Code: 3008, Reason: "slow"}}
	for name, c := range map[string]struct {
		announced bool
		reason    string
	}{
		"announced":     {true, "disconnected by the server: 3008 slow"},
		"not announced": {false, "EOF"},
	} {
		for _, form := range []string{loadtest.JSON, loadtest.Protobuf} {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				h := &hostile{form: form, stream: true}
				h.relay = only(func(to *reader, n int, _ string) {
					if n == at && c.announced {
						to.send(h.encode(&protocol.Reply{Kind: protocol.KindPush, Push: disconnect}))
					}
					if n == at {
						to.end()
					}
				})
				r := h.against(t, loadtest.Spec{Patience: time.Second})
				missing := uint64(len(h.log) - at + 1) //nolint:gosec // a count
				want := loadtest.Deliveries{Lost: missing}
				if c.announced {
					want = loadtest.Deliveries{Announced: missing}
				}
				if d := r.Deliveries; d.Lost != want.Lost || d.Announced != want.Announced || r.Connects.Cut != 1 {
					t.Errorf("deliveries %+v, connects %+v, want lost %d, announced %d", d, r.Connects, want.Lost, want.Announced)
				}
				wantReason(t, r, c.reason, 1)
			})
		}
	}
}
