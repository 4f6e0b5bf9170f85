package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/broker"
)

// leases holds the leases. A lease that has ended is never listed. A walk over all leases deletes the ended ones. Each list makes that walk, and
// so does a put if there are more than twice as many leases as were alive after the last walk. So a put costs little on average, and the ended
// leases never outnumber the live ones for long.
type leases struct {
	mu     sync.Mutex
	byKey  map[string]lease
	sparse int // walk if there are more
	closed bool
}

type lease struct {
	value []byte
	ends  time.Time
}

// PutLease creates or renews a lease. The value is copied. ttl must be positive; it is measured by Options.Now.
func (b *Broker) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	err := ctx.Err()
	if err == nil && ttl <= 0 {
		err = fmt.Errorf("time to live %v: it must be positive", ttl)
	}
	if err == nil {
		now := b.opts.Now()
		err = b.leases.put(l.Key, lease{bytes.Clone(l.Value), now.Add(ttl)}, now)
	}
	if err != nil {
		return fmt.Errorf("memory: put lease: %w", err)
	}
	return nil
}

// DropLease ends a lease at once.
func (b *Broker) DropLease(ctx context.Context, key string) error {
	err := ctx.Err()
	if err == nil {
		err = b.leases.drop(key)
	}
	if err != nil {
		return fmt.Errorf("memory: drop lease: %w", err)
	}
	return nil
}

// ListLeases returns the live leases whose keys begin with prefix, ordered by key. The slice belongs to the caller. The values are shared and
// must not be changed.
func (b *Broker) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	err := ctx.Err()
	var out []broker.Lease
	if err == nil {
		out, err = b.leases.list(prefix, b.opts.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("memory: list leases: %w", err)
	}
	return out, nil
}

func (s *leases) put(key string, l lease, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return broker.ErrClosed
	}
	s.byKey[key] = l
	if len(s.byKey) > s.sparse {
		s.walkLocked(now, func(string, lease) {})
	}
	return nil
}

func (s *leases) drop(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return broker.ErrClosed
	}
	delete(s.byKey, key)
	return nil
}

func (s *leases) list(prefix string, now time.Time) ([]broker.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, broker.ErrClosed
	}
	var out []broker.Lease
	s.walkLocked(now, func(key string, l lease) {
		if strings.HasPrefix(key, prefix) {
			out = append(out, broker.Lease{Key: key, Value: l.value})
		}
	})
	slices.SortFunc(out, func(a, b broker.Lease) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// walkLocked visits the live leases and deletes the others.
func (s *leases) walkLocked(now time.Time, visit func(key string, l lease)) {
	for key, l := range s.byKey {
		if !now.Before(l.ends) {
			delete(s.byKey, key)
			continue
		}
		visit(key, l)
	}
	s.sparse = 2*len(s.byKey) + 16
}

// close deletes all leases.
func (s *leases) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.byKey = nil
}
