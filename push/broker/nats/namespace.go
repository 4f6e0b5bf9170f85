package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// The keys of a stream's metadata.
const (
	metaMode       = "sluice-mode"
	metaPartitions = "sluice-partitions"
	metaSize       = "sluice-size"       // History.Size
	metaAge        = "sluice-age"        // History.Age
	metaGrown      = "sluice-grown"      // the last offset when History.Size was last raised
	metaFloor      = "sluice-floor"      // up to this offset entries may be missing that the present History would keep
	metaGeneration = "sluice-generation" // changes when the stream is found to have lost publications
	metaRemovals   = "sluice-removals"   // there are or were removals in this table
	metaLost       = "sluice-lost"       // what the server had lost of the stream when the generation last changed
)

// idempotencyWindow is how long the server remembers idempotency keys.
const idempotencyWindow = 5 * time.Minute

// Open makes the streams of a namespace, or adopts existing ones and gives them the History. A shorter History evicts at once.
func (b *Broker) Open(ctx context.Context, ns broker.Namespace) error {
	if err := b.open(ctx, ns); err != nil {
		return fmt.Errorf("nats: open namespace %q: %w", ns.Name, b.closedOr(err))
	}
	b.noteHeads()
	return nil
}

func (b *Broker) open(ctx context.Context, ns broker.Namespace) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	if err := b.partitions.Check(ctx, ns); err != nil {
		return err
	}
	n := &namespace{Namespace: ns}
	var all []*partition
	for i := range ns.Partitions {
		p := newPartition(b, n, i)
		if err := p.prepare(ctx); err != nil {
			return err
		}
		all = append(all, p)
	}
	return b.partitions.Open(ns, all, (*partition).setHistory)
}

// sizeReserve is how many publications of a channel the store keeps beyond the history. Loading does not show them. As many may be on their way
// to the followers: without the reserve, publishing to a channel with a short history would be slow.
const sizeReserve = 32

// perSubject returns how many publications of one subject may be on their way to the followers; 0 is no bound.
func (n *namespace) perSubject(h push.History) int {
	switch {
	case n.Mode != push.Stream:
		return 1
	case h.Size == 0:
		return 0
	}
	return h.Size + sizeReserve
}

// config returns the wanted configuration of the partition's stream.
func (p *partition) config() jetstream.StreamConfig {
	ns, h := p.ns, p.historyOf()
	c := jetstream.StreamConfig{
		Name:              p.stream,
		Description:       fmt.Sprintf("Sluice, namespace %q, partition %d of %d", ns.Name, p.id.Index+1, ns.Partitions),
		Subjects:          []string{p.prefix + ">"},
		Storage:           jetstream.MemoryStorage,
		Replicas:          1,
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		Duplicates:        idempotencyWindow,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		Metadata: map[string]string{
			metaMode:       ns.Mode.String(),
			metaPartitions: strconv.Itoa(ns.Partitions),
			metaSize:       strconv.Itoa(h.Size),
			metaAge:        h.Age.String(),
		},
	}
	if ns.Durable {
		c.Storage, c.Replicas = jetstream.FileStorage, p.broker.opts.Replicas
	}
	if ns.Mode == push.Stream {
		c.Discard, c.MaxMsgsPerSubject = jetstream.DiscardOld, -1
		if h.Size > 0 {
			c.MaxMsgsPerSubject = int64(h.Size + sizeReserve)
		}
		if h.Age > 0 {
			c.MaxAge = max(h.Age, idempotencyWindow) + ttlReserve
		}
	}
	return c
}

