package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-push/sluice/push"
)

// Table holds the open namespaces of a broker with their partitions, which have the broker's own type P. Every broker uses one, so that all
// brokers refuse the same requests with the same errors. The zero value is empty. All methods may be called concurrently.
type Table[P any] struct {
	mu     sync.RWMutex
	open   map[string]*tableRow[P] // guarded by mu, like closed
	closed bool
}

type tableRow[P any] struct {
	settings   Namespace
	partitions []P // immutable
}

// Check returns the reason why a namespace cannot be opened with these settings. It returns nil if the namespace can be opened or is open
// already.
func (t *Table[P]) Check(ctx context.Context, ns Namespace) error {
	if ns.Partitions < 1 {
		return fmt.Errorf("%d partitions, at least 1 is needed", ns.Partitions)
	}
	row, err := t.find(ctx, ns.Name)
	if errors.Is(err, ErrUnknownNamespace) {
		return nil
	}
	if err != nil {
		return err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return refuse(row.settings, ns)
}

// refuse returns the reason why the settings of an open namespace cannot change to ns, nil if they can.
func refuse(open, ns Namespace) error {
	switch {
	case open.Mode != ns.Mode:
		return fmt.Errorf("the namespace is open in mode %v, which cannot change to %v", open.Mode, ns.Mode)
	case open.Partitions != ns.Partitions:
		return fmt.Errorf("the namespace is open with %d partitions, which cannot change to %d", open.Partitions, ns.Partitions)
	case open.Durable != ns.Durable:
		return errors.New("the namespace is open, and durable cannot change")
	}
	return nil
}

// Open adds a namespace with its partitions. If it is open already, the given partitions are dropped. If then the History differs, Open calls
// retain for each partition in use; retain must not call the Table. The errors are those of Check.
func (t *Table[P]) Open(ns Namespace, partitions []P, retain func(P, push.History)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	row := t.open[ns.Name]
	if row == nil {
		if t.open == nil {
			t.open = make(map[string]*tableRow[P])
		}
		t.open[ns.Name] = &tableRow[P]{settings: ns, partitions: partitions}
		return nil
	}
	if err := refuse(row.settings, ns); err != nil {
		return err
	}
	if row.settings.History != ns.History {
		for _, p := range row.partitions {
			retain(p, ns.History)
		}
	}
	row.settings = ns
	return nil
}

// Of returns the partition of a channel. The errors are those of the context, ErrClosed and ErrUnknownNamespace.
func (t *Table[P]) Of(ctx context.Context, channel string) (p P, err error) {
	row, err := t.find(ctx, push.Namespace(channel))
	if err != nil {
		return p, err
	}
	return row.partitions[PartitionOf(channel, len(row.partitions)).Index], nil
}

// At returns a partition. The errors are those of Of, and one for a partition that the namespace does not have.
func (t *Table[P]) At(ctx context.Context, at Partition) (p P, err error) {
	row, err := t.find(ctx, at.Namespace)
	if err != nil {
		return p, err
	}
	if at.Index < 0 || at.Index >= len(row.partitions) {
		return p, fmt.Errorf("namespace %q has no partition %d, only %d in all", at.Namespace, at.Index, len(row.partitions))
	}
	return row.partitions[at.Index], nil
}

func (t *Table[P]) find(ctx context.Context, namespace string) (*tableRow[P], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return nil, ErrClosed
	}
	row, ok := t.open[namespace]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknownNamespace, namespace)
	}
	return row, nil
}

// All returns all partitions, also after Close.
func (t *Table[P]) All() []P {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []P
	for _, row := range t.open {
		all = append(all, row.partitions...)
	}
	return all
}

// IsClosed reports whether Close was called.
func (t *Table[P]) IsClosed() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.closed
}

// Close makes all other methods but All fail with ErrClosed. It reports whether it was called for the first time.
func (t *Table[P]) Close() (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = !t.closed
	t.closed = true
	return first
}
