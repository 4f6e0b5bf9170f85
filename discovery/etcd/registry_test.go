package etcd_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/discovery/etcd"
	"github.com/sluice-push/sluice/internal/testwait"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// registry returns a Registry with a client of its own.
func registry(t *testing.T, s *discoverytest.Server, o *etcd.Options) (*etcd.Registry, *clientv3.Client) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return etcd.New(client, o), client
}

func TestConformance(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	discoverytest.Run(t, &discoverytest.Harness{
		Connect: func(t *testing.T) discoverytest.Registry {
			r, _ := registry(t, s, nil)
			return r
		},
		BadServices: []string{"", "a/b"},
	})
}

// register registers an endpoint that is closed when the test ends.
func register(t *testing.T, r *etcd.Registry, address string) discovery.Registration {
	t.Helper()
	registration, err := r.Register(t.Context(), "quotes", discovery.Endpoint{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		_ = registration.Close(ctx) // etcd may have gone
	})
	return registration
}

// The endpoint of a process that is killed goes when its lease runs out.
func TestKilled(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	r, _ := registry(t, s, &etcd.Options{TTL: 2 * time.Second})
	watched := discoverytest.Watch(t, r, "quotes")
	killed := register(t, r, "a.test:1")
	register(t, r, "b.test:1")
	watched.Until("a.test:1 b.test:1")
	etcd.Abandon(killed)
	watched.Until("b.test:1", "a.test:1 b.test:1")
}

// While etcd is killed and started again, watchers are told nothing; then all goes on.
func TestRestarted(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	r, _ := registry(t, s, nil)
	watched := discoverytest.Watch(t, r, "quotes")
	register(t, r, "a.test:1")
	watched.Until("a.test:1", "")
	for range 2 {
		s.Restart(false)
	}
	register(t, r, "b.test:1")
	watched.Until("a.test:1 b.test:1", "a.test:1")
}

// An etcd that has lost all data gets it again, and callers behind a Steady notice nothing. Its revisions begin anew, which watchers notice.
func TestWiped(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	r, client := registry(t, s, &etcd.Options{TTL: 2 * time.Second, Refresh: time.Second})
	for range 50 { // so that the revision is larger than that of the new one for long
		if _, err := client.Put(t.Context(), "other", "value"); err != nil {
			t.Fatal(err)
		}
	}
	watched := discoverytest.Watch(t, discovery.NewSteady(r, nil), "quotes")
	register(t, r, "a.test:1")
	watched.Until("a.test:1", "")
	s.Restart(true)
	fresh, _ := registry(t, s, nil)
	discoverytest.Watch(t, fresh, "quotes").Until("a.test:1", "")
	register(t, fresh, "b.test:1")
	watched.Until("a.test:1 b.test:1", "a.test:1")
}

// A key that was deleted, or whose lease was revoked, is put again; one that another process has put is left alone.
func TestLostKey(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	r, client := registry(t, s, &etcd.Options{TTL: 2 * time.Second})
	watched := discoverytest.Watch(t, r, "quotes")
	registration := register(t, r, "a.test:1")
	watched.Until("a.test:1", "")
	if _, err := client.Delete(t.Context(), "/services/quotes/a.test:1"); err != nil {
		t.Fatal(err)
	}
	watched.Until("", "a.test:1")
	watched.Until("a.test:1", "")
	leases, err := client.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("leases: %+v, %v", leases, err)
	}
	if _, err := client.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	watched.Until("", "a.test:1")
	watched.Until("a.test:1", "")
	if _, err := client.Put(t.Context(), "/services/quotes/a.test:1", `{"address":"a.test:1","weight":5}`); err != nil {
		t.Fatal(err)
	}
	watched.Until("a.test:1*5", "a.test:1")
	testwait.True(t, "the registration notices", func() bool {
		return errors.Is(registration.Update(t.Context(), discovery.Endpoint{Address: "a.test:1", Weight: 5}), discovery.ErrClosed)
	})
}

// What has happened between listing and watching is noticed, though etcd does not remember it any more.
func TestCompacted(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	r, client := registry(t, s, nil)
	var once sync.Once
	r.SetListed(func() {
		once.Do(func() {
			done, err := client.Put(t.Context(), "/services/quotes/a.test:1", "a.test:1")
			if err == nil {
				done, err = client.Put(t.Context(), "/services/quotes/a.test:1", "a.test:1")
			}
			if err == nil {
				_, err = client.Compact(t.Context(), done.Header.Revision)
			}
			if err != nil {
				t.Error(err)
			}
		})
	})
	discoverytest.Watch(t, r, "quotes").Until("a.test:1", "")
}

// Keys that are no endpoints are passed over, and said.
func TestForeignKeys(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	var said discoverytest.Output
	r, client := registry(t, s, &etcd.Options{Prefix: "/my/", Logger: said.Logger()})
	for key, value := range map[string]string{"/my/quotes/a": `{"address":"a.test:1"}`, "/my/quotes/b": "nonsense", "/my/quotes2/c": "c.test:1"} {
		if _, err := client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	watched := discoverytest.Watch(t, r, "quotes")
	watched.Until("a.test:1")
	if _, err := client.Put(t.Context(), "/my/quotes/a", "nonsense"); err != nil {
		t.Fatal(err)
	}
	watched.Until("", "a.test:1")
	for _, key := range []string{"/my/quotes/a", "/my/quotes/b"} {
		if !strings.Contains(said.String(), key) {
			t.Errorf("%s is not said:\n%s", key, said.String())
		}
	}
}

// Without etcd, a registration fails when its context is done, and a watcher of a client that is closed ends.
func TestAway(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	r, client := registry(t, s, nil)
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
	_ = client.Close()
	if err := testwait.Receive(t, done); !errors.Is(err, discovery.ErrClosed) {
		t.Errorf("watch: %v", err)
	}
}
