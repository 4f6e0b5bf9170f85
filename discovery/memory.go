package discovery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Memory is a registry within the process, for tests and for programs of one process. The zero value is empty and ready. It must not be copied.
type Memory struct {
	mu       sync.Mutex
	services map[string]*memoryService // guarded by mu
}

// memoryService is the endpoints of a service, by address. changed is closed, and replaced, by every change.
type memoryService struct {
	endpoints map[string]*memoryRegistration
	changed   chan struct{}
}

// service returns a service. The caller holds mu.
func (m *Memory) service(name string) *memoryService {
	s := m.services[name]
	if s == nil {
		if m.services == nil {
			m.services = make(map[string]*memoryService)
		}
		s = &memoryService{endpoints: make(map[string]*memoryRegistration), changed: make(chan struct{})}
		m.services[name] = s
	}
	return s
}

func (s *memoryService) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Watch implements [Resolver].
func (m *Memory) Watch(ctx context.Context, service string, update func([]Endpoint)) error {
	var last []Endpoint
	for first := true; ; first = false {
		m.mu.Lock()
		s := m.service(service)
		set := make([]Endpoint, 0, len(s.endpoints))
		for _, address := range slices.Sorted(maps.Keys(s.endpoints)) {
			set = append(set, s.endpoints[address].endpoint)
		}
		changed := s.changed
		m.mu.Unlock()
		if first || !Same(last, set) {
			last = set
			update(slices.Clone(set))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Register implements [Registrar].
func (m *Memory) Register(ctx context.Context, service string, e Endpoint) (Registration, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &memoryRegistration{memory: m, name: service, endpoint: e}
	s := m.service(service)
	s.endpoints[e.Address] = r
	s.change()
	return r, nil
}

// memoryRegistration is the Registration of a Memory, whose mutex guards the endpoint.
type memoryRegistration struct {
	memory   *Memory
	name     string
	endpoint Endpoint
}

// Update implements Registration.
func (r *memoryRegistration) Update(_ context.Context, e Endpoint) error {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if err := checkUpdate(&r.endpoint, &e); err != nil {
		return err
	}
	s := r.memory.service(r.name)
	if s.endpoints[e.Address] != r {
		return ErrClosed
	}
	r.endpoint = e
	s.change()
	return nil
}

// checkUpdate returns an error if an endpoint cannot replace another.
func checkUpdate(before, after *Endpoint) error {
	if before.Address != after.Address {
		return fmt.Errorf("%w: the address of a registration is %q, and cannot become %q", ErrEndpoint, before.Address, after.Address)
	}
	return after.Check()
}

// Close implements Registration.
func (r *memoryRegistration) Close(context.Context) error {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	s := r.memory.service(r.name)
	if s.endpoints[r.endpoint.Address] == r {
		delete(s.endpoints, r.endpoint.Address)
		s.change()
	}
	return nil
}
