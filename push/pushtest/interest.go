package pushtest

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// interested is a broker whose followers want every channel: before the first publication to a channel, all attachments of its partition want
// it. So the checks of the suite, which do not call Want, also work with brokers that deliver wanted channels only.
type interested struct {
	broker.Broker

	mu       sync.Mutex
	attached map[*wanting]struct{}       // guarded by mu, as are the maps below
	counts   map[string]int              // number of partitions of a namespace
	channels map[string]broker.Partition // the channels that were published to
}

func newInterested(b broker.Broker) *interested {
	return &interested{
		Broker: b, attached: make(map[*wanting]struct{}), counts: make(map[string]int), channels: make(map[string]broker.Partition),
	}
}

// wanting is an attachment that wants all channels that are published to.
type wanting struct {
	broker.Attachment
	of        *interested
	partition broker.Partition
}

func (a *wanting) Detach() {
	a.of.mu.Lock()
	delete(a.of.attached, a)
	a.of.mu.Unlock()
	a.Attachment.Detach()
}

func (i *interested) Open(ctx context.Context, ns broker.Namespace) error {
	err := i.Broker.Open(ctx, ns)
	if err == nil {
		i.mu.Lock()
		i.counts[ns.Name] = ns.Partitions
		i.mu.Unlock()
	}
	return err
}

func (i *interested) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	a, err := i.Broker.Attach(ctx, p, f)
	if err != nil {
		return nil, err
	}
	w := &wanting{Attachment: a, of: i, partition: p}
	i.mu.Lock()
	i.attached[w] = struct{}{}
	var known []string
	for c, of := range i.channels {
		if of == p {
			known = append(known, c)
		}
	}
	i.mu.Unlock()
	for _, c := range known {
		if err := a.Want(ctx, c); err != nil {
			w.Detach()
			return nil, err
		}
	}
	return w, nil
}

func (i *interested) Publish(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
	if err := i.wantAll(ctx, c); err != nil {
		return push.Position{}, err
	}
	return i.Broker.Publish(ctx, c, p, o)
}

// wantAll calls Want for a channel on all attachments of its partition, once.
func (i *interested) wantAll(ctx context.Context, c string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, isKnown := i.channels[c]
	n := i.counts[push.Namespace(c)]
	if isKnown || n == 0 {
		return nil
	}
	of := broker.PartitionOf(c, n)
	for a := range i.attached {
		if a.partition != of {
			continue
		}
		if err := a.Want(ctx, c); err != nil {
			return err
		}
	}
	i.channels[c] = of
	return nil
}

// checkInterest: a follower gets the publications of the channels that it wants, from the return of Want on, until Unwant has been called as
// often.
func checkInterest(s *suite) {
	s.open("n", push.Stream, push.History{})
	raw := s.broker.(*interested).Broker // the broker below, without the automatic Want
	r := newRecorder()
	a, err := raw.Attach(s.ctx, broker.Partition{Namespace: "n"}, r)
	s.must("attach", err)
	defer a.Detach()
	want := func(channel string) { s.must("want", a.Want(s.ctx, channel)) }
	offset := func(channel string) uint64 {
		at, err := raw.Publish(s.ctx, channel, push.Publication{Data: []byte("1")}, broker.PublishOptions{})
		s.must("publish", err)
		return at.Offset
	}
	want("n:a")
	want("n:b")
	want("n:b")
	a.Unwant("n:b")
	offset("n:c") // may be delivered or not
	expected := []uint64{offset("n:a"), offset("n:b"), offset("n:a")}
	a.Unwant("n:a")
	want("n:a")
	expected = append(expected, offset("n:a"))
	r.expectAmong(s, expected)
}

// expectAmong waits until the recorder has the given offsets of wanted channels, in order and each once.
func (r *recorder) expectAmong(s *suite, offsets []uint64) {
	s.Helper()
	last := offsets[len(offsets)-1]
	for {
		r.mu.Lock()
		var got []uint64
		for _, m := range r.messages {
			if m.Channel != "n:c" {
				got = append(got, m.Offset)
			}
		}
		changed := r.changed
		r.mu.Unlock()
		if n := len(got); n > 0 && got[n-1] >= last || n > len(offsets) {
			if !slices.Equal(got, offsets) {
				s.Errorf("offsets %v of wanted channels were delivered, want %v", got, offsets)
			}
			return
		}
		s.wait("a publication to a channel that is wanted", changed)
	}
}

// checkRowsOnly: with RowsOnly, only live rows are visited. A stream is not affected.
func checkRowsOnly(s *suite) {
	s.open("t", push.Table, push.History{})
	s.open("v", push.Value, push.History{})
	s.open("s", push.Stream, push.History{})
	s.set("t:a", "one", "1")
	s.set("t:a", "two", "2")
	s.remove("t:a", "one")
	head := s.set("t:b", "other", "3")
	s.set("v:a", "", "4")
	s.set("s:a", "", "5")
	for channel, want := range map[string][]string{"t:a": {"2"}, "v:a": {"4"}, "s:a": {"5"}} {
		var got []string
		h, err := s.broker.Load(s.ctx, channel, broker.LoadOptions{RowsOnly: true}, func(m broker.Message) error {
			if m.Channel != channel {
				s.Errorf("%s: channel %q was visited", channel, m.Channel)
			}
			if m.Op != push.Set {
				s.Errorf("%s: operation %d was visited", channel, m.Op)
			}
			got = append(got, string(m.Data))
			return nil
		})
		s.must("load", err)
		if !slices.Equal(got, want) {
			s.Errorf("%s: %q was visited, want %q", channel, got, want)
		}
		if channel == "t:a" && (h.Head < head.Offset || h.Floor != h.Head) {
			s.Errorf("floor %d and head %d, want both to be %d", h.Floor, h.Head, head.Offset)
		}
	}
}

// checkStats: a broker reports its kind, and that it is connected while it answers.
func checkStats(s *suite) {
	s.open("n", push.Stream, push.History{})
	s.set("n:a", "", "1")
	if st := s.broker.Stats(); st.Kind == "" || !st.Connected || st.Full {
		s.Errorf("after a publication: %+v", st)
	}
	s.must("close", s.broker.Close())
	if st := s.broker.Stats(); st.Kind == "" {
		s.Errorf("after Close: %+v", st)
	}
}
