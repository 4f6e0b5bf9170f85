package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// registration is a key with a lease. A goroutine keeps both until the registration is closed.
type registration struct {
	registry *Registry
	key      string
	end      context.CancelFunc // of the goroutine
	ended    chan struct{}      // closed when it has ended

	turn     chan struct{} // holds one element while somebody uses what follows; they may wait for etcd
	endpoint discovery.Endpoint
	value    string
	lease    clientv3.LeaseID // 0 if there is none
	replaced bool             // another process has put the key
	closed   bool
}

// take waits for the turn, which the caller gives back by the function.
func (g *registration) take(ctx context.Context) (giveBack func(), err error) {
	select {
	case g.turn <- struct{}{}:
		return func() { <-g.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Register implements [discovery.Registrar].
func (r *Registry) Register(ctx context.Context, service string, e discovery.Endpoint) (discovery.Registration, error) {
	folder, err := r.folder(service)
	if err != nil {
		return nil, err
	}
	value, err := discovery.Encode(&e)
	if err != nil {
		return nil, err
	}
	g := &registration{registry: r, key: folder + e.Address, ended: make(chan struct{}), turn: make(chan struct{}, 1), endpoint: e, value: string(value)}
	if err := g.put(ctx); err != nil {
		_ = g.revoke(ctx) // otherwise the lease runs out
		return nil, fmt.Errorf("discovery: etcd: register %s: %w", g.key, err)
	}
	keeping, end := context.WithCancel(context.WithoutCancel(ctx))
	g.end = end
	go g.keep(keeping)
	return g, nil
}

// grant gets a lease if there is none.
func (g *registration) grant(ctx context.Context) error {
	if g.lease != 0 {
		return nil
	}
	ttl := (g.registry.options.TTL + time.Second - 1) / time.Second
	lease, err := g.registry.client.Grant(ctx, int64(ttl))
	if err == nil {
		g.lease = lease.ID
	}
	return err
}

// put puts the key, also if another process has put it before. The caller has the turn.
func (g *registration) put(ctx context.Context) error {
	if err := g.grant(ctx); err != nil {
		return err
	}
	_, err := g.registry.client.Put(ctx, g.key, g.value, clientv3.WithLease(g.lease))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		g.lease = 0
	}
	return err
}

// keep tells etcd again and again that the server is there, until ctx is done.
func (g *registration) keep(ctx context.Context) {
	defer close(g.ended)
	interval := g.registry.options.TTL / 3
	timer := time.NewTimer(interval)
	defer timer.Stop()
	troubled := false
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		asking, cancel := context.WithTimeout(ctx, interval)
		err := g.renew(asking)
		cancel()
		if err != nil && !troubled && ctx.Err() == nil {
			g.registry.options.Logger.Warn("discovery: etcd: the server may not be found", "key", g.key, "err", err)
		}
		troubled = err != nil
		timer.Reset(interval)
	}
}

// renew renews the lease, and puts the key if it is missing.
func (g *registration) renew(ctx context.Context) error {
	giveBack, err := g.take(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	if g.replaced || g.closed {
		return nil
	}
	if g.lease != 0 {
		_, err := g.registry.client.KeepAliveOnce(ctx, g.lease)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			g.lease = 0
		case err != nil:
			return err
		}
	}
	return g.putAgain(ctx)
}

// errReplaced says that the registration has no effect any more.
var errReplaced = fmt.Errorf("%w: another process has registered this address", discovery.ErrClosed)

// putAgain puts the key if it is missing or has another value, and leaves it alone if another process has put it. The caller has the turn.
func (g *registration) putAgain(ctx context.Context) error {
	if err := g.grant(ctx); err != nil {
		return err
	}
	client, put := g.registry.client, clientv3.OpPut(g.key, g.value, clientv3.WithLease(g.lease))
	done, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(g.key), "=", 0)).Then(put).Else(clientv3.OpGet(g.key)).Commit()
	if err != nil || done.Succeeded {
		return err
	}
	for _, kv := range done.Responses[0].GetResponseRange().Kvs {
		if kv.Lease != int64(g.lease) {
			g.replaced = true
			return errReplaced
		}
		if string(kv.Value) == g.value {
			return nil
		}
	}
	done, err = client.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(g.key), "=", g.lease)).Then(put).Commit()
	if err == nil && !done.Succeeded { // it was changed just now
		return errors.New("the key was changed meanwhile")
	}
	return err
}

// Update implements [discovery.Registration].
func (g *registration) Update(ctx context.Context, e discovery.Endpoint) error {
	value, err := discovery.Encode(&e)
	if err != nil {
		return err
	}
	giveBack, err := g.take(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	switch {
	case g.closed:
		return discovery.ErrClosed
	case g.replaced:
		return errReplaced
	case g.endpoint.Address != e.Address:
		return fmt.Errorf("%w: the address of a registration is %q, and cannot become %q", discovery.ErrEndpoint, g.endpoint.Address, e.Address)
	}
	g.endpoint, g.value = e, string(value)
	return g.putAgain(ctx)
}

// Close implements [discovery.Registration].
func (g *registration) Close(ctx context.Context) error {
	g.end()
	select {
	case <-g.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return g.revoke(ctx)
}

// revoke removes the lease, and with it the key, unless another process has put that since.
func (g *registration) revoke(ctx context.Context) error {
	giveBack, err := g.take(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	g.closed = true
	if g.lease == 0 {
		return nil
	}
	_, err = g.registry.client.Revoke(ctx, g.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = nil
	}
	if err == nil {
		g.lease = 0
	}
	return err
}
