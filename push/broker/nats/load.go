package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	nats "github.com/nats-io/nats.go"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

const (
	batchMessages = 8192        // how many are requested at once; for each batch the server counts all that there are
	batchBytes    = 4 << 20     // how many bytes are requested at once, give or take a message
	horizonFor    = time.Second // for how long an answer of tooOld is reused, at most
)

// errNoResponders means that a stream does not exist.
var errNoResponders = errors.New("no such stream")

func (b *Broker) load(ctx context.Context, channel string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	p, err := b.partitions.Of(ctx, channel)
	if err != nil {
		return broker.History{}, err
	}
	l, err := p.load(ctx, channel)
	for range mostAgain {
		if !errors.Is(err, errReconnected) {
			break
		}
		l, err = p.load(ctx, channel)
	}
	if err != nil {
		return broker.History{}, err
	}
	rowsOnly := o.RowsOnly && p.ns.Mode != push.Stream
	for i := range l.kept {
		if err := ctx.Err(); err != nil {
			return broker.History{}, err
		}
		if rowsOnly && l.kept[i].Op == push.Remove {
			continue
		}
		if err := visit(broker.Message{Channel: channel, Publication: l.kept[i]}); err != nil {
			return broker.History{}, err
		}
	}
	if rowsOnly {
		l.Floor = l.Head
	}
	return l.History, nil
}

// loaded is the result of loading a channel.
type loaded struct {
	broker.History
	kept []push.Publication
}

func (p *partition) load(ctx context.Context, channel string) (loaded, error) {
	// The age limit is determined first. It can then only be too low, and by less than the time that the store keeps entries longer.
	before := p.view()
	var tooOld uint64
	var err error
	if p.ns.Mode == push.Stream || p.hasRemovals() { // of a table only removals expire
		tooOld, err = p.tooOld(ctx)
	}
	if err != nil {
		return loaded{}, err
	}
	known := p.position().Offset
	found, err := p.read(ctx, channel)
	if err == nil {
		err = p.confirm(ctx, before, p.broker.connections(), 0)
	}
	if err != nil {
		return loaded{}, err
	}
	p.mu.Lock()
	k := keep{mode: p.ns.Mode, history: p.history, tooOld: tooOld, grown: p.grown, floor: p.floor}
	p.mu.Unlock()
	kept, floor := k.arrange(found)
	return loaded{broker.History{Epoch: before.Epoch, Floor: floor, Head: max(known, found.last, floor)}, kept}, nil
}

