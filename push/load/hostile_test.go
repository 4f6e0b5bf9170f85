package load_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// wronged is the client, and at the publication, with which a hostile server does something. Some five publications before it are the
// warm-up's.
const (
	wronged = 1
	at      = 30
)

// only makes a relay that treats one client in another way from one publication on.
func only(f func(to *reader, n int, line string)) func(*reader, int, string) {
	return func(to *reader, n int, line string) {
		if to.number == wronged && n >= at {
			f(to, n, line)
		} else {
			to.send(line)
		}
	}
}

// once is only for a single publication.
func once(f func(to *reader, line string)) func(*reader, int, string) {
	return only(func(to *reader, n int, line string) {
		if n == at {
			f(to, line)
		} else {
			to.send(line)
		}
	})
}

// swap delivers one publication behind the next.
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

// change makes a relay that changes the text of one publication.
func change(f func(line string) string) func(*reader, int, string) {
	return once(func(to *reader, line string) { to.send(f(line)) })
}

// flip changes a byte so many bytes behind the beginning of the data.
func flip(line string, behind int) string {
	i := strings.Index(line, `"l":"`) + len(`"l":"`) + behind
	b := []byte(line)
	if b[i]++; b[i] == '9'+1 || b[i] == 'z'+1 {
		b[i] = '0'
	}
	return string(b)
}

// Whatever a server does to a publication is found, and called by its name. No deliveries but those it touches count as wrong.
func TestWrongs(t *testing.T) {
	for name, c := range map[string]struct {
		relay func(*reader, int, string)
		want  load.Deliveries // of what is wrong
		rate  float64
	}{
		"nothing":            {relay: once(func(to *reader, line string) { to.send(line) })},
		"lost":               {relay: once(func(*reader, string) {}), want: load.Deliveries{Lost: 1}},
		"twice":              {relay: once(func(to *reader, line string) { to.send(line); to.send(line) }), want: load.Deliveries{Duplicated: 1}},
		"twice in a message": {relay: change(func(line string) string { return line + "\n" + line }), want: load.Deliveries{Duplicated: 1}},
		"swapped":            {relay: swap, want: load.Deliveries{Disordered: 1}},
		"swapped, writers":   {relay: swap, want: load.Deliveries{Disordered: 1}, rate: 450},
		"filler changed": {
			relay: change(func(line string) string { return flip(line, 100) }), want: load.Deliveries{Lost: 1, Corrupt: 1},
		},
		"last byte changed": {
			relay: change(func(line string) string { return flip(line, 256-len(`{"l":"`)-len(`"}`)-1) }), want: load.Deliveries{Lost: 1, Corrupt: 1},
		},
		"number changed": {relay: change(func(line string) string { return flip(line, 20) }), want: load.Deliveries{Lost: 1, Corrupt: 1}},
		"run changed":    {relay: change(func(line string) string { return flip(line, 0) }), want: load.Deliveries{Lost: 1, Corrupt: 1}},
		"time changed":   {relay: change(func(line string) string { return flip(line, 44) }), want: load.Deliveries{Lost: 1, Corrupt: 1}},
		"shorter": {
			relay: change(func(line string) string { return strings.Replace(line, `"},"offset"`, `","offset"`, 1) }), // which is no JSON
			want:  load.Deliveries{Lost: 1, Corrupt: 1},
		},
		"longer": {
			relay: change(func(line string) string { return strings.Replace(line, `"},"offset"`, `x"},"offset"`, 1) }),
			want:  load.Deliveries{Lost: 1, Corrupt: 1},
		},
		"null": {
			relay: once(func(to *reader, _ string) {
				to.send(`{"push":{"channel":"ticks:load-0","pub":{"data":null,"offset":30}}}`)
			}),
			want: load.Deliveries{Lost: 1, Corrupt: 1},
		},
		"another channel": {
			relay: change(func(line string) string { return strings.Replace(line, "load-0", "load-1", 1) }),
			want:  load.Deliveries{Lost: 1, Corrupt: 1},
		},
		"garbage":   {relay: once(func(to *reader, line string) { to.send("\x00\n" + line + "\n]") }), want: load.Deliveries{Corrupt: 2}},
		"more said": {relay: change(func(line string) string { return strings.Replace(line, `"offset"`, `"tags":{"a":"b"},"offset"`, 1) })},
		"pings":     {relay: once(func(to *reader, line string) { to.send("{}\n" + line + "\n\n{}"); to.send(`{"id":9,"ping":{}}`) })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hostile{relay: c.relay}
			r := h.against(t, load.Spec{Rate: c.rate})
			d := r.Deliveries
			wrong := load.Deliveries{Lost: d.Lost, Told: d.Told, Duplicated: d.Duplicated, Disordered: d.Disordered, Corrupt: d.Corrupt}
			if wrong != c.want {
				t.Errorf("found %+v, want %+v", wrong, c.want)
			}
			if d.Sound() != (c.want == load.Deliveries{}) {
				t.Errorf("sound: %v", d.Sound())
			}
			if d.Expected == 0 || d.Received != d.Expected-d.Lost || d.Expected != 4*r.Publications.Sent {
				t.Errorf("deliveries %+v of %+v", d, r.Publications)
			}
		})
	}
}

// A client that gets nothing more, from some publication on or from the first, has lost all of it.
func TestSilence(t *testing.T) {
	for name, from := range map[string]int{"from some time on": at, "always": 1} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{relay: func(to *reader, n int, line string) {
				if to.number != wronged || n < from {
					to.send(line)
				}
			}}
			r := h.against(t, load.Spec{})
			if want := uint64(len(h.log) - from + 1); r.Deliveries.Lost != want || want == 0 { //nolint:gosec // a count
				t.Errorf("lost %d, want %d", r.Deliveries.Lost, want)
			}
		})
	}
}

