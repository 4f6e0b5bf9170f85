package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
	"github.com/sluice-push/sluice/rpc/client"
	"github.com/sluice-push/sluice/rpc/frame"
)

// A server is killed under load: idempotent calls all succeed, and the others succeed or end with an error that says that they may have run.
func TestKilled(t *testing.T) {
	var registry discovery.Memory
	newPlace(t, &registry)
	newPlace(t, &registry)
	c := newClient(t, &registry, &client.Options{Budget: rich()})
	for range 5 {
		p := newPlace(t, &registry)
		connected(t, c, 3)
		repeated, once := newLoad(c, 8, true), newLoad(c, 8, false)
		repeated.more(t, p.address)
		once.more(t, p.address)
		p.kill()
		repeated.more(t, "")
		once.more(t, "")
		for _, err := range repeated.stop(t) {
			t.Error("idempotent:", err)
		}
		lost := once.stop(t)
		for _, err := range lost {
			if code := rpc.CodeOf(err); code != rpc.Lost && code != rpc.Canceled || !strings.Contains(err.Error(), "1 attempt, at "+p.address) ||
				strings.Count(err.Error(), "rpc:") != 1 || strings.Count(err.Error(), "(code") != 1 {
				t.Error(err)
			}
		}
		p.leave()
		t.Logf("%d and %d calls; %d that must not be made again were lost", repeated.of(""), once.of(""), len(lost))
	}
}

// Servers that are shut down under load lose no call, whether they leave the registry before that or not, and also if there is only one at a time.
func TestDrained(t *testing.T) {
	for name, test := range map[string]struct{ others, leaves bool }{
		"leaves": {others: true, leaves: true}, "stays": {others: true}, "alone": {leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			var registry discovery.Memory
			if test.others {
				newPlace(t, &registry)
			}
			c := newClient(t, &registry, nil)
			old := newPlace(t, &registry)
			l := newLoad(c, 20, false)
			for range 10 {
				l.more(t, old.address)
				if test.leaves {
					old.leave()
				}
				old.shutdown()
				if !test.leaves {
					old.leave()
				}
				old = newPlace(t, &registry)
			}
			for _, err := range l.stop(t) {
				t.Error(err)
			}
			t.Logf("%d calls, %+v", l.of(""), c.Stats())
		})
	}
}

// Retries are bounded by MaxAttempts and by the budget.
func TestBudget(t *testing.T) {
	for name, test := range map[string]struct {
		budget            *balance.Budget
		most, want, calls int
	}{
		"rich":           {budget: rich(), want: 3},
		"fewer attempts": {budget: rich(), most: 2, want: 2},
		"more attempts":  {budget: rich(), most: 5, want: 3}, // there are three servers
		"no retries":     {budget: rich(), most: -1, want: 1},
		"without budget": {budget: balance.NewBudget(0, 0), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var registry discovery.Memory
			var places []*place
			for range 3 {
				p := newPlace(t, &registry)
				p.overload("Ask")
				places = append(places, p)
			}
			c := newClient(t, &registry, &client.Options{
				MaxAttempts: test.most, Budget: test.budget, Balance: &balance.Options{Ejection: &balance.Ejection{Failures: -1, Rate: -1}},
			})
			connected(t, c, 3)
			call := &client.Call{Idempotent: true}
			const calls = 20
			for range calls {
				_, err := ask(c, call, "Ask", "a")
				if rpc.CodeOf(err) != rpc.Overloaded || !rpc.Refused(err) || call.Attempts() != test.want {
					t.Errorf("after %d attempts: %v", call.Attempts(), err)
				}
				for _, p := range places {
					if n := strings.Count(err.Error(), p.address); test.want == 3 && n != 1 {
						t.Errorf("%s is named %d times: %v", p.address, n, err)
					}
				}
			}
			sent := 0
			for _, p := range places {
				sent += p.calls()
			}
			if sent != calls*test.want {
				t.Errorf("%d calls were sent, want %d", sent, calls*test.want)
			}
			if s := c.Stats(); int(s.Retries) != calls*(test.want-1) || (s.Exhausted > 0) != (name == "without budget") {
				t.Errorf("%+v", s)
			}
		})
	}
}

