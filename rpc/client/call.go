package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
)

// Call is a call that a client makes. It keeps its memory, so that calls which use one Call again and again do not allocate. It is used for one call at a
// time, and not copied.
type Call struct {
	rpc.Request
	// Key chooses the server with the policy [balance.ByKey]. All calls without a key have the same server.
	Key string
	// Idempotent says that the method may be carried out twice. Then the call is made again also if it may have been carried out already: when its
	// connection was lost.
	Idempotent bool

	avoid    []*balance.Target // servers that are not chosen if there are others; the first ones are those of the attempts, in their order
	attempts int               // how often the call was sent
	begun    bool              // a handler may have begun, in an attempt that has failed
	until    time.Time         // when the call gives up waiting for a server; zero if it has not waited
}

var calls = sync.Pool{New: func() any { return new(Call) }}

// Reset empties the call and keeps its memory, as that of a Request does.
func (call *Call) Reset() {
	call.Request.Reset()
	call.Key, call.Idempotent = "", false
	call.forget()
}

// forget resets what belongs to the last Do.
func (call *Call) forget() {
	clear(call.avoid)
	call.avoid, call.attempts, call.begun, call.until = call.avoid[:0], 0, false, time.Time{}
}

// Attempts returns how often the last call was sent.
func (call *Call) Attempts() int { return call.attempts }

// Call calls a method that may not be carried out twice, and waits for its answer. See [Client.Do].
func (c *Client) Call(ctx context.Context, method string, in, out any) error {
	call := calls.Get().(*Call) //nolint:forcetypeassert // the pool has nothing else
	call.Method = method
	err := c.Do(ctx, call, in, out)
	call.Reset()
	calls.Put(call)
	return err
}

// Send calls a method that is not answered. That there is no error means that the call was sent, or will be, not that it was handled.
func (c *Client) Send(ctx context.Context, method string, in any) error {
	call := &Call{}
	call.Method, call.OneWay = method, true
	return c.Do(ctx, call, in, nil)
}

// Do makes a call: it chooses a server, sends the call, and waits for the answer, until ctx is done. in is the argument, and out is set to the result;
// both are in the form of the call, or of the connections. The call may be used again when Do has returned, and not earlier.
//
// A call that was refused before its handler began is made again at another server, as often as Options.MaxAttempts and Options.Budget allow. An
// idempotent call whose connection was lost, or whose server has canceled it, is made again, too. A call that was not sent because the connection
// is about to close is made over another one, in any case. All attempts have the deadline of ctx.
//
// Errors are those of [rpc.Conn.Do]. Errors of the method are returned as they are; to the others is added how often the call was sent, and where. Without
// a server that is connected, the code is [rpc.Unavailable], or that of ctx if it was done first.
func (c *Client) Do(ctx context.Context, call *Call, in, out any) error {
	c.options.Budget.Call()
	call.forget()
	for {
		to, err := c.pick(ctx, call)
		if err != nil {
			return c.describe(call, err)
		}
		err = to.attempt(ctx, call, in, out)
		if isUnsent(to.conn, err) {
			c.lose(to.conn)
			continue
		}
		call.attempts++
		if err == nil {
			return nil
		}
		call.avoid = append(call.avoid[:call.attempts-1], to.Target)
		if !c.mayRepeat(ctx, call, err) {
			return c.describe(call, err)
		}
		c.counts.retries.Add(1)
	}
}

// choice is the server of an attempt, and a connection to it; nil if there is none.
type choice struct {
	balance.Choice
	conn *rpc.Conn
}

// attempt sends a call, and reports the result to the balancer.
func (to choice) attempt(ctx context.Context, call *Call, in, out any) (err error) {
	result := balance.Ignored // if a form panics
	defer func() { to.Done(time.Now(), result) }()
	err = to.conn.Do(ctx, &call.Request, in, out)
	result = resultOf(call, err)
	return err
}

// resultOf returns what the end of a call says about its server. An error of the method says that the server works. An error that was made
// here says nothing, unless the answer did not come.
func resultOf(call *Call, err error) balance.Result {
	if err == nil {
		if call.OneWay {
			return balance.Ignored
		}
		return balance.OK
	}
	var e *rpc.Error
	if !errors.As(err, &e) {
		return balance.Ignored // of an interceptor
	}
	switch {
	case e.Code == rpc.Canceled:
		return balance.Ignored
	case e.Code == rpc.DeadlineExceeded, e.Code == rpc.Lost && !e.Remote, rpc.Refused(err) && e.Remote:
		return balance.Failed
	case e.Remote:
		return balance.OK
	}
	return balance.Ignored
}

// isUnsent reports whether a call was not sent because its connection is about to close, or has closed.
func isUnsent(conn *rpc.Conn, err error) bool {
	if err == nil {
		return false
	}
	var e *rpc.Error
	return errors.As(err, &e) && e.Code == rpc.Unavailable && !e.Remote && !conn.Usable()
}