// getRequest is JetStream's direct get request for a batch of messages.
type getRequest struct {
	Seq       uint64     `json:"seq,omitempty"`
	Next      string     `json:"next_by_subj,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	Batch     int        `json:"batch"`
	MaxBytes  int        `json:"max_bytes,omitempty"`
}

// get requests a batch and calls visit for each message. It returns how many more messages there are.
func (b *Broker) get(ctx context.Context, stream string, r getRequest, visit func(*stored) error) (more uint64, err error) {
	ctx, cancel := b.timed(ctx)
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	back := b.whenBack()
	in, conn := newConsumerQueue(), b.forReads()
	inbox := conn.NewInbox()
	var gone sync.WaitGroup
	defer gone.Wait()
	sub, err := subscribe(conn, inbox, in.add)
	if err != nil {
		return 0, err
	}
	gone.Add(1)
	sub.SetClosedHandler(func(string) { gone.Done() })
	defer func() { _ = sub.Unsubscribe() }()
	if err := conn.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return 0, err
	}
	var msgs []*nats.Msg
	for {
		select {
		case <-in.wake:
		case <-back: // the answer may have been lost with a connection
			return 0, errReconnected
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-b.ctx.Done():
			return 0, broker.ErrClosed
		}
		msgs = in.take(msgs)
		for _, m := range msgs {
			switch status := value(m.Header, "Status"); status {
			case "":
				s, err := storedOf(m)
				if err == nil {
					err = visit(s)
				}
				if err != nil {
					return 0, err
				}
			case "204":
				return strconv.ParseUint(value(m.Header, "Nats-Num-Pending"), 10, 64)
			case "404":
				return 0, nil
			case "503":
				b.wake()
				return 0, fmt.Errorf("%w: no server at %s holds stream %s", errNoResponders, b.where(), stream)
			default:
				b.wake()
				return 0, fmt.Errorf("%s answered %s %s", b.where(), status, value(m.Header, "Description"))
			}
		}
	}
}

// storedOf decodes one answer to a direct get.
func storedOf(m *nats.Msg) (*stored, error) {
	seq, err := strconv.ParseUint(value(m.Header, "Nats-Sequence"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("message without a sequence number: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, value(m.Header, "Nats-Time-Stamp"))
	if err != nil {
		return nil, fmt.Errorf("message without a timestamp: %w", err)
	}
	return &stored{subject: value(m.Header, "Nats-Subject"), header: m.Header, data: m.Data, seq: seq, time: at}, nil
}

// found is the result of reading the stream for a channel.
type found struct {
	entries []push.Publication // in offset order; rows of a table that were replaced meanwhile may occur twice
	stored  int                // how many messages there are, including ones that are no publications
	last    uint64             // the last offset
	gone    uint64             // up to this offset, entries were evicted meanwhile
}

// read reads all stored messages of a channel.
func (p *partition) read(ctx context.Context, channel string) (f found, err error) {
	r := getRequest{Seq: 1, Next: filter(p.prefix, p.ns.Mode, channel), Batch: batchMessages, MaxBytes: batchBytes}
	for batches := 1; ; batches++ {
		more, err := p.broker.get(ctx, p.stream, r, func(s *stored) error {
			f.last = s.seq
			f.stored++
			if m, err := p.decode(s); err == nil { // otherwise the followers log it
				f.entries = append(f.entries, m.Publication)
			}
			return nil
		})
		if err != nil {
			return found{}, err
		}
		if more == 0 || r.Seq > f.last {
			if batches > 1 && p.ns.Mode == push.Stream {
				err = p.dropEvicted(ctx, r.Next, &f)
			}
			return f, err
		}
		r.Seq = f.last + 1
	}
}

// dropEvicted drops the entries that are not stored any more. While several batches were read, the oldest entries may have been evicted, so
// entries may be missing between those read earlier and those read later.
func (p *partition) dropEvicted(ctx context.Context, subject string, f *found) error {
	oldest := f.last + 1
	_, err := p.broker.get(ctx, p.stream, getRequest{Seq: 1, Next: subject, Batch: 1}, func(s *stored) error {
		oldest = s.seq
		return nil
	})
	for len(f.entries) > 0 && f.entries[0].Offset < oldest {
		f.gone = f.entries[0].Offset
		f.entries = f.entries[1:]
	}
	if f.gone > 0 {
		f.gone = oldest - 1
	}
	return err
}

// tooOld returns the partition's last offset that is older than the history allows, 0 if there is none. The answer may be up to horizonFor old.
func (p *partition) tooOld(ctx context.Context) (uint64, error) {
	p.mu.Lock()
	age, h := p.history.Age, p.horizon
	p.mu.Unlock()
	if age == 0 {
		return 0, nil
	}
	if time.Now().Before(h.until) {
		return h.offset, nil
	}
	timed, cancel := p.broker.timed(ctx)
	defer cancel()
	asked := time.Now()
	s, err := p.broker.js.Stream(timed, p.stream)
	if err != nil {
		return 0, fmt.Errorf("stream %s at %s: %w", p.stream, p.broker.where(), err)
	}
	info := s.CachedInfo()
	now := info.TimeStamp
	if now.IsZero() {
		now = time.Now()
	}
	from := now.Add(-age)
	offset := info.State.LastSeq
	if from.Before(info.Created) {
		// Nothing can be too old. That matters in a table, where the oldest message that is left may be the newest of all rows.
		offset = 0
	} else if _, err = p.broker.get(timed, p.stream, getRequest{StartTime: &from, Batch: 1}, func(s *stored) error {
		offset = s.seq - 1
		return nil
	}); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch := p.epochOf(info); epoch == p.epoch {
		p.known = max(p.known, info.State.LastSeq)
		offset = max(offset, p.horizon.offset)
		p.horizon = horizon{offset: offset, until: asked.Add(min(horizonFor, age/64))}
	}
	return offset, nil
}
