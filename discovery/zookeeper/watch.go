package zookeeper

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/sluice-push/sluice/discovery"
)

// Watch implements [discovery.Resolver].
func (r *Registry) Watch(ctx context.Context, service string, update func([]discovery.Endpoint)) error {
	folder, err := r.folder(service)
	if err != nil {
		return err
	}
	w := &watcher{registry: r, folder: folder, update: update}
	for {
		l, err := r.currentWatching()
		if err != nil {
			return err
		}
		err = w.round(ctx, l)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !w.troubled {
			r.options.Logger.Warn("discovery: zookeeper: the endpoints stay as they are", "service", service, "err", err)
		}
		w.troubled = true
		if err := r.pause(ctx); err != nil {
			return err
		}
	}
}

// watcher is one call of Watch.
type watcher struct {
	registry *Registry
	folder   string
	update   func([]discovery.Endpoint)
	told     []discovery.Endpoint
	telling  bool
	troubled bool // the last round has ended, and the next one has not told anything yet
}

// child is the node of an endpoint, with a watch that has not fired.
type child struct {
	data   []byte
	events <-chan zk.Event
}

// round watches the service over a connection, until something fails. A watch that has not fired is kept: package zk has no way to take one back.
func (w *watcher) round(ctx context.Context, l *link) error {
	// A question without a watch first: package zk looks for watches to set again just after it has connected.
	if _, err := do(ctx, w.registry, l, func(conn *zk.Conn) (bool, error) {
		exists, _, err := conn.Exists(w.folder)
		return exists, err
	}); err != nil {
		return err
	}
	children := make(map[string]*child)
	var listed <-chan zk.Event // the watch of the list; nil if it has to be made
	refresh := time.NewTicker(w.registry.options.Refresh)
	defer refresh.Stop()
	for {
		if listed == nil {
			names, events, err := w.list(ctx, l)
			if err != nil {
				return err
			}
			listed = events
			for name := range children {
				if !slices.Contains(names, name) {
					delete(children, name)
				}
			}
			for _, name := range names {
				if children[name] == nil {
					children[name] = &child{}
				}
			}
		}
		for name, c := range children {
			if c.events != nil {
				continue
			}
			err := w.read(ctx, l, name, c)
			if errors.Is(err, zk.ErrNoNode) { // the watch of the list fires, too
				delete(children, name)
			} else if err != nil {
				return err
			}
		}
		w.tell(children)
		fired, err := w.wait(ctx, l, refresh.C, listed, children)
		if err != nil {
			return err
		}
		switch {
		case fired == nil:
			if err := w.compare(ctx, l, children); err != nil {
				return err
			}
		case fired == listed:
			listed = nil
		default:
			for _, c := range children {
				if c.events == fired {
					c.events = nil
				}
			}
		}
	}
}

// list returns the names of the nodes of a service, and a watch of them.
func (w *watcher) list(ctx context.Context, l *link) (names []string, events <-chan zk.Event, err error) {
	for {
		got, err := do(ctx, w.registry, l, func(conn *zk.Conn) (got watched, err error) {
			got.names, _, got.events, err = conn.ChildrenW(w.folder)
			return got, err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return got.names, got.events, err
		}
		got, err = do(ctx, w.registry, l, func(conn *zk.Conn) (got watched, err error) {
			got.exists, _, got.events, err = conn.ExistsW(w.folder)
			return got, err
		})
		if err != nil || !got.exists {
			return nil, got.events, err
		}
	}
}

// read reads a node, and watches it.
func (w *watcher) read(ctx context.Context, l *link, name string, c *child) error {
	got, err := do(ctx, w.registry, l, func(conn *zk.Conn) (got watched, err error) {
		got.data, _, got.events, err = conn.GetW(w.folder + "/" + name)
		return got, err
	})
	c.data, c.events = got.data, got.events
	return err
}

// wait waits for one of the watches to fire, and returns it; nil when it is time to look again.
func (w *watcher) wait(
	ctx context.Context, l *link, refresh <-chan time.Time, listed <-chan zk.Event, children map[string]*child,
) (fired <-chan zk.Event, err error) {
	watches := []<-chan zk.Event{listed}
	for _, c := range children {
		watches = append(watches, c.events)
	}
	const others = 4
	cases := make([]reflect.SelectCase, 0, others+len(watches))
	for _, c := range []any{ctx.Done(), l.lost, w.registry.closing, refresh} {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	for _, c := range watches {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	chosen, value, ok := reflect.Select(cases)
	switch chosen {
	case 0:
		return nil, ctx.Err()
	case 1:
		return nil, errLost
	case 2:
		return nil, discovery.ErrClosed
	case 3:
		return nil, nil
	}
	if e, _ := value.Interface().(zk.Event); !ok || e.Err != nil || e.Type == zk.EventNotWatching {
		return nil, errors.New("the watch was lost")
	}
	return watches[chosen-others], nil
}

// compare returns an error if ZooKeeper has something else than the watches have told.
func (w *watcher) compare(ctx context.Context, l *link, children map[string]*child) error {
	names, err := do(ctx, w.registry, l, func(conn *zk.Conn) ([]string, error) {
		names, _, err := conn.Children(w.folder)
		return names, err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for _, name := range names {
		if children[name] == nil {
			return errors.New("a node has appeared without notice")
		}
	}
	if len(names) != len(children) {
		return errors.New("a node has gone without notice")
	}
	return nil
}

// tell calls update if the set is another one.
func (w *watcher) tell(children map[string]*child) {
	w.troubled = false
	set := make([]discovery.Endpoint, 0, len(children))
	for name, c := range children {
		e, err := discovery.Decode(c.data)
		if err != nil {
			w.registry.options.Logger.Warn("discovery: zookeeper: a node has no endpoint", "node", w.folder+"/"+name, "err", err)
			continue
		}
		set = append(set, e)
	}
	set, _ = discovery.Normalize(set) // all are valid
	if w.telling && discovery.Same(w.told, set) {
		return
	}
	w.telling, w.told = true, set
	w.update(slices.Clone(set))
}
