package main_test

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	load "github.com/sluice-push/sluice/examples/command-load"
	"github.com/sluice-push/sluice/examples/internal/proctest"
)

var (
	program = proctest.New(".")
	server  = proctest.New("../command-server")
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		server.Remove()
		os.Exit(code)
	}))
}

// A window takes answers in order, once, and to nothing but what was sent.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		messages := rapid.Uint64Range(0, 20).Draw(rt, "messages")
		inFlight := rapid.IntRange(1, 5).Draw(rt, "in flight")
		w := load.NewWindow(messages, inFlight)
		type request struct {
			id uint64
			at int64
		}
		var sent []request // and not answered
		last, now := uint64(0), int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				now++
				id, ok := w.Take(now)
				if want := len(sent) < inFlight && (messages == 0 || last < messages); ok != want {
					rt.Fatalf("taken: %v, want %v", ok, want)
				}
				if ok {
					last++
					if id != last {
						rt.Fatalf("request %d, want %d", id, last)
					}
					sent = append(sent, request{id, now})
				}
			},
			"answer": func(rt *rapid.T) {
				id := rapid.Uint64Range(0, last+2).Draw(rt, "id")
				if len(sent) > 0 && rapid.Bool().Draw(rt, "right") {
					id = sent[0].id
				}
				at, err := w.Answer(id)
				if right := len(sent) > 0 && id == sent[0].id; right != (err == nil) {
					rt.Fatalf("answer to %d: %v, want right: %v", id, err, right)
				} else if right {
					if at != sent[0].at {
						rt.Fatalf("request %d was sent at %d, want %d", id, at, sent[0].at)
					}
					sent = sent[1:]
				}
			},
			"": func(rt *rapid.T) {
				answered := last - uint64(len(sent))
				if w.Pending() != uint64(len(sent)) || w.Answered() != answered || w.Complete() != (messages > 0 && answered == messages) {
					rt.Fatalf("%d pending, %d answered, complete: %v", w.Pending(), w.Answered(), w.Complete())
				}
			},
		})
	})
}

// A quantile is never less than the truth, and at most a thirty-second more.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 1, 50).Draw(rt, "durations")
		part := rapid.Float64Range(0, 1).Draw(rt, "part")
		var all []time.Duration
		for _, n := range numbers {
			all = append(all, time.Duration(n>>rapid.IntRange(0, 62).Draw(rt, "shift")))
		}
		got := load.Quantile(part, all...)
		slices.Sort(all)
		want := all[max(int(math.Ceil(part*float64(len(all))))-1, 0)]
		if got < want || float64(got-want) > float64(want)/32 {
			rt.Fatalf("quantile %v of %v is %v, want %v", part, all, int64(got), int64(want))
		}
	})
	if got := load.Quantile(0.5); got != 0 {
		t.Errorf("of nothing it is %v", got)
	}
	if got := load.Quantile(1, -time.Second); got != 0 {
		t.Errorf("of less than nothing it is %v", got)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 270_340: "270µs", 1_234_567: "1.23ms", 9_999_999: "10ms", 61_234 * time.Millisecond: "1m1.2s",
	} {
		if got := load.Short(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}
