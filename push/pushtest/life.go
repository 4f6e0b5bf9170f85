package pushtest

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// checkSettings: a namespace may be opened again, with another history too, but not with another mode or number of partitions.
func checkSettings(s *suite) {
	ns := broker.Namespace{Name: "n", Mode: push.Stream, History: push.History{Size: 10}, Partitions: 2, Durable: s.harness.Durable}
	s.openWith(ns)
	var all []broker.Message
	for range 8 {
		all = append(all, s.set("n:1", "", "x"))
	}
	s.openWith(ns)
	s.expectLoad("n:1", all...)
	ns.History.Size = 3
	s.openWith(ns)
	next := s.set("n:1", "", "y")
	h := s.expectLoad("n:1", all[6], all[7], next)
	s.floorBetween(h, all[5].Offset, all[6].Offset-1)

	refused := func(what string, change func(*broker.Namespace)) {
		s.Helper()
		other := ns
		change(&other)
		if err := s.broker.Open(s.ctx, other); err == nil {
			s.Errorf("opened with %s", what)
		}
	}
	refused("another mode", func(ns *broker.Namespace) { ns.Mode = push.Table })
	refused("more partitions", func(ns *broker.Namespace) { ns.Partitions = 3 })
	refused("no partitions", func(ns *broker.Namespace) { ns.Name, ns.Partitions = "new", 0 })
	if !s.harness.Durable {
		refused("durability", func(ns *broker.Namespace) { ns.Name, ns.Durable = "new", true })
	}
	s.expectLoad("n:1", all[6], all[7], next)
}

// operations returns the operations that need a namespace, each on the channel n:1.
func (s *suite) operations(ctx context.Context) map[string]func() error {
	p := broker.Partition{Namespace: "n"}
	return map[string]func() error{
		"publish": func() error {
			_, err := s.broker.Publish(ctx, "n:1", push.Publication{Data: []byte("not to be stored")}, broker.PublishOptions{})
			return err
		},
		"publish with a key": func() error {
			_, err := s.broker.Publish(ctx, "n:1", push.Publication{}, broker.PublishOptions{IdempotencyKey: "key"})
			return err
		},
		"attach": func() error {
			_, err := s.broker.Attach(ctx, p, newRecorder())
			return err
		},
		"load": func() error {
			_, err := s.broker.Load(ctx, "n:1", broker.LoadOptions{}, func(broker.Message) error { return nil })
			return err
		},
		"head": func() error {
			_, err := s.broker.Head(ctx, p)
			return err
		},
	}
}

// services returns the operations that need no namespace.
func (s *suite) services(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"open": func() error {
			return s.broker.Open(ctx, broker.Namespace{Name: "new", Partitions: 1, Durable: s.harness.Durable})
		},
		"listen": func() error {
			_, err := s.broker.Listen(ctx, "node", func([]byte) {})
			return err
		},
		"tell":      func() error { return s.broker.Tell(ctx, "node", []byte("x")) },
		"put lease": func() error { return s.broker.PutLease(ctx, broker.Lease{Key: "k"}, time.Minute) },
		"drop lease": func() error {
			return s.broker.DropLease(ctx, "k")
		},
		"list leases": func() error {
			_, err := s.broker.ListLeases(ctx, "")
			return err
		},
	}
}

// fails fails the check for each operation that does not return the error want.
func (s *suite) fails(operations map[string]func() error, want error) {
	s.Helper()
	for name, f := range operations {
		if err := f(); !errors.Is(err, want) {
			s.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// checkUnknown: a namespace that was not opened, or a partition that does not exist, is an error.
func checkUnknown(s *suite) {
	s.fails(s.operations(s.ctx), broker.ErrUnknownNamespace)
	s.open("n", push.Stream, push.History{})
	s.open("n1", push.Stream, push.History{})
	for _, channel := range []string{"n2:1", "n", "N:1", "n.1", ":1"} {
		_, err := s.broker.Publish(s.ctx, channel, push.Publication{}, broker.PublishOptions{})
		if !errors.Is(err, broker.ErrUnknownNamespace) {
			s.Errorf("publish to %q: %v, want ErrUnknownNamespace", channel, err)
		}
	}
	for _, index := range []int{-1, 1} {
		p := broker.Partition{Namespace: "n", Index: index}
		if _, err := s.broker.Attach(s.ctx, p, newRecorder()); err == nil {
			s.Errorf("attached to partition %d of 1", index)
		}
		if _, err := s.broker.Head(s.ctx, p); err == nil {
			s.Errorf("partition %d of 1 has a head", index)
		}
	}
}

// checkCancelled: with a context that is done, no operation has an effect.
func checkCancelled(s *suite) {
	s.open("n", push.Stream, push.History{})
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	s.fails(s.operations(ctx), context.Canceled)
	s.fails(s.services(ctx), context.Canceled)
	s.expectLoad("n:1", s.set("n:1", "", "the first"))
}

// checkClose: after Close every operation returns ErrClosed, and attachments and listeners can still be ended.
func checkClose(s *suite) {
	s.open("n", push.Stream, push.History{})
	r := newRecorder()
	a := s.attach("n", r)
	stop, err := s.broker.Listen(s.ctx, "node", func([]byte) {})
	s.must("listen", err)
	s.must("put a lease", s.broker.PutLease(s.ctx, broker.Lease{Key: "k"}, time.Minute))
	s.set("n:1", "", "x")
	r.await(s, 1)
	s.close()
	s.close()
	r.release()
	s.fails(s.operations(s.ctx), broker.ErrClosed)
	s.fails(s.services(s.ctx), broker.ErrClosed)
	s.detach(a)
	s.within("stop", stop)
	r.recorded(s)
}

// checkCloseWhileBusy: Close ends waiting publishers, and returns when no follower or handler is running any more. What followers have got by
// then has no holes.
func checkCloseWhileBusy(s *suite) {
	s.open("n", push.Stream, push.History{})
	held, open := newHeld()
	quick := newRecorder()
	s.attach("n", held)
	s.attach("n", quick)
	ended := make(chan error, 4)
	var all ledger
	for i := range cap(ended) {
		go func() {
			for {
				if _, err := s.push(&all, "n", i, 100); err != nil && !errors.Is(err, broker.ErrBusy) {
					ended <- err
					return
				}
			}
		}()
	}
	s.wait("the first delivery", held.entered)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.close()
		held.release()
		quick.release()
	}()
	for range cap(ended) {
		select {
		case err := <-ended:
			if !errors.Is(err, broker.ErrClosed) {
				s.Errorf("publish while the broker is closed: %v, want ErrClosed", err)
			}
		case <-s.ctx.Done():
			s.Fatalf("publish goes on while the broker is closed")
		}
	}
	open()
	s.wait("close", closed)
	for _, r := range []*recorder{held, quick} {
		got, want := r.recorded(s), all.ordered()
		unacknowledged := 0 // each publisher may have one that is stored, of which it was told ErrClosed
		for _, m := range got {
			switch {
			case len(want) > 0 && want[0].Offset < m.Offset:
				s.Fatalf("offset %d came, and offset %d, which was acknowledged, did not", m.Offset, want[0].Offset)
			case len(want) > 0 && want[0].Offset == m.Offset:
				want = want[1:]
			default:
				unacknowledged++
			}
		}
		if unacknowledged > cap(ended) {
			s.Errorf("it got %d publications that were not acknowledged, from %d publishers", unacknowledged, cap(ended))
		}
	}
}
