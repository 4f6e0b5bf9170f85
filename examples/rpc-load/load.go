package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/examples/internal/echo"
	"github.com/sluice-push/sluice/examples/internal/latency"
	"github.com/sluice-push/sluice/examples/internal/registry"
	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/client"
	"github.com/sluice-push/sluice/rpc/frame"
)

const (
	maxSize = 4 << 20          // of a text
	dialing = 5 * time.Second  // for each connection
	finding = 10 * time.Second // until the registry has said which servers there are, and one is connected
)

var framings = map[string]frame.Framing{
	"ttheader": frame.TTHeader, "theader": frame.THeader, "framed": frame.Framed, "unframed": frame.Unframed,
}

// errWrong is the error of a call whose answer is another text than its own.
var errWrong = errors.New("the answer has another text than the call")

// load is a number of callers that share connections.
type load struct {
	*settings
	callees []callee // each is for some of the callers
	close   func()   // ends the connections
	body    func(text string) echo.Body

	begun   atomic.Uint64 // calls that were made, or are about to be
	latency latency.Histogram
	failed  atomic.Uint64

	mu    sync.Mutex // guards first
	first error      // of the first call that failed
}

// newLoad connects to the server.
func newLoad(ctx context.Context, s *settings) (*load, error) {
	form, body, err := echo.Form(s.form)
	if err != nil {
		return nil, fmt.Errorf("-form: %w", err)
	}
	framing, ok := framings[s.framing]
	switch {
	case !ok:
		return nil, fmt.Errorf("-framing: there is no %q", s.framing)
	case framing != frame.TTHeader && !strings.HasPrefix(s.form, "thrift"):
		return nil, fmt.Errorf("-framing: %s is for the forms of thrift, and -form is %s", s.framing, s.form)
	}
	l := &load{settings: s, body: body}
	o := &rpc.ConnOptions{Form: form, Framing: framing, MaxCalls: s.callers + 1}
	if s.registry != "" {
		return l, l.find(ctx, o)
	}
	return l, l.dial(ctx, o)
}

// callee is whom calls are made to.
type callee struct {
	do     func(ctx context.Context, call *client.Call, in, out any) error
	usable func() bool // or every other call fails, too
}

// dial connects to a server.
func (l *load) dial(ctx context.Context, o *rpc.ConnOptions) error {
	var conns []*rpc.Conn
	l.close = func() {
		for _, c := range conns {
			_ = c.Close() // no call is under way
		}
	}
	to := discovery.Endpoint{Address: l.addr}
	network, address := to.Network()
	for range l.conns {
		dial, cancel := context.WithTimeout(ctx, dialing)
		conn, err := rpc.Dial(dial, network, address, o)
		cancel()
		if err != nil {
			l.close()
			return err
		}
		conns = append(conns, conn)
		do := func(ctx context.Context, call *client.Call, in, out any) error {
			return conn.Do(ctx, &call.Request, in, out)
		}
		l.callees = append(l.callees, callee{do, conn.Usable})
	}
	return nil
}

// find connects to the servers that a registry knows, and to those that it will know.
func (l *load) find(ctx context.Context, o *rpc.ConnOptions) error {
	r, closeRegistry, err := registry.Open(l.registry)
	if err != nil {
		return fmt.Errorf("-registry: %w", err)
	}
	c := client.New(discovery.NewSteady(r, nil), echo.Service, &client.Options{Conn: o, Conns: l.conns})
	l.close = func() {
		_ = c.Close()
		_ = closeRegistry()
	}
	ctx, cancel := context.WithTimeout(ctx, finding)
	defer cancel()
	if err := c.Wait(ctx, 1); err != nil {
		l.close()
		return err
	}
	l.callees = []callee{{c.Do, func() bool { return true }}}
	return nil
}

// run makes the calls, until all are made or ctx is done, and says how it goes. The error says how many failed, and why the first did.
func (l *load) run(ctx context.Context) error {
	var callers, reporter sync.WaitGroup
	start := time.Now()
	done := make(chan struct{})
	reporter.Go(func() { l.report(start, done) })
	for i := range l.callers {
		callers.Go(func() { l.calling(ctx, i) })
	}
	callers.Wait()
	took := time.Since(start)
	close(done)
	reporter.Wait()
	run.Say("in all %s", l.line(l.latency.Read(), took))
	if n := l.failed.Load(); n > 0 {
		return fmt.Errorf("%d calls failed, the first: %w", n, l.first)
	}
	return nil
}

// calling is one caller: it makes one call after the other. A call, its argument and its answer use the same memory again and again.
func (l *load) calling(ctx context.Context, number int) {
	text := fmt.Sprintf("caller %d ", number)
	text = (text + strings.Repeat("x", max(l.size-len(text), 0)))[:l.size]
	body, to := l.body(text), l.callees[number%len(l.callees)]
	call := &client.Call{Request: rpc.Request{Method: echo.Method}, Idempotent: true}
	for ctx.Err() == nil {
		if n := l.begun.Add(1); l.calls > 0 && n > l.calls {
			return
		}
		began := time.Now()
		err := l.call(to, call, body, text)
		l.latency.Add(time.Since(began))
		if err != nil {
			l.fail(err)
			if !to.usable() {
				return
			}
		}
	}
}

// call makes a call. Its deadline is its own: a load that ends waits for its answer.
func (l *load) call(to callee, call *client.Call, body echo.Body, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	if err := to.do(ctx, call, body.In, body.Out); err != nil {
		return err
	}
	if body.Text() != text {
		return errWrong
	}
	return nil
}

func (l *load) fail(err error) {
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = err
	}
}

// report says how it goes, until done is closed.
func (l *load) report(start time.Time, done <-chan struct{}) {
	ticker := time.NewTicker(l.interval)
	defer ticker.Stop()
	before, at := l.latency.Read(), start
	for {
		select {
		case <-done:
			return
		case now := <-ticker.C:
			after := l.latency.Read()
			run.Say("%s", l.line(after.Since(before), now.Sub(at)))
			before, at = after, now
		}
	}
}

// line is one line of the report: what was counted in a time.
func (l *load) line(r *latency.Reading, d time.Duration) string {
	return fmt.Sprintf("%.0f calls/s, p50 %s, p99 %s, p99.9 %s, %d calls, %d errors", float64(r.Total)/d.Seconds(), latency.Short(r.Quantile(0.5)),
		latency.Short(r.Quantile(0.99)), latency.Short(r.Quantile(0.999)), r.Total, l.failed.Load())
}