// With the default budget, a service that fails as a whole gets hardly more calls than it is asked.
func TestNoStorm(t *testing.T) {
	var registry discovery.Memory
	one, two := newPlace(t, &registry), newPlace(t, &registry)
	one.overload("Ask")
	two.overload("Ask")
	c := newClient(t, &registry, &client.Options{Budget: balance.NewBudget(0.1, 0)})
	connected(t, c, 2)
	call := &client.Call{}
	const calls = 1000
	for range calls {
		if _, err := ask(c, call, "Ask", "a"); rpc.CodeOf(err) != rpc.Overloaded {
			t.Fatal(err)
		}
	}
	if n := one.calls() + two.calls(); n < calls+calls/20 || n > calls+calls/10+1 {
		t.Errorf("%d calls are %d attempts", calls, n)
	}
}

// A call that is about to be sent when its server begins to stop is sent to another one, although it may not be made again, there is no budget, and there
// may be one attempt only.
func TestUnsent(t *testing.T) {
	var registry discovery.Memory
	old := newPlace(t, &registry)
	arrived, goOn, unusable := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 10)
	first := true // of the only caller
	c := newClient(t, &registry, &client.Options{MaxAttempts: -1, Budget: balance.NewBudget(0, 0), Conn: &rpc.ConnOptions{
		Unusable: func(*rpc.Conn) { unusable <- struct{}{} },
		Interceptors: []rpc.ClientInterceptor{func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			if first {
				first = false
				arrived <- struct{}{}
				testwait.Hold(t, goOn)
			}
			return next(ctx, r, in, out)
		}},
	}})
	connected(t, c, 1)
	call := &client.Call{}
	done := start(c, call, "Echo")
	testwait.Receive(t, arrived)
	old.shutdown()
	testwait.Receive(t, unusable)
	old.leave()
	close(goOn)
	testwait.True(t, "the call waits for a server", func() bool { return c.Stats().Waits == 1 })
	fresh := newPlace(t, &registry)
	if err := testwait.Receive(t, done); err != nil || call.Attempts() != 1 || fresh.calls() != 1 || old.calls() != 0 {
		t.Errorf("after %d attempts: %v", call.Attempts(), err)
	}
}

// A call whose server is killed is made again only if it is idempotent.
func TestLost(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		var registry discovery.Memory
		dies := newPlace(t, &registry)
		c := newClient(t, &registry, &client.Options{Budget: rich()})
		connected(t, c, 1)
		call := &client.Call{Idempotent: idempotent}
		done := start(c, call, "Wait")
		testwait.Receive(t, dies.began)
		other := newPlace(t, &registry)
		connected(t, c, 2)
		dies.leave()
		dies.kill()
		if idempotent {
			testwait.Receive(t, other.began)
			testwait.Send(t, other.release, struct{}{})
		}
		err := testwait.Receive(t, done)
		if idempotent && (err != nil || call.Attempts() != 2) {
			t.Errorf("after %d attempts: %v", call.Attempts(), err)
		}
		if code := rpc.CodeOf(err); !idempotent && (code != rpc.Lost && code != rpc.Canceled || call.Attempts() != 1 || other.calls() != 0) {
			t.Errorf("after %d attempts: %v", call.Attempts(), err)
		}
	}
}

