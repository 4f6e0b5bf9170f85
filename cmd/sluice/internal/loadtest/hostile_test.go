package loadtest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// The hostile server manipulates deliveries to the client with number victim, from publication at on. About the first seven publications belong
// to the warm-up.
const (
	victim = 1
	at     = 30
)

// only returns a relay that calls f for deliveries to the victim from publication at on, and sends all others.
func only(f func(to *reader, n int, line string)) func(*reader, int, string) {
	return func(to *reader, n int, line string) {
		if to.number == victim && n >= at {
			f(to, n, line)
		} else {
			to.send(line)
		}
	}
}

// once returns a relay that calls f for publication at to the victim, and sends all others.
func once(f func(to *reader, line string)) func(*reader, int, string) {
	return only(func(to *reader, n int, line string) {
		if n == at {
			f(to, line)
		} else {
			to.send(line)
		}
	})
}

// swap is a relay that delivers publication at after the next one.
var swap = only(func(to *reader, n int, line string) {
	if n == at {
		to.held = line
		return
	}
	to.send(line)
	if to.held != "" {
		to.send(to.held)
		to.held = ""
	}
})

// change returns a relay that changes the text of publication at.
func change(f func(line string) string) func(*reader, int, string) {
	return once(func(to *reader, line string) { to.send(f(line)) })
}

// flip changes the byte at an offset of the payload header and filler.
func flip(line string, behind int) string {
	i := strings.Index(line, `"l":"`) + len(`"l":"`) + behind
	b := []byte(line)
	if b[i]++; b[i] == '9'+1 || b[i] == 'z'+1 {
		b[i] = '0'
	}
	return string(b)
}

// Each fault in the delivery of a publication is detected and counted under its name. No other delivery counts as wrong.
func TestWrongs(t *testing.T) {
	for name, c := range map[string]struct {
		relay func(*reader, int, string)
		want  loadtest.Deliveries // only the counts of wrong deliveries
		rate  float64
	}{
		"nothing":            {relay: once(func(to *reader, line string) { to.send(line) })},
		"lost":               {relay: once(func(*reader, string) {}), want: loadtest.Deliveries{Lost: 1}},
		"twice":              {relay: once(func(to *reader, line string) { to.send(line); to.send(line) }), want: loadtest.Deliveries{Duplicated: 1}},
		"twice in a message": {relay: change(func(line string) string { return line + "\n" + line }), want: loadtest.Deliveries{Duplicated: 1}},
		"swapped":            {relay: swap, want: loadtest.Deliveries{Disordered: 1}},
		"swapped, writers":   {relay: swap, want: loadtest.Deliveries{Disordered: 1}, rate: 450},
		"filler changed": {
			relay: change(func(line string) string { return flip(line, 100) }), want: loadtest.Deliveries{Lost: 1, Corrupt: 1},
		},
		"last byte changed": {
			relay: change(func(line string) string { return flip(line, 256-len(`{"l":"`)-len(`"}`)-1) }), want: loadtest.Deliveries{Lost: 1, Corrupt: 1},
		},
		"number changed": {relay: change(func(line string) string { return flip(line, 20) }), want: loadtest.Deliveries{Lost: 1, Corrupt: 1}},
		"run changed":    {relay: change(func(line string) string { return flip(line, 0) }), want: loadtest.Deliveries{Lost: 1, Corrupt: 1}},
		"time changed":   {relay: change(func(line string) string { return flip(line, 44) }), want: loadtest.Deliveries{Lost: 1, Corrupt: 1}},
		"shorter": {
			relay: change(func(line string) string { return strings.Replace(line, `"},"offset"`, `","offset"`, 1) }), // which is invalid JSON
			want:  loadtest.Deliveries{Lost: 1, Corrupt: 1},
		},
		"longer": {
			relay: change(func(line string) string { return strings.Replace(line, `"},"offset"`, `x"},"offset"`, 1) }),
			want:  loadtest.Deliveries{Lost: 1, Corrupt: 1},
		},
		"null": {
			relay: once(func(to *reader, _ string) {
				to.send(`{"push":{"channel":"ticks:load-0","pub":{"data":null,"offset":30}}}`)
			}),
			want: loadtest.Deliveries{Lost: 1, Corrupt: 1},
		},
		"another channel": {
			relay: change(func(line string) string { return strings.Replace(line, "load-0", "load-1", 1) }),
			want:  loadtest.Deliveries{Lost: 1, Corrupt: 1},
		},
		"garbage":   {relay: once(func(to *reader, line string) { to.send("\x00\n" + line + "\n]") }), want: loadtest.Deliveries{Corrupt: 2}},
		"more said": {relay: change(func(line string) string { return strings.Replace(line, `"offset"`, `"tags":{"a":"b"},"offset"`, 1) })},
		"pings":     {relay: once(func(to *reader, line string) { to.send("{}\n" + line + "\n\n{}"); to.send(`{"id":9,"ping":{}}`) })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hostile{relay: c.relay}
			r := h.against(t, loadtest.Spec{Rate: c.rate})
			d := r.Deliveries
			wrong := loadtest.Deliveries{Lost: d.Lost, Announced: d.Announced, Duplicated: d.Duplicated, Disordered: d.Disordered, Corrupt: d.Corrupt}
			if wrong != c.want {
				t.Errorf("found %+v, want %+v", wrong, c.want)
			}
			if d.Sound() != (c.want == loadtest.Deliveries{}) {
				t.Errorf("sound: %v", d.Sound())
			}
			if d.Expected == 0 || d.Received != d.Expected-d.Lost || d.Expected != 4*r.Publications.Sent {
				t.Errorf("deliveries %+v of %+v", d, r.Publications)
			}
		})
	}
}