// prepare makes the partition's stream, or adapts the existing one to the namespace.
func (p *partition) prepare(ctx context.Context) error {
	timed, cancel := p.broker.timed(ctx)
	defer cancel()
	s, err := p.broker.js.Stream(timed, p.stream)
	if old := oldStreamName(p.id); errors.Is(err, jetstream.ErrStreamNotFound) && old != p.stream {
		if s, err = p.broker.js.Stream(timed, old); err == nil {
			p.stream = old // no other goroutine knows the partition yet
		}
	}
	want := p.config()
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, err = p.broker.js.CreateStream(timed, want); err != nil {
			return fmt.Errorf("create stream %s: %w", p.stream, err)
		}
		_, err = p.look(ctx)
		return err
	}
	if err != nil {
		return fmt.Errorf("look up stream %s: %w", p.stream, err)
	}
	info := s.CachedInfo()
	if err := p.accept(info.Config); err != nil {
		return err
	}
	p.hole = p.holeIn(timed, s)
	carry(&want, info)
	if !sameLimits(&info.Config, &want) {
		if _, err := p.broker.js.UpdateStream(timed, want); err != nil {
			return fmt.Errorf("update stream %s: %w", p.stream, err)
		}
	}
	_, err = p.look(ctx)
	return err
}

// accept returns the reason why an existing stream cannot be used, nil if it can.
func (p *partition) accept(c jetstream.StreamConfig) error {
	mode, partitions := c.Metadata[metaMode], c.Metadata[metaPartitions]
	isDurable := c.Storage == jetstream.FileStorage
	switch {
	case mode == "":
		return fmt.Errorf("stream %s exists but was not created by Sluice: delete or rename it, or choose another namespace name", p.stream)
	case mode != p.ns.Mode.String():
		return fmt.Errorf("the stream has mode %s, which cannot change to %v: choose another namespace name, or delete stream %s and its data",
			mode, p.ns.Mode, p.stream)
	case partitions != strconv.Itoa(p.ns.Partitions):
		return fmt.Errorf("the namespace has %s partitions, which cannot change to %d: choose another namespace name, or delete its streams and their data",
			partitions, p.ns.Partitions)
	case isDurable != p.ns.Durable:
		return fmt.Errorf("the stream has durable: %t, which cannot change: choose another namespace name, or delete stream %s and its data",
			isDurable, p.stream)
	}
	return nil
}

// carry copies the state in a stream's metadata into want. If the history becomes longer, it notes the offset up to which entries may be missing
// that the new limits would keep.
func carry(want *jetstream.StreamConfig, info *jetstream.StreamInfo) {
	old := info.Config.Metadata
	for _, name := range []string{metaGrown, metaFloor, metaRemovals, metaGeneration, metaLost} {
		if v, ok := old[name]; ok {
			want.Metadata[name] = v
		}
	}
	want.Replicas = info.Config.Replicas
	wasSize, _ := strconv.Atoi(old[metaSize])
	size, _ := strconv.Atoi(want.Metadata[metaSize])
	if wasSize > 0 && (size == 0 || size > wasSize) {
		want.Metadata[metaGrown] = strconv.FormatUint(info.State.LastSeq, 10)
	}
	wasAge, _ := time.ParseDuration(old[metaAge])
	age, _ := time.ParseDuration(want.Metadata[metaAge])
	if wasAge > 0 && (age == 0 || age > wasAge) {
		want.Metadata[metaFloor] = strconv.FormatUint(info.State.LastSeq, 10)
		if want.Metadata[metaMode] == push.Stream.String() && info.State.FirstSeq > 0 { // in stream mode the oldest are evicted first
			want.Metadata[metaFloor] = strconv.FormatUint(info.State.FirstSeq-1, 10)
		}
	}
}

// sameLimits reports whether a stream already has the wanted configuration. The server adds metadata of its own, which does not count.
func sameLimits(have, want *jetstream.StreamConfig) bool {
	for k, v := range want.Metadata {
		if have.Metadata[k] != v {
			return false
		}
	}
	return have.MaxAge == want.MaxAge && have.MaxMsgsPerSubject == want.MaxMsgsPerSubject && have.Discard == want.Discard &&
		have.AllowDirect && have.AllowMsgTTL
}