// mayRepeat reports whether a call that has failed is made again.
func (c *Client) mayRepeat(ctx context.Context, call *Call, err error) bool {
	var e *rpc.Error
	if call.attempts >= c.options.MaxAttempts || ctx.Err() != nil || !errors.As(err, &e) {
		return false
	}
	switch {
	case rpc.Refused(err) && !c.hasMoreThan(call.attempts):
		return false // the same server would refuse it again
	case rpc.Refused(err) && !e.Remote:
		return true // nothing was sent, so the servers need no budget
	case rpc.Refused(err):
	case call.Idempotent && (e.Code == rpc.Lost || e.Code == rpc.Canceled && e.Remote): // a server that is closed cancels its calls
		call.begun = true
	default:
		return false
	}
	if c.options.Budget.Retry(time.Now()) {
		return true
	}
	c.counts.exhausted.Add(1)
	return false
}

// hasMoreThan reports whether more than n servers are connected.
func (c *Client) hasMoreThan(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected > n
}

// describe adds to an error how often the call was sent, and where. Errors of the method stay as they are.
func (c *Client) describe(call *Call, err error) error {
	var e *rpc.Error
	if !errors.As(err, &e) || call.attempts == 0 || e.Remote && !rpc.Refused(err) && e.Code != rpc.Canceled {
		return err
	}
	servers := make([]string, call.attempts)
	for i, t := range call.avoid[:call.attempts] {
		servers[i] = t.Endpoint.Address
	}
	attempts := "attempt"
	if call.attempts > 1 {
		attempts = "attempts"
	}
	code := e.Code
	if call.begun && rpc.Refused(err) {
		code = rpc.Lost // of the first attempts; rpc.Refused must not report true
	}
	out := rpc.Errorf(code, "%s of %s has failed after %d %s, at %s: %w", call.Method, c.service, call.attempts, attempts, strings.Join(servers, ", "), inner{err, code})
	out.Remote = e.Remote && code == e.Code
	return out
}

// inner is an error inside an *rpc.Error with a code. If it is an *rpc.Error too, its text has no prefix, and no code if that is the same.
type inner struct {
	error

	code rpc.Code
}

// Error returns the text.
func (i inner) Error() string {
	e, ok := i.error.(*rpc.Error) //nolint:errorlint // if e is wrapped, its text is a part only
	if !ok || e.Code != i.code || e.Message == "" {
		return i.error.Error()
	}
	return e.Message
}

// Unwrap returns the error itself.
func (i inner) Unwrap() error { return i.error }

// pick chooses a server for a call, and a connection to it. While there is none, it waits.
func (c *Client) pick(ctx context.Context, call *Call) (choice, error) {
	if err := ctx.Err(); err != nil {
		return choice{}, contextError(ctx, "")
	}
	if to := c.pickConnected(call); to.conn != nil {
		return to, nil
	}
	c.counts.waits.Add(1)
	now := time.Now()
	if call.until.IsZero() {
		call.until = now.Add(c.options.WaitTimeout)
	}
	timer := time.NewTimer(call.until.Sub(now))
	defer timer.Stop()
	for {
		c.mu.Lock()
		changed, closed, hopeless := c.changed, c.closed, c.hopelessLocked()
		c.mu.Unlock()
		if closed {
			return choice{}, rpc.Errorf(rpc.Unavailable, "%s of %s was not sent: %w", call.Method, c.service, ErrClosed)
		}
		call.avoid = call.avoid[:call.attempts]
		if to := c.pickConnected(call); to.conn != nil {
			return to, nil
		}
		if hopeless != nil {
			return choice{}, rpc.Errorf(rpc.Unavailable, "the servers of %s are not known: %w", c.service, hopeless)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return choice{}, contextError(ctx, c.state())
		case <-timer.C:
			return choice{}, rpc.Errorf(rpc.Unavailable, "%s", c.state())
		}
	}
}

// contextError returns the error of a call whose context was done before it was sent.
func contextError(ctx context.Context, state string) error {
	if state == "" {
		return rpc.Errorf(rpc.CodeOf(ctx.Err()), "%w", context.Cause(ctx))
	}
	return rpc.Errorf(rpc.CodeOf(ctx.Err()), "%s: %w", state, context.Cause(ctx))
}

// pickConnected chooses a server that has a connection, if there is one now.
func (c *Client) pickConnected(call *Call) choice {
	for {
		picked, err := c.balancer.Pick(time.Now(), balance.Call{Key: call.Key, Avoid: call.avoid})
		if err != nil {
			return choice{}
		}
		if s := (*c.table.Load())[picked.Endpoint.Address]; s != nil {
			if conn := s.conn(); conn != nil {
				return choice{picked, conn}
			}
		}
		picked.Done(time.Now(), balance.Ignored) // publish has yet to tell the balancer that the server is not connected
		if slices.Contains(call.avoid[call.attempts:], picked.Target) {
			return choice{}
		}
		call.avoid = append(call.avoid, picked.Target)
	}
}