// A client that receives nothing, from some publication on or at all, has lost all of these publications.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]int{"from some time on": at, "always": 1} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{relay: func(to *reader, n int, line string) {
				if to.number != victim || n < from {
					to.send(line)
				}
			}}
			r := h.against(t, loadtest.Spec{})
			if want := uint64(len(h.log) - from + 1); r.Deliveries.Lost != want || want == 0 { //nolint:gosec // a count
				t.Errorf("lost %d, want %d", r.Deliveries.Lost, want)
			}
		})
	}
}

// A lost publication of the warm-up counts as lost, and the problems mention it.
func TestWarmLoss(t *testing.T) {
	t.Parallel()
	h := &hostile{relay: func(to *reader, n int, line string) {
		if to.number != victim || n != 2 {
			to.send(line)
		}
	}}
	r := h.against(t, loadtest.Spec{})
	if r.Deliveries.Lost != 1 || r.Deliveries.Received != r.Deliveries.Expected {
		t.Errorf("deliveries %+v", r.Deliveries)
	}
	wantProblem(t, r, "1 of the lost deliveries belong to the warm-up")
}

func wantProblem(t *testing.T, r *loadtest.Result, text string) {
	t.Helper()
	for _, p := range r.Problems {
		if strings.Contains(p, text) {
			return
		}
	}
	t.Errorf("problems %q, none with %q", r.Problems, text)
}

func wantReason(t *testing.T, r *loadtest.Result, text string, n int) {
	t.Helper()
	for reason, got := range r.Connects.Reasons {
		if strings.Contains(reason, text) && got == n {
			return
		}
	}
	t.Errorf("reasons %v, not %d times %q", r.Connects.Reasons, n, text)
}

// If the server announces the end of a connection or subscription, the missing publications count as Announced, and otherwise as Lost.
func TestCut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(*reader)
		reason string
		told   bool
		cut    int
	}{
		"closed":       {func(r *reader) { _ = r.conn.Close(3008, "slow") }, "closed by the server: 3008 slow", true, 1},
		"reset":        {(*reader).end, "", false, 1},
		"unsubscribed": {func(r *reader) { r.send(unsubscribe) }, "unsubscribed by the server: 2500 insufficient state", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{relay: only(func(to *reader, n int, line string) {
				if n == at {
					c.end(to)
				}
			})}
			r := h.against(t, loadtest.Spec{})
			missing := uint64(len(h.log) - at + 1) //nolint:gosec // a count
			want := loadtest.Deliveries{Lost: missing}
			if c.told {
				want = loadtest.Deliveries{Announced: missing}
			}
			if r.Deliveries.Lost != want.Lost || r.Deliveries.Announced != want.Announced || r.Connects.Cut != c.cut {
				t.Errorf("deliveries %+v, connects %+v, want lost %d, announced %d", r.Deliveries, r.Connects, want.Lost, want.Announced)
			}
			wantReason(t, r, c.reason, 1)
		})
	}
}

