package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/sluice-push/sluice/discovery"
)

// Options are the settings of a [Registry]. For every field zero is the default; nil is all defaults.
type Options struct {
	// Prefix is the node below which services are; default "/services". It is made if it is missing.
	Prefix string
	// SessionTimeout is how long ZooKeeper keeps the endpoints of a server that it does not hear of; default 10 s. ZooKeeper has bounds of its own.
	SessionTimeout time.Duration
	// Refresh is the time after which watchers and registrations look again, whatever they were told; default 30 s.
	Refresh time.Duration
	// Authenticate is called for each new connection, to add credentials; nil adds none.
	Authenticate func(*zk.Conn) error
	// ACL is what clients may do with the nodes that are made; by default all clients may do everything.
	ACL []zk.ACL
	// Logger gets nodes that are no endpoints, and trouble with ZooKeeper; nil discards.
	Logger *slog.Logger
}

// Registry is a [discovery.Resolver] and a [discovery.Registrar]. It has two connections to ZooKeeper, one for its endpoints and one for watching, and
// a goroutine that looks after each. All methods may be called concurrently.
type Registry struct {
	servers []string
	options Options
	closing chan struct{} // closed by Close
	working sync.WaitGroup

	mu       sync.Mutex               // guards what follows
	own      *link                    // has the session of the registrations, which outlives connections
	watching *link                    // is given up with its connection
	session  chan struct{}            // closed, and replaced, when own has a session again
	nodes    map[string]*registration // that have their nodes
	sessions map[int64]bool           // that this registry has, or had
	closed   bool
}

// link is a connection to ZooKeeper.
type link struct {
	conn   *zk.Conn
	events <-chan zk.Event // of the connection, for the goroutine that looks after it
	lost   chan struct{}   // closed when the registry has given the connection up
}

// retryAfter is the time between attempts that fail.
const retryAfter = 200 * time.Millisecond

// New makes a Registry that connects to one of the servers, HOST:PORT each. It does not wait for a connection. The caller has to close it.
func New(servers []string, o *Options) (*Registry, error) {
	r := &Registry{servers: servers, closing: make(chan struct{}), session: make(chan struct{}), nodes: make(map[string]*registration), sessions: make(map[int64]bool)}
	if o != nil {
		r.options = *o
	}
	if r.options.Prefix == "" {
		r.options.Prefix = "/services"
	}
	r.options.Prefix = path.Clean("/" + r.options.Prefix)
	if r.options.SessionTimeout <= 0 {
		r.options.SessionTimeout = 10 * time.Second
	}
	if r.options.Refresh <= 0 {
		r.options.Refresh = 30 * time.Second
	}
	if r.options.ACL == nil {
		r.options.ACL = zk.WorldACL(zk.PermAll)
	}
	if r.options.Logger == nil {
		r.options.Logger = slog.New(slog.DiscardHandler)
	}
	own, err := r.connect(false)
	if err != nil {
		return nil, fmt.Errorf("discovery: zookeeper: %w", err)
	}
	watching, err := r.connect(true)
	if err != nil {
		own.end()
		return nil, fmt.Errorf("discovery: zookeeper: %w", err)
	}
	r.own, r.watching = own, watching
	r.working.Go(r.keepOwn)
	r.working.Go(r.keepWatching)
	return r, nil
}

// Close ends the connection, and with it the session and all endpoints of this registry. Watch then returns. It always returns nil.
func (r *Registry) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	r.mu.Unlock()
	r.working.Wait()
	return nil
}