// An attempt that may have run makes the call's error one that does not say the contrary.
func TestBegunThenRefused(t *testing.T) {
	var registry discovery.Memory
	dies := newPlace(t, &registry)
	c := newClient(t, &registry, &client.Options{Budget: rich()})
	connected(t, c, 1)
	call := &client.Call{Idempotent: true}
	done := start(c, call, "Wait")
	testwait.Receive(t, dies.began)
	refuses := newPlaceWith(t, &registry, discovery.Endpoint{}, &rpc.Options{MaxAllCalls: 1})
	connected(t, c, 2)
	full, err := rpc.Dial(testwait.Context(t), "tcp", refuses.address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	go func() { _ = full.Call(testwait.Context(t), "Wait", &text{}, nil) }()
	testwait.Receive(t, refuses.began)
	dies.leave()
	dies.kill()
	err = testwait.Receive(t, done)
	if rpc.CodeOf(err) != rpc.Lost || rpc.Refused(err) || call.Attempts() != 2 || !strings.Contains(err.Error(), refuses.address) {
		t.Error(call.Attempts(), err)
	}
}

// Errors of the method are returned as they are, and are no reason for another attempt.
func TestErrorsOfMethods(t *testing.T) {
	var registry discovery.Memory
	one, two := newPlace(t, &registry), newPlace(t, &registry)
	c := newClient(t, &registry, nil)
	connected(t, c, 2)
	call := &client.Call{Idempotent: true}
	for method, want := range map[string]rpc.Error{
		"Fail": {Code: 30_000, Message: "a"}, "None": {Code: rpc.UnknownMethod, Message: `there is no method "None"`},
	} {
		_, err := ask(c, call, method, "a")
		var e *rpc.Error
		if !errors.As(err, &e) || e.Code != want.Code || e.Message != want.Message || !e.Remote || call.Attempts() != 1 {
			t.Errorf("%s: %+v", method, err)
		}
	}
	for range 50 {
		_, _ = ask(c, call, "Fail", "a")
	}
	if s := c.Servers(); s[0].Ejected || s[1].Ejected || one.calls()+two.calls() != 52 {
		t.Errorf("%+v, %d and %d calls", s, one.calls(), two.calls())
	}
}

// The deadline is that of all attempts, and travels to the server.
func TestDeadline(t *testing.T) {
	var registry discovery.Memory
	p := newPlace(t, &registry)
	c := newClient(t, &registry, &client.Options{Budget: rich(), MaxAttempts: 100})
	connected(t, c, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := askWith(ctx, c, &client.Call{Idempotent: true}, "Wait", "a")
	if !errors.Is(err, context.DeadlineExceeded) || rpc.CodeOf(err) != rpc.DeadlineExceeded {
		t.Error(err)
	}
	if len(p.began) > 0 {
		if _, ok := (<-p.began).Context().Deadline(); !ok {
			t.Error("the handler has no deadline")
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		testwait.Hold(t, p.began)
		cancel()
	}()
	if _, err := askWith(ctx, c, &client.Call{Idempotent: true}, "Wait", "a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A call that finds its connection full is not lost: there may be another one.
func TestFullConnection(t *testing.T) {
	var registry discovery.Memory
	full := newPlace(t, &registry)
	c := newClient(t, &registry, &client.Options{Conn: &rpc.ConnOptions{MaxCalls: 1}, Budget: balance.NewBudget(0, 0)})
	connected(t, c, 1)
	done := start(c, &client.Call{}, "Wait")
	testwait.Receive(t, full.began)
	if _, err := ask(c, &client.Call{}, "Echo", "a"); rpc.CodeOf(err) != rpc.Overloaded || !strings.Contains(err.Error(), "1 attempt") {
		t.Error(err)
	}
	free := newPlace(t, &registry)
	connected(t, c, 2)
	for range 20 {
		if server, err := ask(c, &client.Call{}, "Echo", "a"); err != nil || server != free.address {
			t.Error(server, err)
		}
	}
	testwait.Send(t, full.release, struct{}{})
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
}

// Calls without an answer.
func TestSend(t *testing.T) {
	var registry discovery.Memory
	p := newPlace(t, &registry)
	got := make(chan string, 1)
	rpc.Handle(p.server, "Note", func(_ context.Context, in *text) (*text, error) {
		got <- in.Text
		return in, nil
	})
	c := newClient(t, &registry, nil)
	if err := c.Send(testwait.Context(t), "Note", &text{Text: "a"}); err != nil {
		t.Error(err)
	}
	if s := testwait.Receive(t, got); s != "a" {
		t.Error(s)
	}
}

// Close ends calls that are under way, and calls that wait.
func TestClose(t *testing.T) {
	var registry, none discovery.Memory
	p := newPlace(t, &registry)
	busy, waiting := newClient(t, &registry, nil), newClient(t, &none, nil)
	underway := start(busy, &client.Call{Idempotent: true}, "Wait")
	testwait.Receive(t, p.began)
	waits := start(waiting, &client.Call{}, "Echo")
	testwait.True(t, "the call waits", func() bool { return waiting.Stats().Waits == 1 })
	for _, c := range []*client.Client{busy, waiting, busy} {
		testwait.Return(t, func() { _ = c.Close() })
		if _, err := ask(c, &client.Call{}, "Echo", "a"); !errors.Is(err, client.ErrClosed) || !errors.Is(err, net.ErrClosed) || !rpc.Refused(err) {
			t.Error(err)
		}
		if err := c.Wait(testwait.Context(t), 0); !errors.Is(err, client.ErrClosed) {
			t.Error(err)
		}
	}
	if err := testwait.Receive(t, underway); rpc.CodeOf(err) != rpc.Lost || rpc.Refused(err) {
		t.Error(err)
	}
	if err := testwait.Receive(t, waits); rpc.CodeOf(err) != rpc.Unavailable || !errors.Is(err, client.ErrClosed) {
		t.Error(err)
	}
	testwait.True(t, "the connection has ended", func() bool { return p.server.Stats().Conns == 0 })
}

// Shutdown waits for calls that were sent, but no longer than its context allows.
func TestShutdown(t *testing.T) {
	for _, patient := range []bool{true, false} {
		var registry discovery.Memory
		p := newPlace(t, &registry)
		c := newClient(t, &registry, nil)
		done := start(c, &client.Call{}, "Wait")
		testwait.Receive(t, p.began)
		ctx, cancel := context.WithCancel(testwait.Context(t))
		ended := make(chan error, 1)
		go func() { ended <- c.Shutdown(ctx) }()
		testwait.True(t, "there are no new calls", func() bool {
			_, err := ask(c, &client.Call{}, "Echo", "a")
			return errors.Is(err, client.ErrClosed)
		})
		if patient {
			testwait.Send(t, p.release, struct{}{})
			if err := testwait.Receive(t, done); err != nil {
				t.Error(err)
			}
			if err := testwait.Receive(t, ended); err != nil {
				t.Error(err)
			}
		} else {
			cancel()
			if err := testwait.Receive(t, ended); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if err := testwait.Receive(t, done); rpc.CodeOf(err) != rpc.Lost {
				t.Error(err)
			}
		}
		cancel()
	}
}

// panics is a form that panics.
type panics struct{}

func (panics) Protocol() frame.Protocol                 { return frame.Bare }
func (panics) Append(dst []byte, _ any) ([]byte, error) { panic("no") }
func (panics) Parse([]byte, any) error                  { return nil }

// A form that panics leaves no call behind, and says nothing against the server.
func TestPanic(t *testing.T) {
	var registry discovery.Memory
	newPlace(t, &registry)
	c := newClient(t, &registry, nil)
	connected(t, c, 1)
	for range 10 {
		func() {
			defer func() { _ = recover() }()
			call := &client.Call{}
			call.Form = panics{}
			_, err := ask(c, call, "Echo", "a")
			t.Error("it has returned:", err)
		}()
	}
	if s := c.Servers()[0]; s.Ejected || s.Pending != 0 || c.Chosen() != 0 {
		t.Errorf("%+v, %d chosen", s, c.Chosen())
	}
}

// An interceptor may fail because another client is closed. That says nothing about the connection, which stays, and the call fails.
func TestInterceptorWithClosedClient(t *testing.T) {
	var registry discovery.Memory
	newPlace(t, &registry)
	other := newClient(t, &registry, nil)
	_ = other.Close()
	c := newClient(t, &registry, &client.Options{Conn: &rpc.ConnOptions{
		Interceptors: []rpc.ClientInterceptor{func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			if r.Method == "Wait" {
				return other.Call(ctx, "Echo", in, out)
			}
			return next(ctx, r, in, out)
		}},
	}})
	connected(t, c, 1)
	call := &client.Call{}
	_, err := ask(c, call, "Wait", "a")
	if rpc.CodeOf(err) != rpc.Unavailable || call.Attempts() != 1 {
		t.Errorf("after %d attempts: %v", call.Attempts(), err)
	}
	if n := c.Stats().Dials; n != 1 {
		t.Errorf("%d connections were made", n)
	}
}
