package client_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/balance"
	"github.com/sluice-push/sluice/rpc/client"
)

var (
	randomCalls = flag.Int("client.calls", 20_000, "how many calls TestRandom makes")
	randomSeed  = flag.Uint64("client.seed", 0, "the seed of TestRandom; 0: another one each time")
)

// shake does one of the things that happen to a service, while others may do the same.
func shake(t *testing.T, r *rand.Rand, registry *discovery.Memory, alive []*place) []*place {
	if len(alive) < 2 || len(alive) < 5 && r.IntN(2) == 0 {
		return append(alive, newPlaceWith(t, registry, discovery.Endpoint{Weight: 1 + r.IntN(200)}, &rpc.Options{MaxCalls: 20, DrainGrace: time.Hour}))
	}
	i := r.IntN(len(alive))
	p := alive[i]
	switch r.IntN(5) {
	case 0: // flaps
		p.leave()
		p.register(discovery.Endpoint{Address: p.address})
		return alive
	case 1: // is killed; the registry notices later
		p.kill()
		p.leave()
	case 2: // stops without leaving before that
		p.shutdown()
		p.leave()
	case 3: // stops while calls are under way, and has little time
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(3))*time.Millisecond)
		defer cancel()
		p.leave()
		_ = p.server.Shutdown(ctx)
	default:
		p.leave()
		p.shutdown()
	}
	alive[i] = alive[len(alive)-1]
	return alive[:len(alive)-1]
}

// TestRandom: while servers are killed, stop, join and flap, every call ends once, with its own answer or an error of package rpc that fits. Each
// caller uses one Call for all its calls, so an answer that came too late would be taken for another's.
func TestRandom(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64() //nolint:gosec // not a secret
	}
	t.Logf("-client.seed %d", seed)
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) } //nolint:gosec // not a secret
	var registry discovery.Memory
	alive := shake(t, random(0), &registry, nil)
	policy := balance.Policy(1 + random(1).IntN(3))
	c := newClient(t, &registry, &client.Options{
		Conns: 1 + random(2).IntN(2), Linger: time.Millisecond, Balance: &balance.Options{Policy: policy}, Conn: &rpc.ConnOptions{MaxCalls: 50},
	})
	const callers = 48
	var left atomic.Int64
	left.Store(int64(*randomCalls))
	codes := make([]map[rpc.Code]int, callers)
	var group sync.WaitGroup
	for i := range callers {
		codes[i] = map[rpc.Code]int{}
		group.Go(func() {
			r, call := random(uint64(i)+100), &client.Call{}
			for left.Add(-1) >= 0 && !t.Failed() {
				err := randomCall(c, r, call)
				codes[i][rpc.CodeOf(err)]++
				if err != nil && !fits(err) {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	r, shakes := random(10), 0
trouble:
	for {
		select {
		case <-done:
			break trouble
		case <-time.After(time.Duration(r.IntN(10)) * time.Millisecond):
		}
		alive = shake(t, r, &registry, alive)
		shakes++
	}
	testwait.True(t, "no call is under way", func() bool {
		for _, s := range c.Servers() {
			if s.Pending > 0 {
				return false
			}
		}
		return c.Chosen() == 0
	})
	all := map[rpc.Code]int{}
	for _, one := range codes {
		for code, n := range one {
			all[code] += n
		}
	}
	t.Logf("policy %d; calls by code: %v; %d troubles; %+v", policy, all, shakes, c.Stats())
	if all[0] < *randomCalls/4 {
		t.Error("too few calls were answered")
	}
	if err := c.Shutdown(testwait.Context(t)); err != nil {
		t.Error(err)
	}
	for _, p := range alive {
		testwait.True(t, "no connection is left", func() bool { return p.server.Stats().Conns == 0 })
	}
}

// fits reports whether an error may end a call.
func fits(err error) bool {
	var e *rpc.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case rpc.Overloaded, rpc.Lost, rpc.DeadlineExceeded, rpc.Canceled:
		return true
	default: // also Unavailable: the registry always has a server
		return false
	}
}

// randomCall makes a call that may be canceled, or be too late.
func randomCall(c *client.Client, r *rand.Rand, call *client.Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound)
	defer cancel()
	switch r.IntN(10) {
	case 0:
		time.AfterFunc(time.Duration(r.IntN(2000))*time.Microsecond, cancel)
	case 1:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
		defer cancel()
	case 2:
		return c.Send(ctx, "Echo", &text{Text: "one way"})
	}
	call.Method = []string{"Echo", "Fail"}[r.IntN(2)]
	call.Idempotent, call.Key = r.IntN(2) == 0, fmt.Sprint(r.IntN(10))
	in, out := text{Text: fmt.Sprintf("%d %0*d", r.Uint64(), r.IntN(300), 7)}, text{}
	err := c.Do(ctx, call, &in, &out)
	var e *rpc.Error
	switch isFailure := errors.As(err, &e) && e.Code == 30_000; {
	case isFailure && call.Method == "Fail" && e.Message == in.Text && e.Remote:
		return nil
	case isFailure:
		return fmt.Errorf("%s of %q has another call's error, %w", call.Method, in.Text, errors.New(e.Message))
	case err == nil && (out.Text != in.Text || call.Method == "Fail"):
		return fmt.Errorf("%s of %q is answered %q", call.Method, in.Text, out.Text)
	case call.Idempotent && rpc.CodeOf(err) == rpc.Canceled && ctx.Err() == nil && call.Attempts() < 2:
		return fmt.Errorf("an idempotent call that its server has canceled was not made again: %w", err)
	}
	return err
}
