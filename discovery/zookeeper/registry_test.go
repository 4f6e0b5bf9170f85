package zookeeper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/discovery/zookeeper"
	"github.com/sluice-push/sluice/internal/testwait"
)

// registry returns a Registry with a connection of its own, which the test closes.
func registry(t *testing.T, s *discoverytest.Server, o *zookeeper.Options) *zookeeper.Registry {
	t.Helper()
	r, err := zookeeper.New([]string{s.Addr}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestConformance(t *testing.T) {
	s := discoverytest.StartZooKeeper(t)
	discoverytest.Run(t, &discoverytest.Harness{
		Connect:     func(t *testing.T) discoverytest.Registry { return registry(t, s, nil) },
		BadServices: []string{"", "a/b", ".", ".."},
	})
}

func register(t *testing.T, r *zookeeper.Registry, address string) discovery.Registration {
	t.Helper()
	registration, err := r.Register(t.Context(), "quotes", discovery.Endpoint{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	return registration
}

// short is options with the shortest session that the server of the tests allows.
func short() *zookeeper.Options { return &zookeeper.Options{SessionTimeout: 500 * time.Millisecond} }

// The endpoints of a process whose session ends go.
func TestClosed(t *testing.T) {
	s := discoverytest.StartZooKeeper(t)
	r := registry(t, s, nil)
	watched := discoverytest.Watch(t, registry(t, s, nil), "quotes")
	other := registry(t, s, nil)
	register(t, r, "a.test:1")
	left := register(t, other, "b.test:1")
	watched.Until("a.test:1 b.test:1")
	_ = other.Close()
	watched.Until("a.test:1", "a.test:1 b.test:1")
	if err := left.Update(t.Context(), discovery.Endpoint{Address: "b.test:1"}); !errors.Is(err, discovery.ErrClosed) {
		t.Errorf("update after the registry was closed: %v", err)
	}
	if err := left.Close(t.Context()); err != nil {
		t.Errorf("close after the registry was closed: %v", err)
	}
	if _, err := other.Register(t.Context(), "quotes", discovery.Endpoint{Address: "c.test:1"}); !errors.Is(err, discovery.ErrClosed) {
		t.Errorf("register after the registry was closed: %v", err)
	}
	if err := other.Watch(t.Context(), "quotes", func([]discovery.Endpoint) {}); !errors.Is(err, discovery.ErrClosed) {
		t.Errorf("watch after the registry was closed: %v", err)
	}
}

// While ZooKeeper is killed and started again, callers behind a Steady are told nothing; then all goes on, whether the sessions have outlived it or not.
func TestRestarted(t *testing.T) {
	for name, o := range map[string]*zookeeper.Options{"sessions live": nil, "sessions end": short()} {
		t.Run(name, func(t *testing.T) {
			s := discoverytest.StartZooKeeper(t)
			r := registry(t, s, o)
			watched := discoverytest.Watch(t, discovery.NewSteady(r, nil), "quotes")
			register(t, r, "a.test:1")
			watched.Until("a.test:1", "")
			s.Restart(false)
			register(t, r, "b.test:1")
			watched.Until("a.test:1 b.test:1", "a.test:1", "b.test:1")
		})
	}
}

// A ZooKeeper that has lost all data gets it again, though it refuses those who have seen more.
func TestWiped(t *testing.T) {
	s := discoverytest.StartZooKeeper(t)
	r := registry(t, s, short())
	watched := discoverytest.Watch(t, discovery.NewSteady(r, nil), "quotes")
	register(t, r, "a.test:1")
	watched.Until("a.test:1", "")
	s.Restart(true)
	discoverytest.Watch(t, registry(t, s, nil), "quotes").Until("a.test:1", "")
	register(t, r, "b.test:1")
	watched.Until("a.test:1 b.test:1", "a.test:1")
}

// A node that was deleted is put again; one that another process has put is left alone.
func TestLostNode(t *testing.T) {
	s := discoverytest.StartZooKeeper(t)
	r, other := registry(t, s, nil), registry(t, s, nil)
	watched := discoverytest.Watch(t, other, "quotes")
	registration := register(t, r, "a.test:1")
	watched.Until("a.test:1", "")
	if err := r.Conn().Delete("/services/quotes/a.test:1", -1); err != nil {
		t.Fatal(err)
	}
	testwait.True(t, "the node is there again", func() bool {
		_, stat, err := r.Conn().Get("/services/quotes/a.test:1")
		return err == nil && stat.EphemeralOwner == r.Conn().SessionID()
	})
	if _, err := other.Register(t.Context(), "quotes", discovery.Endpoint{Address: "a.test:1", Weight: 5}); err != nil {
		t.Fatal(err)
	}
	watched.Until("a.test:1*5", "", "a.test:1")
	testwait.True(t, "the registration notices", func() bool {
		return errors.Is(registration.Update(t.Context(), discovery.Endpoint{Address: "a.test:1"}), discovery.ErrClosed)
	})
	if err := registration.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := other.Conn().Get("/services/quotes/a.test:1"); err != nil {
		t.Errorf("the node of the other process: %v", err)
	}
}

// The later of two registrations of one process has the address.
func TestRegisteredTwice(t *testing.T) {
	s := discoverytest.StartZooKeeper(t)
	r := registry(t, s, nil)
	first := register(t, r, "a.test:1")
	second := register(t, r, "a.test:1")
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	watched := discoverytest.Watch(t, r, "quotes")
	watched.Until("a.test:1")
	if err := second.Close(t.Context()); err != nil {
		t.Error(err)
	}
	watched.Until("", "a.test:1")
}

// Nodes that are no endpoints are passed over, and said; those that other programs have put count.
func TestForeignNodes(t *testing.T) {
	s := discoverytest.StartZooKeeper(t)
	var said discoverytest.Output
	r := registry(t, s, &zookeeper.Options{Prefix: "my/services/", Logger: said.Logger()})
	everybody := zk.WorldACL(zk.PermAll)
	for _, node := range [][2]string{
		{"/my", ""}, {"/my/services", ""}, {"/my/services/quotes", ""}, {"/my/services/quotes/a", "a.test:1"}, {"/my/services/quotes/b", "nonsense"},
	} {
		if _, err := r.Conn().Create(node[0], []byte(node[1]), zk.FlagPersistent, everybody); err != nil {
			t.Fatal(err)
		}
	}
	watched := discoverytest.Watch(t, r, "quotes")
	watched.Until("a.test:1")
	if _, err := r.Conn().Set("/my/services/quotes/a", []byte("nonsense"), -1); err != nil {
		t.Fatal(err)
	}
	watched.Until("", "a.test:1")
	for _, node := range []string{"/my/services/quotes/a", "/my/services/quotes/b"} {
		if !strings.Contains(said.String(), node) {
			t.Errorf("%s is not said:\n%s", node, said.String())
		}
	}
}

// Without ZooKeeper, a registration fails when its context is done, and a watcher of a registry that is closed ends.
func TestAway(t *testing.T) {
	s := discoverytest.StartZooKeeper(t)
	r := registry(t, s, short())
	s.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Register(ctx, "quotes", discovery.Endpoint{Address: "a.test:1"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("register: %v", err)
	}
	done := make(chan error)
	go func() {
		done <- r.Watch(t.Context(), "quotes", func(set []discovery.Endpoint) { t.Errorf("there is no registry, and endpoints: %v", set) })
	}()
	_ = r.Close()
	if err := testwait.Receive(t, done); !errors.Is(err, discovery.ErrClosed) {
		t.Errorf("watch: %v", err)
	}
}