// connect makes a connection. If once, it is not made again when it is lost. Package zk sets watches again after it has connected again, and reads
// the state up to which they are to be told while another goroutine changes it; so changes could be missed.
func (r *Registry) connect(once bool) (*link, error) {
	dial := zk.Dialer(net.DialTimeout)
	if once {
		var used atomic.Bool
		dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
			if used.Load() {
				return nil, errLost
			}
			conn, err := net.DialTimeout(network, address, timeout)
			used.Store(err == nil)
			return conn, err
		}
	}
	conn, events, err := zk.Connect(r.servers, r.options.SessionTimeout, zk.WithDialer(dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	if f := r.options.Authenticate; f != nil {
		if err := f(conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return &link{conn: conn, events: events, lost: make(chan struct{})}, nil
}

// quiet is the logger of the connection, whose trouble is logged where it matters.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// keepOwn replaces the connection of the registrations when it gets no session, until the registry is closed.
func (r *Registry) keepOwn() {
	l := r.own
	without := time.NewTimer(2 * r.options.SessionTimeout) // runs while there is no session
	defer without.Stop()
	has := false
	for {
		select {
		case e := <-l.events:
			switch e.State {
			case zk.StateHasSession:
				without.Stop()
				has = true
				r.mu.Lock()
				close(r.session)
				r.session = make(chan struct{})
				r.mu.Unlock()
			case zk.StateDisconnected, zk.StateExpired: // also after each attempt that fails, which must not put the timer off
				if has {
					without.Reset(2 * r.options.SessionTimeout)
				}
				has = false
			}
		case <-without.C:
			without.Reset(2 * r.options.SessionTimeout)
			r.options.Logger.Warn("discovery: zookeeper: there was no session for long; the connection is replaced", "after", 2*r.options.SessionTimeout)
			l = r.replace(l, &r.own, false)
		case <-r.closing:
			l.end()
			return
		}
	}
}

// keepWatching replaces the connection for watching when it is lost, until the registry is closed.
func (r *Registry) keepWatching() {
	l := r.watching
	for {
		select {
		case e := <-l.events:
			if e.State != zk.StateDisconnected && e.State != zk.StateExpired {
				continue
			}
			if r.pause(context.Background()) == nil {
				l = r.replace(l, &r.watching, true)
			}
		case <-r.closing:
			l.end()
			return
		}
	}
}

// replace replaces a connection, and returns the one that is used now.
func (r *Registry) replace(l *link, place **link, once bool) *link {
	next, err := r.connect(once)
	if err != nil {
		r.options.Logger.Warn("discovery: zookeeper: cannot connect", "err", err)
		return l
	}
	r.mu.Lock()
	*place = next
	r.mu.Unlock()
	l.end()
	return next
}

func (l *link) end() {
	close(l.lost)
	l.conn.Close()
}

// current returns the connection of the registrations, and what is closed when it has a session again.
func (r *Registry) current() (own *link, session <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, discovery.ErrClosed
	}
	return r.own, r.session, nil
}

// currentWatching returns the connection for watching.
func (r *Registry) currentWatching() (*link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, discovery.ErrClosed
	}
	return r.watching, nil
}

// errLost says that a connection was given up.
var errLost = errors.New("the connection was replaced")

// do calls a function of the connection, which may wait for ZooKeeper, and returns what it returns; earlier when ctx is done or the connection was
// given up. Then the function goes on for itself, at most until the connection ends, and must not use what its caller still uses.
func do[T any](ctx context.Context, r *Registry, l *link, f func(*zk.Conn) (T, error)) (value T, err error) {
	if err := ctx.Err(); err != nil {
		return value, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return value, discovery.ErrClosed
	}
	r.working.Go(func() {
		value, err := f(l.conn)
		done <- result{value, err}
	})
	r.mu.Unlock()
	select {
	case got := <-done:
		return got.value, got.err
	case <-ctx.Done():
		return value, ctx.Err()
	case <-l.lost:
		return value, errLost
	}
}

// watched is what a node has, or whether it exists, with a watch of that.
type watched struct {
	names  []string
	data   []byte
	exists bool
	events <-chan zk.Event
}

// folder returns the node of a service.
func (r *Registry) folder(service string) (string, error) {
	if service == "" || service == "." || service == ".." || strings.ContainsAny(service, "/\x00") {
		return "", fmt.Errorf("%w %q: it must be the name of a node, without slashes", discovery.ErrService, service)
	}
	return path.Join(r.options.Prefix, service), nil
}

// nodeOf returns the name of an endpoint's node.
func nodeOf(address string) string { return url.PathEscape(address) }

// pause waits until something may be tried again. It returns the error of ctx if that is done.
func (r *Registry) pause(ctx context.Context) error {
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.closing:
		return discovery.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
