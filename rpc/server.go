package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

// Options are the settings of a [Server]. For every number and duration, zero is the default and negative means no bound.
type Options struct {
	// Frame are the limits of frames, in both directions; nil is all defaults.
	Frame *frame.Options
	// MaxCalls bounds the calls under way on one connection; default 16,384. MaxAllCalls bounds those of all connections; default 65,536. MaxBytes
	// bounds the bodies and the metadata of the calls under way on one connection, in bytes; default 16 MiB. Calls beyond a bound are answered with
	// [Overloaded], and one-way calls are dropped. While answers wait for a client to read them, a connection may have twice as much. The answers that
	// wait have at most four times MaxBytes, or are one; in place of others, Overloaded is sent, although the handler has run.
	MaxCalls, MaxAllCalls, MaxBytes int
	// MaxUnproven bounds the unproven connections: those of which no call was successful yet. When there is one more, the oldest of them is ended. An
	// unproven connection may send frames of up to 64 KiB. It is for servers with an interceptor that refuses callers: such callers hold few
	// connections and little memory then. The first call of a client should be a short one. By default there is no bound.
	MaxUnproven int
	// Executor runs the handlers; by default each has a goroutine while it runs. A handler of a stream runs as long as the stream lasts. The key of
	// a task is the number of its connection. If it takes no more, calls are answered with [Overloaded]. Calls that are handled inline, or in
	// order, do not use it.
	Executor session.Executor
	// Interceptors run around every handler, the first one outermost.
	Interceptors []Interceptor
	// DrainGrace is for how long a connection has to be silent during Shutdown before the server ends it; default 1 s. It should be longer than a
	// call may be on its way. Clients that know how to drain, as those of this package do, end their connections earlier.
	DrainGrace time.Duration
	// Session are the settings of connections; nil is all defaults. MaxMessage is raised to the largest frame, Executor is not used, and Policy is
	// [session.Wait] unless it is [session.CloseSlow].
	Session *session.Options
	// Logger gets panics of handlers and broken connections; nil discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.MaxCalls = bound(out.MaxCalls, 16_384)
	out.MaxAllCalls = bound(out.MaxAllCalls, 65_536)
	out.MaxBytes = bound(out.MaxBytes, 16<<20)
	out.MaxUnproven = max(out.MaxUnproven, 0)
	if out.DrainGrace == 0 {
		out.DrainGrace = time.Second
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

const noBound = 1 << 30

// bound returns a number of the options.
func bound(n, standard int) int {
	switch {
	case n == 0:
		return standard
	case n < 0 || n > noBound:
		return noBound
	}
	return n
}

// frameBytes returns the largest frame that options allow, in bytes.
func frameBytes(o *frame.Options) int {
	if o == nil {
		return bound(0, 4<<20)
	}
	return bound(o.MaxFrame, 4<<20)
}

// sessionOptions returns the settings of connections whose frames have the limits of f.
func sessionOptions(o *session.Options, f *frame.Options) *session.Options {
	var out session.Options
	if o != nil {
		out = *o
	}
	out.MaxMessage, out.Executor = max(out.MaxMessage, frameBytes(f)), nil
	if out.Policy != session.CloseSlow {
		out.Policy = session.Wait // the others drop answers
	}
	return &out
}

// Method is how calls of a method are handled: by Func, which gives one answer, or by Stream.
type Method struct {
	// Protocol is that of the messages which Func or Stream understands.
	Protocol frame.Protocol
	Func     Func
	Stream   StreamFunc
	// Inline has Func run where the connection is read, without a goroutine of its own. It is for functions that do not wait: while one runs, no
	// other call of its connection begins. A Stream cannot be inline.
	Inline bool
}

// MethodOf returns a method whose arguments and results have a form. The handler must not keep in.
func MethodOf[In, Out any](form Form, handler func(ctx context.Context, in *In) (*Out, error)) Method {
	return Method{Protocol: form.Protocol(), Func: func(ctx context.Context, c *Call, dst []byte) ([]byte, error) {
		in := new(In)
		if err := form.Parse(c.Body(), in); err != nil {
			return dst, Errorf(BadMessage, "the arguments of %s: %w", c.Method(), err)
		}
		out, err := handler(ctx, in)
		if err != nil || c.IsOneWay() {
			return dst, err
		}
		if dst, err = form.Append(c.answerMemory(dst), out); err != nil {
			return dst, Errorf(Internal, "the result of %s: %w", c.Method(), err)
		}
		return dst, nil
	}}
}

// Handle has a server handle calls of a method whose arguments and results are JSON. See [Server.Handle] and [MethodOf] for other forms.
func Handle[In, Out any](s *Server, name string, handler func(ctx context.Context, in *In) (*Out, error)) {
	s.Handle(name, MethodOf(JSON, handler))
}

// method is a Method and its name.
type method struct {
	Method
	name string
	run  Func // Func or Stream, with the interceptors around it

	answered atomic.Int64 // bytes of the last answer
}

// Server handles calls. All methods may be called concurrently.
type Server struct {
	options  Options
	sessions *session.Server
	calls    atomic.Int64  // under way
	closing  atomic.Bool   // all calls are canceled
	stopping chan struct{} // closed by stop, when Shutdown or Close begins
	stop     func()
	running  sync.WaitGroup
	counts   counts
	unproven unproven

	mu      sync.Mutex
	methods map[string]*[frame.Bare + 1]*method // by protocol
	conns   map[*serverConn]struct{}
}

// NewServer returns a server without methods. Nil options are all defaults.
func NewServer(o *Options) *Server {
	srv := &Server{options: o.withDefaults(), methods: map[string]*[frame.Bare + 1]*method{}, conns: map[*serverConn]struct{}{}, stopping: make(chan struct{})}
	srv.unproven.most = srv.options.MaxUnproven
	srv.stop = sync.OnceFunc(func() { close(srv.stopping) })
	srv.sessions = session.NewServer(nil, &session.Handler{
		Open: srv.open,
		Message: func(s *session.Session, body []byte) {
			s.Value().(*serverConn).message(body) //nolint:forcetypeassert // Open has set it
		},
		Drain: func(s *session.Session) {
			if c, ok := s.Value().(*serverConn); ok {
				c.drain()
			}
		},
		Close: func(s *session.Session, info *session.CloseInfo) {
			if c, ok := s.Value().(*serverConn); ok {
				c.close(info)
			}
		},
	}, sessionOptions(srv.options.Session, srv.options.Frame))
	return srv
}

// Handle has calls of a method with the method's protocol handled. A method may be handled in several protocols, each with one call of Handle, also
// while the server runs. Handle panics if the name is empty, if there is no such protocol, if the method has a handler for it already, if it has no
// function or two, or if it has an inline Stream.
func (srv *Server) Handle(name string, m Method) {
	switch {
	case name == "":
		panic("rpc: a method needs a name")
	case m.Func == nil && m.Stream == nil:
		panic("rpc: the method " + name + " has no function")
	case m.Func != nil && m.Stream != nil:
		panic("rpc: the method " + name + " has both a Func and a Stream")
	case m.Stream != nil && m.Inline:
		panic("rpc: the method " + name + " has a Stream, which cannot be inline")
	case m.Protocol < frame.Binary || m.Protocol > frame.Bare:
		panic(fmt.Sprintf("rpc: the method %s has the protocol %d, which does not exist", name, m.Protocol))
	}
	one := &method{Method: m, name: name, run: m.Func}
	if m.Stream != nil {
		one.run = m.Stream.asFunc()
	}
	for i := len(srv.options.Interceptors) - 1; i >= 0; i-- {
		outer, next := srv.options.Interceptors[i], one.run
		one.run = func(ctx context.Context, c *Call, dst []byte) ([]byte, error) { return outer(ctx, c, dst, next) }
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	old := srv.methods[name]
	if old == nil {
		old = &[frame.Bare + 1]*method{}
	}
	if old[m.Protocol] != nil {
		panic(fmt.Sprintf("rpc: the method %s is handled in the protocol %v already", name, m.Protocol))
	}
	forms := *old
	forms[m.Protocol] = one
	srv.methods[name] = &forms
}

// method returns what handles calls of a method, and whether the method exists in another protocol.
func (srv *Server) method(name []byte, p frame.Protocol) (m *method, otherwise bool) {
	srv.mu.Lock()
	forms := srv.methods[string(name)]
	srv.mu.Unlock()
	if forms == nil {
		return nil, false
	}
	return forms[p], true
}

// Serve accepts connections and handles their calls until the server is closed, when it returns [session.ErrServerClosed], or until accepting fails
// for good. The listener is closed when Serve returns. Serve may be called several times.
func (srv *Server) Serve(ln net.Listener) error { return srv.sessions.Serve(ln) }

// ServeConn handles the calls of a connection that was accepted elsewhere. It returns at once; the connection belongs to the server.
func (srv *Server) ServeConn(conn net.Conn) error {
	_, err := srv.sessions.ServeConn(conn, nil)
	return err
}

// Shutdown stops listening, tells clients to make no more calls, and waits until all connections have ended. Calls that arrive meanwhile are handled.
// Clients that understand it close their connections when they have their answers; the others' connections end when they have been silent
// for Options.DrainGrace. If ctx is done first, Shutdown does what Close does and returns the context's error. It must not be called by a handler.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.stop()
	defer context.AfterFunc(ctx, srv.cancelAll)()
	err := srv.sessions.Shutdown(ctx)
	srv.running.Wait()
	return err
}

// Close stops listening, ends all connections, cancels the contexts of all calls, and waits until all handlers have returned. It must not be called
// by a handler.
func (srv *Server) Close() error {
	srv.stop()
	srv.cancelAll()
	err := srv.sessions.Close()
	srv.running.Wait()
	return err
}

// cancelAll cancels the contexts of all calls.
func (srv *Server) cancelAll() {
	srv.closing.Store(true) // also calls that begin from now on
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for c := range srv.conns {
		c.cancelAll(context.Canceled)
	}
}

// counts are the counters of Stats.
type counts struct {
	calls, oneWay, refused, failed, canceled, panics atomic.Uint64
}

// Stats counts what a server has done since it was made.
type Stats struct {
	Calls    uint64 // that arrived, one-way calls included
	OneWay   uint64 // that arrived and are not answered
	Refused  uint64 // that were answered with Overloaded or UnknownMethod, or dropped in place of it
	Failed   uint64 // whose handler returned an error, or panicked
	Canceled uint64 // whose caller has canceled them
	Panics   uint64 // of handlers
	Pending  int    // calls under way
	Conns    int    // connections
	Proven   int    // connections of which a call was successful; all that are open without Options.MaxUnproven
}

// Stats returns the counters.
func (srv *Server) Stats() Stats {
	c := &srv.counts
	return Stats{
		Calls: c.calls.Load(), OneWay: c.oneWay.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(), Canceled: c.canceled.Load(),
		Panics: c.panics.Load(), Pending: int(srv.calls.Load()), Conns: srv.sessions.Len(), Proven: srv.unproven.count(),
	}
}