// What is lost of the warm-up is lost, and said to be of the warm-up.
func TestWarmLoss(t *testing.T) {
	h := &hostile{relay: func(to *reader, n int, line string) {
		if to.number != wronged || n != 2 {
			to.send(line)
		}
	}}
	r := h.against(t, load.Spec{})
	if r.Deliveries.Lost != 1 || r.Deliveries.Received != r.Deliveries.Expected {
		t.Errorf("deliveries %+v", r.Deliveries)
	}
	wantProblem(t, r, "1 of what was lost were publications of the warm-up")
}

func wantProblem(t *testing.T, r *load.Result, text string) {
	t.Helper()
	for _, p := range r.Problems {
		if strings.Contains(p, text) {
			return
		}
	}
	t.Errorf("problems %q, none with %q", r.Problems, text)
}

func wantReason(t *testing.T, r *load.Result, text string, n int) {
	t.Helper()
	for reason, got := range r.Connects.Reasons {
		if strings.Contains(reason, text) && got == n {
			return
		}
	}
	t.Errorf("reasons %v, not %d times %q", r.Connects.Reasons, n, text)
}

// A client whose connection or subscription is ended by the server, with a word, is told that it misses something; without, it is not.
func TestCut(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*reader)
		reason string
		told   bool
		cut    int
	}{
		"closed":       {func(r *reader) { _ = r.conn.Close(3008, "slow") }, "closed by the server: 3008 slow", true, 1},
		"reset":        {func(r *reader) { r.conn.CloseNow() }, "", false, 1},
		"unsubscribed": {func(r *reader) { r.send(unsubscribe) }, "unsubscribed by the server: 2500 insufficient state", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{relay: only(func(to *reader, n int, line string) {
				if n == at {
					c.end(to)
				}
			})}
			r := h.against(t, load.Spec{})
			missing := uint64(len(h.log) - at + 1) //nolint:gosec // a count
			want := load.Deliveries{Lost: missing}
			if c.told {
				want = load.Deliveries{Told: missing}
			}
			if r.Deliveries.Lost != want.Lost || r.Deliveries.Told != want.Told || r.Connects.Cut != c.cut {
				t.Errorf("deliveries %+v, connects %+v, want lost %d, told %d", r.Deliveries, r.Connects, want.Lost, want.Told)
			}
			wantReason(t, r, c.reason, 1)
		})
	}
}

const unsubscribe = `{"push":{"channel":"ticks:load-0","unsubscribe":{"code":2500,"reason":"insufficient state"}}}`

// Clients that are not let in are counted, with the reason, and nothing is expected of them.
func TestNotLetIn(t *testing.T) {
	h := &hostile{let: func(number int) bool { return number == 0 }}
	r := h.against(t, load.Spec{Patience: time.Second})
	if r.Connects.Clients != 1 || r.Connects.Failed != 3 || !r.Deliveries.Sound() || r.Deliveries.Expected != r.Publications.Sent {
		t.Errorf("connects %+v, deliveries %+v", r.Connects, r.Deliveries)
	}
	wantReason(t, r, "no answer within 1s", 3)
}

// What the server refuses to publish is counted and not expected; what it does not answer nobody is expected to have, whether or not it was
// published.
func TestNotPublished(t *testing.T) {
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
		"answered with a riddle":   {func(w http.ResponseWriter, _ int) bool { _, _ = w.Write([]byte("moo")); return false }, 1, "is this the right URL?"},
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
			r := h.against(t, load.Spec{})
			if !r.Deliveries.Sound() || r.Deliveries.Told != 0 || r.Publications.Refused != c.refused || r.Publications.Sent != r.Publications.Due-1 {
				t.Errorf("deliveries %+v, publications %+v", r.Deliveries, r.Publications)
			}
			wantProblem(t, r, c.problem)
		})
	}
}

// A plain server is found out as well. Its publisher is one of its clients, the last; but the others may connect after it.
func TestPlain(t *testing.T) {
	for name, want := range map[string]load.Deliveries{"sound": {}, "lost": {Lost: 1}} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{plain: true}
			h.relay = func(to *reader, n int, line string) {
				victim := wronged
				if h.speaker == victim { // who gets what it publishes, and does not miss it
					victim++
				}
				if to.number != victim || n != at || want.Lost == 0 {
					to.send(line)
				}
			}
			r := h.against(t, load.Spec{Protocol: load.Plain, Publish: load.ByClient})
			if r.Deliveries.Lost != want.Lost || r.Deliveries.Received != r.Deliveries.Expected-want.Lost || r.Deliveries.Expected == 0 {
				t.Errorf("deliveries %+v", r.Deliveries)
			}
		})
	}
}

// What another run publishes in the same channels is none of this run's, and said.
func TestForeign(t *testing.T) {
	other := &hostile{}
	other.against(t, load.Spec{})
	h := &hostile{relay: once(func(to *reader, line string) {
		to.send(`{"push":{"channel":"ticks:load-0","pub":` + other.log[at] + "}}\n" + line)
	})}
	r := h.against(t, load.Spec{})
	if d := r.Deliveries; !d.Sound() || d.Received != d.Expected || d.Expected == 0 {
		t.Errorf("deliveries %+v", d)
	}
	wantProblem(t, r, "1 publications of other runs")
}
