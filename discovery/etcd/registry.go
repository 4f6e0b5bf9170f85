package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluice-push/sluice/discovery"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Options are the settings of a [Registry]. For every field zero is the default; nil is all defaults.
type Options struct {
	// Prefix begins all keys; default "/services/".
	Prefix string
	// TTL is how long an endpoint stays when its server is not heard of any more; default 10 s, at least 2 s. Servers tell etcd that they are there
	// three times as often.
	TTL time.Duration
	// Refresh is the time after which a watcher lists again, whatever it was told; default 30 s.
	Refresh time.Duration
	// Logger gets keys that are no endpoints, and trouble with etcd, once until it is over; nil discards.
	Logger *slog.Logger
}

// Registry is a [discovery.Resolver] and a [discovery.Registrar]. All methods may be called concurrently.
type Registry struct {
	client  *clientv3.Client
	options Options
	listed  func() // called after each list; nil but in tests
}

// The times between attempts while etcd is away: random, up to these.
const (
	minRetry = 200 * time.Millisecond
	maxRetry = 5 * time.Second
)

// New makes a Registry. The client remains the caller's; it has to stay open while Watch runs and registrations are not closed.
func New(client *clientv3.Client, o *Options) *Registry {
	r := &Registry{client: client}
	if o != nil {
		r.options = *o
	}
	if r.options.Prefix == "" {
		r.options.Prefix = "/services/"
	}
	if r.options.TTL <= 0 {
		r.options.TTL = 10 * time.Second
	}
	r.options.TTL = max(r.options.TTL, 2*time.Second)
	if r.options.Refresh <= 0 {
		r.options.Refresh = 30 * time.Second
	}
	if r.options.Logger == nil {
		r.options.Logger = slog.New(slog.DiscardHandler)
	}
	return r
}

// folder returns what the keys of a service begin with.
func (r *Registry) folder(service string) (string, error) {
	if service == "" || strings.Contains(service, "/") {
		return "", fmt.Errorf("%w %q: it must not be empty or contain a slash", discovery.ErrService, service)
	}
	return r.options.Prefix + service + "/", nil
}

// retry waits before another attempt, the longer the more have failed. It returns the error of ctx if that is done.
func retry(ctx context.Context, failed int) error {
	most := min(minRetry<<min(failed, 10), maxRetry)
	timer := time.NewTimer(most/2 + rand.N(most/2)) //nolint:gosec // not a secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch implements [discovery.Resolver].
func (r *Registry) Watch(ctx context.Context, service string, update func([]discovery.Endpoint)) error {
	folder, err := r.folder(service)
	if err != nil {
		return err
	}
	w := &watcher{registry: r, folder: folder, update: update}
	for {
		switch err := w.round(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case r.client.Ctx().Err() != nil:
			return discovery.ErrClosed
		case err == nil: // it is time to list again
			w.failed = 0
		default:
			if w.failed == 0 {
				r.options.Logger.Warn("discovery: etcd: the endpoints stay as they are", "service", service, "err", err)
			}
			if err := retry(ctx, w.failed); err != nil {
				return err
			}
			w.failed++
		}
	}
}

// watcher is one call of Watch.
type watcher struct {
	registry *Registry
	folder   string
	update   func([]discovery.Endpoint)
	values   map[string]discovery.Endpoint // by key
	told     []discovery.Endpoint
	telling  bool
	failed   int // rounds in a row
}

// round lists the service and watches it, until it is time to list again. An error means that the list or the watch has failed.
func (w *watcher) round(ctx context.Context) error {
	o := &w.registry.options
	ctx, cancel := context.WithTimeout(ctx, o.Refresh/2+rand.N(o.Refresh/2)) //nolint:gosec // not a secret
	defer cancel()
	list, err := w.registry.client.Get(ctx, w.folder, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	w.failed = 0
	w.values = make(map[string]discovery.Endpoint, len(list.Kvs))
	for _, kv := range list.Kvs {
		w.put(kv.Key, kv.Value)
	}
	w.tell()
	if f := w.registry.listed; f != nil {
		f()
	}
	changes := w.registry.client.Watch(clientv3.WithRequireLeader(ctx), w.folder, clientv3.WithPrefix(), clientv3.WithRev(list.Header.Revision+1))
	for change := range changes {
		if err := change.Err(); err != nil { // compacted, among others
			if ctx.Err() != nil {
				break
			}
			return err
		}
		for _, event := range change.Events {
			if event.Type == clientv3.EventTypeDelete {
				delete(w.values, string(event.Kv.Key))
			} else {
				w.put(event.Kv.Key, event.Kv.Value)
			}
		}
		w.tell()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return errors.New("the watch has ended")
}

func (w *watcher) put(key, value []byte) {
	e, err := discovery.Decode(value)
	if err != nil {
		delete(w.values, string(key))
		w.registry.options.Logger.Warn("discovery: etcd: a key has no endpoint", "key", string(key), "err", err)
		return
	}
	w.values[string(key)] = e
}

// tell calls update if the set is another one.
func (w *watcher) tell() {
	set := make([]discovery.Endpoint, 0, len(w.values))
	for _, e := range w.values {
		set = append(set, e)
	}
	set, _ = discovery.Normalize(set) // all are valid
	if w.telling && discovery.Same(w.told, set) {
		return
	}
	w.telling, w.told = true, set
	w.update(append([]discovery.Endpoint(nil), set...))
}