const unsubscribe = `{"push":{"channel":"ticks:load-0","unsubscribe":{"code":2500,"reason":"insufficient state"}}}`

// Clients that the server does not admit are counted with the reason, and no deliveries to them are expected.
func TestNotLetIn(t *testing.T) {
	t.Parallel()
	h := &hostile{let: func(number int) bool { return number == 0 }}
	r := h.against(t, loadtest.Spec{Patience: time.Second})
	if r.Connects.Clients != 1 || r.Connects.Failed != 3 || !r.Deliveries.Sound() || r.Deliveries.Expected != r.Publications.Sent {
		t.Errorf("connects %+v, deliveries %+v", r.Connects, r.Deliveries)
	}
	wantReason(t, r, "no answer within 1s", 3)
}

// A refused publication is counted, and its delivery is not expected. Nor is that of a publication without an answer, whether or not the server
// published it.
func TestNotPublished(t *testing.T) {
	t.Parallel()
	hangUp := func(w http.ResponseWriter) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	}
	for name, c := range map[string]struct {
		answer  func(w http.ResponseWriter, n int) bool
		refused uint64
		problem string
	}{
		"refused": {func(w http.ResponseWriter, _ int) bool {
			http.Error(w, `{"error":{"code":111,"message":"too many requests"}}`, http.StatusTooManyRequests)
			return false
		}, 1, "publishing failed 1 times: too many requests (code 111)"},
		"not answered":             {func(w http.ResponseWriter, _ int) bool { hangUp(w); return false }, 0, "1 publications were not answered"},
		"not answered, but sent":   {func(w http.ResponseWriter, _ int) bool { hangUp(w); return true }, 0, "1 publications were not answered"},
		"answered with a riddle":   {func(w http.ResponseWriter, _ int) bool { _, _ = w.Write([]byte("moo")); return false }, 1, "check the URL"},
		"answered with a redirect": {func(w http.ResponseWriter, _ int) bool { w.WriteHeader(http.StatusFound); return false }, 1, "status 302"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{answer: func(w http.ResponseWriter, _ *http.Request, n int) bool {
				if n == at {
					return c.answer(w, n)
				}
				_, _ = w.Write([]byte(`{"result":{}}`))
				return true
			}}
			r := h.against(t, loadtest.Spec{})
			if !r.Deliveries.Sound() || r.Deliveries.Announced != 0 || r.Publications.Refused != c.refused || r.Publications.Sent != r.Publications.Due-1 {
				t.Errorf("deliveries %+v, publications %+v", r.Deliveries, r.Publications)
			}
			wantProblem(t, r, c.problem)
		})
	}
}

// Faults of a plain server are detected as well. Its publisher is one more client, and the other clients may connect after it.
func TestPlain(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]loadtest.Deliveries{"sound": {}, "lost": {Lost: 1}} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{plain: true}
			h.relay = func(to *reader, n int, line string) {
				target := victim
				if h.speaker == target { // the publisher, which does not check its deliveries
					target++
				}
				if to.number != target || n != at || want.Lost == 0 {
					to.send(line)
				}
			}
			r := h.against(t, loadtest.Spec{Protocol: loadtest.Plain, Publish: loadtest.ByClient})
			if r.Deliveries.Lost != want.Lost || r.Deliveries.Received != r.Deliveries.Expected-want.Lost || r.Deliveries.Expected == 0 {
				t.Errorf("deliveries %+v", r.Deliveries)
			}
		})
	}
}

// Publications of another run in the same channels do not count, and the problems mention them.
func TestForeign(t *testing.T) {
	t.Parallel()
	other := &hostile{}
	other.against(t, loadtest.Spec{})
	h := &hostile{relay: once(func(to *reader, line string) {
		to.send(`{"push":{"channel":"ticks:load-0","pub":` + other.log[at] + "}}\n" + line)
	})}
	r := h.against(t, loadtest.Spec{})
	if d := r.Deliveries; !d.Sound() || d.Received != d.Expected || d.Expected == 0 {
		t.Errorf("deliveries %+v", d)
	}
	wantProblem(t, r, "1 publications of other runs")
}
