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

// What a stream's metadata says of it.
const (
	metaMode       = "sluice-mode"
	metaPartitions = "sluice-partitions"
	metaSize       = "sluice-size"       // History.Size
	metaAge        = "sluice-age"        // History.Age
	metaGrown      = "sluice-grown"      // the last offset when the history was last allowed to be longer
	metaFloor      = "sluice-floor"      // up to this offset there may be evictions that the history of today does not explain, and holes
	metaGeneration = "sluice-generation" // changed when the stream was found to be shorter than it was
	metaRemovals   = "sluice-removals"   // there are or were removals in this table
	metaLost       = "sluice-lost"       // what the server had lost of it when the generation was last changed
)

// idempotencyWindow is how long idempotency keys count.
const idempotencyWindow = 5 * time.Minute

// Open makes the streams of a namespace, or takes over those that are there. Another History is given to them: one that is shorter
// evicts at once.
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
	if ns.Partitions < 1 {
		return fmt.Errorf("%d partitions, at least 1 is needed", ns.Partitions)
	}
	if n, err := b.namespace(ctx, ns.Name); err == nil {
		if err := n.refuse(ns); err != nil {
			return err
		}
	}
	n := &namespace{Namespace: ns}
	for i := range ns.Partitions {
		p := newPartition(b, n, i)
		if err := p.prepare(ctx); err != nil {
			return err
		}
		n.partitions = append(n.partitions, p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return broker.ErrClosed
	}
	if old := b.namespaces[ns.Name]; old != nil { // its partitions are in use
		for _, p := range old.partitions {
			p.setHistory(ns.History)
		}
		return old.refuse(ns)
	}
	b.namespaces[ns.Name] = n
	return nil
}

// refuse says why an open namespace cannot be opened as ns.
func (n *namespace) refuse(ns broker.Namespace) error {
	switch {
	case n.Mode != ns.Mode:
		return fmt.Errorf("it is open in mode %v, which cannot become %v", n.Mode, ns.Mode)
	case n.Partitions != ns.Partitions:
		return fmt.Errorf("it is open with %d partitions, which cannot become %d", n.Partitions, ns.Partitions)
	case n.Durable != ns.Durable:
		return errors.New("it is open, and whether it is durable cannot be changed")
	}
	return nil
}

// sizeReserve is how many publications of a channel the store keeps beyond the history, which loading does not show. As many may be
// on their way to the followers: without it a channel with a short history would be slow to publish to.
const sizeReserve = 32

// perSubject is how many publications of one subject may be on their way; 0 is no bound.
func (n *namespace) perSubject(h push.History) int {
	switch {
	case n.Mode != push.Stream:
		return 1
	case h.Size == 0:
		return 0
	}
	return h.Size + sizeReserve
}

// config returns what the partition's stream has to be.
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

// prepare makes the partition's stream, or brings the one that is there in line with the namespace.
func (p *partition) prepare(ctx context.Context) error {
	timed, cancel := p.broker.timed(ctx)
	defer cancel()
	s, err := p.broker.js.Stream(timed, p.stream)
	if old := oldStreamName(p.id); errors.Is(err, jetstream.ErrStreamNotFound) && old != p.stream {
		if s, err = p.broker.js.Stream(timed, old); err == nil {
			p.stream = old // nobody else knows the partition yet
		}
	}
	want := p.config()
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, err = p.broker.js.CreateStream(timed, want); err != nil {
			return fmt.Errorf("make the stream %s: %w", p.stream, err)
		}
		_, err = p.look(ctx)
		return err
	}
	if err != nil {
		return fmt.Errorf("look for the stream %s: %w", p.stream, err)
	}
	info := s.CachedInfo()
	if err := p.accept(info.Config); err != nil {
		return err
	}
	p.hole = p.holeIn(timed, s)
	carry(&want, info)
	if !sameLimits(&info.Config, &want) {
		if _, err := p.broker.js.UpdateStream(timed, want); err != nil {
			return fmt.Errorf("change the stream %s: %w", p.stream, err)
		}
	}
	_, err = p.look(ctx)
	return err
}

// accept says why a stream that is there cannot be ours.
func (p *partition) accept(c jetstream.StreamConfig) error {
	mode, partitions := c.Metadata[metaMode], c.Metadata[metaPartitions]
	isDurable := c.Storage == jetstream.FileStorage
	switch {
	case mode == "":
		return fmt.Errorf("there is a stream %s, but Sluice did not make it", p.stream)
	case mode != p.ns.Mode.String():
		return fmt.Errorf("it was made in mode %s, which cannot become %v: choose another name, or delete the stream %s and all it holds",
			mode, p.ns.Mode, p.stream)
	case partitions != strconv.Itoa(p.ns.Partitions):
		return fmt.Errorf("it was made with %s partitions, which cannot become %d: choose another name, or delete the streams and all they hold",
			partitions, p.ns.Partitions)
	case isDurable != p.ns.Durable:
		return fmt.Errorf("it was made with durable: %t, which cannot be changed: choose another name, or delete the stream %s and all it holds",
			isDurable, p.stream)
	}
	return nil
}

// carry takes over into want what a stream's metadata remembers, and notes when its history may be longer from now on: then less may be
// there than the new limits explain.
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
		if want.Metadata[metaMode] == push.Stream.String() && info.State.FirstSeq > 0 { // of a stream the oldest goes first
			want.Metadata[metaFloor] = strconv.FormatUint(info.State.FirstSeq-1, 10)
		}
	}
}

// sameLimits reports whether a stream need not be changed. The server adds metadata of its own.
func sameLimits(have, want *jetstream.StreamConfig) bool {
	for k, v := range want.Metadata {
		if have.Metadata[k] != v {
			return false
		}
	}
	return have.MaxAge == want.MaxAge && have.MaxMsgsPerSubject == want.MaxMsgsPerSubject && have.Discard == want.Discard &&
		have.AllowDirect && have.AllowMsgTTL
}
