// Package drain ends a node without a storm on the others: for some time the node goes on but is not ready, then its clients are asked one after the
// other to connect elsewhere, then the node shuts down. A signal begins that, or a request to the node's internal address, which [Command] sends.
//
// A [Drain] is the state of one node. The main goroutine of the node calls Run, Shutdown and End in this order; requests only begin the drain and
// report how far it is.
package drain

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/push/config"
)

// Clients are the clients of a node. A gateway.Gateway has these methods.
type Clients interface {
	// Len returns how many clients are connected.
	Len() int
	// Drain asks all clients to connect again, at an even pace over the given time, and admits none. It ends early when ctx ends.
	Drain(ctx context.Context, over time.Duration) error
}

// State says how far the end of a node is.
type State string

// The states, in their order. A node that is not told to end is in the first one.
const (
	None     State = ""
	Delay    State = "delay"    // the node goes on, but is not ready
	Spread   State = "spread"   // clients are asked to connect again
	Shutdown State = "shutdown" // the node closes what it has
	Ended    State = "ended"    // the process exits
)

// Drain is the end of a node. It is the [http.Handler] of requests that begin it, see ServeHTTP. Its methods may be called concurrently.
type Drain struct {
	defaults  config.Shutdown
	requested chan struct{}  // closed when a request begins the drain
	watching  sync.WaitGroup // requests that report the progress until the end

	mu       sync.Mutex // guards what follows
	clients  Clients    // nil until the node serves clients
	state    State
	changed  chan struct{} // closed when state changes; then there is a new one
	plan     config.Shutdown
	began    time.Time
	first    int    // clients when the drain began
	failure  string // why the end was no success; "" if it was one
	watchers int
}

// New returns the drain of a node with the times that its configuration has.
func New(defaults config.Shutdown) *Drain {
	return &Drain{defaults: defaults, requested: make(chan struct{}), changed: make(chan struct{})}
}

// Serve lets requests begin the drain from now on: the node serves clients.
func (d *Drain) Serve(c Clients) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients = c
}

// Requested returns a channel that is closed when a request begins the drain. Call Run then.
func (d *Drain) Requested() <-chan struct{} { return d.requested }

// IsGoing reports whether the drain has begun: the node is not ready.
func (d *Drain) IsGoing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state != None
}

// Begin begins the drain with the times of the configuration, for a signal. If it has begun before, Begin changes nothing. Call Run then.
func (d *Drain) Begin() {
	clients := d.len()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beginLocked(d.defaults, clients)
}

// beginLocked begins the drain of a node with so many clients, and reports whether it had not begun before.
func (d *Drain) beginLocked(plan config.Shutdown, clients int) bool {
	if d.state != None {
		return false
	}
	d.plan, d.first = plan, clients
	switch {
	case plan.Delay > 0:
		d.enterLocked(Delay)
	case plan.Spread > 0:
		d.enterLocked(Spread)
	default:
		d.enterLocked(Shutdown)
	}
	return true
}

// len returns how many clients are connected.
func (d *Drain) len() int {
	d.mu.Lock()
	clients := d.clients
	d.mu.Unlock()
	if clients == nil {
		return 0
	}
	return clients.Len()
}

// enterLocked sets the state, and tells the requests that watch it.
func (d *Drain) enterLocked(s State) {
	if d.state == None {
		d.began = time.Now()
	}
	d.state = s
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *Drain) enter(s State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enterLocked(s)
}

// Run carries out the drain that has begun, until ctx ends or the process gets a signal. Without a delay and a spread it does nothing.
func (d *Drain) Run(ctx context.Context, log *slog.Logger) {
	d.mu.Lock()
	plan, clients := d.plan, d.clients
	d.mu.Unlock()
	if plan.Delay == 0 && plan.Spread == 0 {
		return
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.Info("draining", "clients", clients.Len(), "delay", plan.Delay.String(), "spread", plan.Spread.String())
	delay := time.NewTimer(time.Duration(plan.Delay))
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-ctx.Done():
	}
	d.enter(Spread)
	if err := clients.Drain(ctx, time.Duration(plan.Spread)); err != nil {
		log.Info("a signal ends the draining", "clients", clients.Len())
	}
}

// Shutdown says that the node closes what it has. The node may not have drained before, because a server of it has failed.
func (d *Drain) Shutdown() { d.enter(Shutdown) }

// End says that the node has ended, and why that was no success, if it was none. It returns when the requests that watch the drain have reported it.
// The process exits then.
func (d *Drain) End(err error) {
	d.mu.Lock()
	if err != nil {
		d.failure = err.Error()
	}
	d.enterLocked(Ended)
	d.mu.Unlock()
	d.watching.Wait()
}

// Report says how far a drain is. It is the answer to a request.
type Report struct {
	Started        bool            `json:"started"` // by this request; false: it had begun before
	State          State           `json:"state"`
	Clients        int             `json:"clients"`          // connected now
	ClientsAtStart int             `json:"clients_at_start"` // connected when the drain began
	Delay          config.Duration `json:"delay"`
	Spread         config.Duration `json:"spread"`
	Elapsed        config.Duration `json:"elapsed"` // since the drain began
	Error          string          `json:"error,omitempty"`
}

// report returns how far the drain is, and a channel that is closed when the state changes.
func (d *Drain) report() (r Report, changed <-chan struct{}) {
	clients := d.len()
	d.mu.Lock()
	defer d.mu.Unlock()
	return Report{
		State: d.state, Clients: clients, ClientsAtStart: d.first, Delay: d.plan.Delay, Spread: d.plan.Spread,
		Elapsed: config.Duration(time.Since(d.began).Round(time.Millisecond)), Error: d.failure,
	}, d.changed
}

// most is the largest delay and spread, as in the configuration.
const most = time.Hour

// checkTime returns an error if a delay or spread is out of range.
func checkTime(d time.Duration) error {
	if d < 0 || d > most {
		return fmt.Errorf("%v is out of range: use 0s to %v", config.Duration(d), config.Duration(most))
	}
	return nil
}
