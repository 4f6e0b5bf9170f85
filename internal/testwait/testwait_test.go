package testwait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is a test that keeps what it is told.
type record struct {
	testing.TB
	said  strings.Builder
	ended bool // by FailNow
}

func (*record) Helper() {}

func (r *record) Errorf(format string, args ...any) { fmt.Fprintf(&r.said, format, args...) }

func (r *record) FailNow() {
	r.ended = true
	runtime.Goexit()
}

// A wait that goes on for ever ends after a minute, says what it waited for, and what else is going on. The fault: TestLookout waited for
// itself for eighteen minutes.
func TestBound(t *testing.T) {
	tests := []struct {
		name, says, line string
		goesOn           bool
		wait             func(t testing.TB, never chan int)
	}{
		{name: "receive", says: "nothing was received", line: "testwait.Receive(t, never) // this", wait: func(t testing.TB, never chan int) {
			testwait.Receive(t, never) // this
		}},
		{name: "hold", says: "nothing was received", line: "testwait.Hold(t, never) // that", goesOn: true, wait: func(t testing.TB, never chan int) {
			testwait.Hold(t, never) // that
		}},
		{name: "send", says: "no receiver took", line: "testwait.Send(t, never, 1)", wait: func(t testing.TB, never chan int) {
			testwait.Send(t, never, 1)
		}},
		{name: "return", says: "did not return", line: "testwait.Return(t, wait)", wait: func(t testing.TB, _ chan int) {
			release := make(chan struct{})
			defer close(release)
			wait := func() { <-release }
			testwait.Return(t, wait)
		}},
		{name: "true", says: "come about that pigs fly", line: `testwait.True(t, "pigs fly"`, wait: func(t testing.TB, _ chan int) {
			testwait.True(t, "pigs fly", func() bool { return false })
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, began, returned := &record{TB: t}, time.Now(), false
				var wg sync.WaitGroup
				wg.Go(func() {
					tt.wait(r, make(chan int))
					returned = true
				})
				wg.Wait()
				if d := time.Since(began); d != testwait.Bound {
					t.Errorf("it ended after %v", d)
				}
				for _, want := range []string{tt.says, "within 1m0s", "testwait_test.go:", tt.line, "goroutine "} {
					if !strings.Contains(r.said.String(), want) {
						t.Errorf("it does not say %q:\n%s", want, &r.said)
					}
				}
				if r.ended == tt.goesOn || returned != tt.goesOn {
					t.Errorf("the test was ended: %t, the wait returned: %t", r.ended, returned)
				}
			})
		})
	}
}

// What comes in time is handed on, and nothing is said.
func TestInTime(t *testing.T) {
	c, closed := make(chan int, 1), make(chan int)
	close(closed)
	testwait.Send(t, c, 5)
	if v := testwait.Receive(t, c); v != 5 {
		t.Errorf("received %d", v)
	}
	testwait.Send(t, c, 6)
	if v := testwait.Hold(t, c); v != 6 {
		t.Errorf("received %d", v)
	}
	if v := testwait.Receive(t, closed); v != 0 {
		t.Errorf("received %d from a closed channel", v)
	}
	var wg sync.WaitGroup
	wg.Go(func() {})
	testwait.Return(t, wg.Wait)
	asked := 0
	testwait.True(t, "", func() bool { asked++; return asked == 3 })
}

// The context of a test ends in time too, and its error says that it was this one.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, began := testwait.Context(t), time.Now()
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1m0s") {
			t.Error(err)
		}
		if d := time.Since(began); d != testwait.Bound {
			t.Errorf("it ended after %v", d)
		}
	})
}

// A server's connections are waited for, also one on which a body was refused.
func TestConns(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	s := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1))
			http.Error(w, fmt.Sprint(err), http.StatusRequestEntityTooLarge)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(ended)
			}
		},
	}
	conns := testwait.Conns(s)
	serving := make(chan error, 1)
	go func() { serving <- s.Serve(ln) }()
	resp, err := http.Post("http://"+ln.Addr().String(), "", strings.NewReader("long"))
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	_ = s.Close()
	_ = testwait.Receive(t, serving)
	testwait.Return(t, conns)
	select {
	case <-ended:
	default:
		t.Error("the connection has not ended")
	}
	http.DefaultClient.CloseIdleConnections()
}

func ExampleReceive() {
	t := &record{} // in a test it is the test's
	answers := make(chan string, 1)
	answers <- "answer"
	fmt.Println(testwait.Receive(t, answers) == "answer")
	// Output: true
}
