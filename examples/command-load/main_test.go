package main_test

import (
	"os"
	"testing"

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
