package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
	"github.com/sluice-push/sluice/rpc/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const service = "quotes"

// text is the argument and the result of all methods.
type text struct {
	Text   string
	Server string `json:",omitempty"` // the address of the server that has answered
}

// place is a server.
type place struct {
	t       testing.TB
	server  *rpc.Server
	address string
	served  chan error

	registry     *discovery.Memory
	registration discovery.Registration
	began        chan *rpc.Call // calls of the method Wait
	release      chan struct{}  // ends one call of the method Wait
}

// newPlace starts a server that ends with the test.
func newPlace(t testing.TB, registry *discovery.Memory) *place {
	t.Helper()
	return newPlaceWith(t, registry, discovery.Endpoint{}, &rpc.Options{DrainGrace: time.Hour}) // clients end their connections
}

func newPlaceWith(t testing.TB, registry *discovery.Memory, e discovery.Endpoint, o *rpc.Options) *place {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &place{
		t: t, server: rpc.NewServer(o), address: ln.Addr().String(), served: make(chan error, 1), registry: registry,
		began: make(chan *rpc.Call, 1000), release: make(chan struct{}),
	}
	rpc.Handle(p.server, "Echo", func(_ context.Context, in *text) (*text, error) { return &text{in.Text, p.address}, nil })
	rpc.Handle(p.server, "Fail", func(_ context.Context, in *text) (*text, error) { return nil, rpc.Errorf(30_000, "%s", in.Text) })
	rpc.Handle(p.server, "Wait", func(ctx context.Context, in *text) (*text, error) {
		p.began <- rpc.From(ctx)
		select {
		case <-p.release:
			return &text{in.Text, p.address}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	go func() { p.served <- p.server.Serve(ln) }()
	t.Cleanup(p.kill)
	if registry != nil {
		e.Address = p.address
		p.register(e)
	}
	return p
}

func (p *place) register(e discovery.Endpoint) {
	p.t.Helper()
	var err error
	if p.registration, err = p.registry.Register(context.Background(), service, e); err != nil {
		p.t.Fatal(err)
	}
}

// leave removes the server from the registry.
func (p *place) leave() {
	if err := p.registration.Close(context.Background()); err != nil {
		p.t.Error(err)
	}
}

// kill ends the server with all its connections.
func (p *place) kill() { testwait.Return(p.t, func() { _ = p.server.Close() }) }

// shutdown ends the server gently.
func (p *place) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		p.t.Error(err)
	}
}

// overload adds a method that is always refused.
func (p *place) overload(name string) {
	rpc.Handle(p.server, name, func(ctx context.Context, _ *text) (*text, error) { return nil, rpc.From(ctx).Refuse("no") })
}

// calls returns how many calls the server has got.
func (p *place) calls() int { return int(p.server.Stats().Calls) }

// newClient makes a client that ends with the test.
func newClient(t testing.TB, r discovery.Resolver, o *client.Options) *client.Client {
	t.Helper()
	own := client.Options{}
	if o != nil {
		own = *o
	}
	if own.WaitTimeout == 0 {
		own.WaitTimeout = testwait.Bound
	}
	if own.Base == 0 {
		own.Base, own.Cap = time.Millisecond, 10*time.Millisecond
	}
	c := client.New(r, service, &own)
	t.Cleanup(func() { testwait.Return(t, func() { _ = c.Close() }) })
	return c
}

// connected waits until n servers are connected.
func connected(t testing.TB, c *client.Client, n int) {
	t.Helper()
	if err := c.Wait(testwait.Context(t), n); err != nil {
		t.Fatal(err)
	}
}

// leftWith waits until no more than n servers are connected.
func leftWith(t testwait.Test, c *client.Client, n int) {
	t.Helper()
	testwait.True(t, "the client sees that servers have gone", func() bool { return c.Stats().Connected <= n })
}

// ask calls a method, and returns the server that has answered.
func ask(c *client.Client, call *client.Call, method, in string) (server string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound)
	defer cancel()
	return askWith(ctx, c, call, method, in)
}

func askWith(ctx context.Context, c *client.Client, call *client.Call, method, in string) (server string, err error) {
	var out text
	call.Method = method
	if err := c.Do(ctx, call, &text{Text: in}, &out); err != nil {
		return "", err
	}
	if out.Text != in {
		return "", errors.New("rpc/client: " + in + " is answered " + out.Text)
	}
	return out.Server, nil
}

// start makes a call in a goroutine and returns where its error will be.
func start(c *client.Client, call *client.Call, method string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := ask(c, call, method, "a")
		done <- err
	}()
	return done
}

// load is callers that make calls until they are stopped.
type load struct {
	group sync.WaitGroup
	quit  chan struct{}

	mu    sync.Mutex
	calls map[string]int // answered calls by server
	errs  []error
}

// newLoad starts callers.
func newLoad(c *client.Client, callers int, idempotent bool) *load {
	l := &load{quit: make(chan struct{}), calls: map[string]int{}}
	for range callers {
		l.group.Go(func() {
			call := &client.Call{Idempotent: idempotent}
			for {
				select {
				case <-l.quit:
					return
				default:
				}
				server, err := ask(c, call, "Echo", "a")
				l.mu.Lock()
				if err != nil {
					l.errs = append(l.errs, err)
				} else {
					l.calls[server]++
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

// of returns how many calls a server has answered; all if it is empty.
func (l *load) of(server string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for address, calls := range l.calls {
		if server == "" || server == address {
			n += calls
		}
	}
	return n
}

// more waits until a server has answered more calls; any if it is empty.
func (l *load) more(t testwait.Test, server string) {
	t.Helper()
	before := l.of(server)
	testwait.True(t, "there are more calls", func() bool { return l.of(server) > before+100 || len(l.errors()) > 1000 })
}

func (l *load) errors() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.errs)
}

// stop ends the callers and returns their errors.
func (l *load) stop(t testwait.Test) []error {
	t.Helper()
	close(l.quit)
	testwait.Return(t, l.group.Wait)
	return l.errors()
}

// rich is a budget that allows every retry.
func rich() *balance.Budget { return balance.NewBudget(1, 1_000_000) }
