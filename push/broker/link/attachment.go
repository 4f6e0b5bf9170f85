package link

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
	"github.com/sluice-push/sluice/rpc"
)

// attachment is a follower of a partition. Its goroutine keeps a Follow stream open, and is the only one that calls the follower.
type attachment struct {
	broker    *Broker
	partition broker.Partition
	follower  broker.Follower
	interest  *interest
	cancel    context.CancelFunc
	done      chan struct{} // closed when the goroutine has ended
	begun     chan error    // receives once, when isSettled: the first stream has begun, or will not

	start push.Position // of the first stream

	// Owned by the goroutine.
	epoch string
	mark  uint64 // the follower has everything up to here
	spare []broker.Message

	// Catch-ups have left out versions of rows: newer versions come, up to the offset conflated. Until the follower has these, it does not know all tags that
	// rows have had above the offset certain. Other goroutines read certain; if nothing is left out, it is allCertain.
	conflated uint64
	certain   atomic.Uint64

	mu        sync.Mutex         // guards the following
	isSettled bool               // the outcome of Attach is final
	address   string             // of the hub that the stream comes from
	best      string             // the best hub when it was opened
	end       context.CancelFunc // ends the stream
}

// Attach implements broker.Broker.
func (b *Broker) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	p, err := b.table.At(ctx, p)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(b.ctx)
	a := &attachment{
		broker: b, partition: p, follower: f, interest: newInterest(running), cancel: cancel,
		done: make(chan struct{}), begun: make(chan error, 1),
	}
	a.certain.Store(allCertain)
	b.mu.Lock()
	b.attachments[a] = struct{}{}
	b.mu.Unlock()
	if !b.start(func() { a.run(running) }) {
		close(a.done)
		a.Detach()
		return nil, broker.ErrClosed
	}
	limit := time.NewTimer(b.options.Timeout)
	defer limit.Stop()
	select {
	case err = <-a.begun:
	case <-a.done: // the broker was closed, or the stream was refused
		select {
		case err = <-a.begun:
		default:
			err = broker.ErrClosed
		}
	case <-ctx.Done():
		err = a.giveUp(ctx.Err())
	case <-limit.C:
		err = a.giveUp(fmt.Errorf("%w: no hub can be reached", broker.ErrBusy))
	}
	if err != nil {
		a.Detach()
		if b.ctx.Err() != nil {
			err = broker.ErrClosed
		}
		return nil, err
	}
	return a, nil
}

// settle makes the caller's outcome of Attach final. It reports false if another outcome was final before.
func (a *attachment) settle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	isFirst := !a.isSettled
	a.isSettled = true
	return isFirst
}

// giveUp returns err as the outcome of Attach, unless another outcome is final. After that no method of the follower is called. A method that still ran
// could wait for a lock of the caller of Attach, while Attach waits for the method.
func (a *attachment) giveUp(err error) error {
	if a.settle() {
		return err
	}
	return <-a.begun
}

// Start implements broker.Attachment.
func (a *attachment) Start() push.Position { return a.start }

// Want implements broker.Attachment.
func (a *attachment) Want(ctx context.Context, channel string) error {
	err := a.interest.want(ctx, channel)
	if err != nil && a.broker.ctx.Err() != nil {
		return broker.ErrClosed
	}
	return wire.CallError(ctx, err)
}

// Unwant implements broker.Attachment.
func (a *attachment) Unwant(channel string) { a.interest.unwant(channel) }

// Detach implements broker.Attachment.
func (a *attachment) Detach() {
	a.cancel()
	<-a.done
	a.interest.gone()
	a.broker.mu.Lock()
	delete(a.broker.attachments, a)
	a.broker.mu.Unlock()
}

// reconsider ends the stream if the partition's best hub is another one than when the stream was opened, or the stream's hub does not have it any more.
func (a *attachment) reconsider() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.address == "" {
		return
	}
	if hubs := a.broker.options.Placement.Hubs(a.partition); len(hubs) > 0 && (hubs[0] != a.best || !slices.Contains(hubs, a.address)) {
		a.end()
	}
}

// longestPause is the longest time between two attempts to open a stream.
const longestPause = time.Second

// run keeps a stream open.
func (a *attachment) run(ctx context.Context) {
	defer close(a.done)
	pause := retryAfter
	for ctx.Err() == nil {
		streamed, err := a.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if a.start == (push.Position{}) && !isAway(err, true) {
			if a.settle() {
				a.begun <- wire.CallError(ctx, err)
			}
			return
		}
		if !streamed && !isAway(err, true) {
			a.broker.options.Logger.Warn("a partition cannot be followed", "namespace", a.partition.Namespace, "partition", a.partition.Index, "error", err)
		}
		if streamed {
			a.broker.reconnects.Add(1)
			a.broker.options.Logger.Info("the stream of a partition ended", "namespace", a.partition.Namespace, "partition", a.partition.Index, "error", err)
			pause = retryAfter
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// follow opens a stream and receives from it until it ends. It reports whether the follower had caught up.
func (a *attachment) follow(ctx context.Context) (streamed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = errNoHub
	hubs := a.broker.options.Placement.Hubs(a.partition)
	for _, address := range hubs {
		var c *conn
		if c, err = a.broker.conns.get(ctx, address, a.partition); err != nil {
			continue
		}
		f := &stream{attachment: a, conn: c, id: rand.Text(), stop: cancel}
		if err = f.begin(ctx); err != nil {
			continue
		}
		a.setHub(address, hubs[0], cancel)
		a.reconsider() // the placement may have changed meanwhile
		err = f.receive(ctx)
		a.setHub("", "", nil)
		cancel()
		a.interest.gone()
		_ = f.events.Close()
		return f.hasCaughtUp, err
	}
	return false, err
}

// setHub notes from which hub the stream comes; an empty address: there is no stream.
func (a *attachment) setHub(address, best string, end context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.address, a.best, a.end = address, best, end
}

// stream is a Follow stream of an attachment.
type stream struct {
	*attachment
	conn        *conn
	id          string
	stop        context.CancelFunc // ends the stream
	events      *rpc.Stream
	last        event // what Receive decodes into
	hasCaughtUp bool
}

// begin opens the stream, and receives its start.
func (s *stream) begin(ctx context.Context) error {
	in := &wire.FollowRequest{Partition: s.partition, ID: s.id}
	events, err := s.conn.Stream(ctx, &rpc.Request{Method: wire.Follow, Form: eventForm{rpc.Raw}, Metadata: s.conn.metadata}, in.Append(nil))
	if err != nil {
		return err
	}
	s.events = events
	first, err := s.next()
	if err == nil && first.Kind != wire.Start {
		err = wire.ErrLayout
	}
	if err != nil {
		_ = events.Close()
		return err
	}
	at := push.Position{Epoch: first.Epoch, Offset: first.Offset}
	switch {
	case s.start == push.Position{}:
		if !s.settle() {
			_ = events.Close()
			return context.Canceled // Attach has given up
		}
		s.start, s.epoch, s.mark = at, at.Epoch, at.Offset
		s.begun <- nil
	case at.Epoch != s.epoch:
		s.reset(at)
	}
	return nil
}

func (s *stream) next() (wire.Event, error) {
	s.last.Messages = s.spare[:0]
	if err := s.events.Receive(&s.last); err != nil {
		if errors.Is(err, io.EOF) {
			err = errMoved
		}
		return wire.Event{}, err
	}
	return s.last.Event, nil
}

// event is an event with what decodes it. Its messages are memory for those of the next event.
type event struct {
	wire.Event
	decoder wire.Decoder
}

// eventForm is rpc.Raw for a Follow stream. An event is decoded where its bytes have arrived, which saves a copy.
type eventForm struct{ rpc.Form }

// Parse implements rpc.Form.
func (f eventForm) Parse(body []byte, value any) (err error) {
	e, ok := value.(*event)
	if !ok {
		return f.Form.Parse(body, value)
	}
	e.Event, err = e.decoder.Event(body, e.Messages[:0])
	return err
}

// errMoved means that a hub has ended a stream because it is about to end itself.
var errMoved = errors.New("link: the hub ended the stream")

// receive tells the hub what the follower wants, catches up, and passes on what happens.
func (s *stream) receive(ctx context.Context) error {
	upTo, err := s.interest.tell(ctx, s)
	if err != nil {
		return err
	}
	if err := s.catchUp(ctx, upTo); err != nil {
		return err
	}
	s.hasCaughtUp = true
	for {
		e, err := s.next()
		if err != nil {
			return err
		}
		switch e.Kind {
		case wire.Batch:
			s.deliver(e.Messages, e.Offset)
		case wire.Skipped:
			err = s.catchUp(ctx, e.Offset)
		case wire.Gap:
			s.gap(e.Channel, e.Offset)
		case wire.Reset:
			// The hub may have been told of channels after the new epoch had begun. A new stream begins with a start after which it has them all.
			err = errReset
		default:
			err = wire.ErrLayout
		}
		if err != nil {
			return err
		}
	}
}

// deliver gives the follower the messages that it does not have yet. After that the follower has everything up to an offset.
func (s *stream) deliver(messages []broker.Message, upTo uint64) {
	s.spare = messages
	first := 0
	for first < len(messages) && messages[first].Offset <= s.mark {
		first++
	}
	if fresh := messages[first:]; len(fresh) > 0 {
		for i := range fresh {
			if fresh[i].Offset > s.conflated {
				break
			}
			s.retag(&fresh[i])
		}
		s.mark = fresh[len(fresh)-1].Offset
		s.follower.Deliver(fresh)
	}
	clear(messages)
	if upTo > s.mark {
		s.mark = upTo
		s.follower.Advance(upTo)
	}
	s.settleTags()
}

// gap tells the follower of a gap, unless it has everything up to there already.
func (s *stream) gap(channel string, offset uint64) {
	if offset <= s.mark {
		return
	}
	if channel == "" {
		s.mark = offset
	}
	s.follower.Gap(channel, offset)
}

// retag marks a message whose row may have had versions that were left out, with other tags: the follower and its clients do not know these.
func (s *stream) retag(m *broker.Message) {
	if m.Retag == 0 || m.Retag > s.certain.Load() {
		m.Retag = m.Offset
	}
}

// allCertain is what attachment.certain is if nothing is left out.
const allCertain = math.MaxUint64

// settleTags notes that nothing is left out any more, if the follower has all that was.
func (a *attachment) settleTags() {
	if a.mark >= a.conflated {
		a.certain.Store(allCertain)
	}
}

// reset begins a new epoch.
func (s *stream) reset(at push.Position) {
	s.epoch, s.mark, s.conflated = at.Epoch, at.Offset, 0
	s.settleTags()
	s.follower.Reset(at)
}

// catchUp loads what the follower misses up to an offset, and then lets the stream go on.
func (s *stream) catchUp(ctx context.Context, upTo uint64) error {
	if upTo > s.mark {
		missed, err := s.loadMissed(ctx, s.interest.wanted(), upTo)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(missed, caughtUp) {
			if err := s.interest.ctx.Err(); err != nil {
				return err // it was detached
			}
			s.mark = part[len(part)-1].Offset
			s.follower.Deliver(part)
		}
		if upTo > s.mark {
			s.mark = upTo
			s.follower.Advance(upTo)
		}
		s.settleTags()
	}
	return s.interest.resume(ctx, s.conn, s.id)
}

const (
	caughtUp    = 512 // messages that a follower gets at a time after a catch-up
	loadsAtOnce = 16  // of a catch-up
)

// loadMissed returns what was published to channels above the mark and up to an offset, in order. It tells the follower of gaps.
func (s *stream) loadMissed(ctx context.Context, channels []string, upTo uint64) ([]broker.Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.certain.Load() == allCertain { // otherwise some of an earlier catch-up have not come yet
		s.certain.Store(s.mark)
	}
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		missed []broker.Message
		gaps   = map[string]uint64{}
	)
	next := make(chan string)
	for range min(loadsAtOnce, len(channels)) {
		wait.Go(func() {
			for channel := range next {
				var mine []broker.Message
				h, err := s.conn.load(ctx, &wire.LoadRequest{Channel: channel, After: s.mark}, func(m broker.Message) error {
					if m.Offset > upTo {
						return nil
					}
					s.retag(&m)
					mine = append(mine, m)
					return nil
				})
				switch {
				case rpc.CodeOf(err) == rpc.TooLarge: // a publication does not fit into a frame
					h, mine, err = broker.History{Epoch: s.epoch, Floor: upTo}, nil, nil
				case err == nil && h.Epoch != s.epoch:
					err = errReset
				}
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				s.conflated = max(s.conflated, h.Head)
				missed = append(missed, mine...)
				if h.Floor > s.mark {
					gaps[channel] = min(h.Floor, upTo)
				}
				mu.Unlock()
			}
		})
	}
	for _, channel := range channels {
		next <- channel
	}
	close(next)
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for channel, offset := range gaps {
		s.gap(channel, offset)
	}
	slices.SortFunc(missed, func(a, b broker.Message) int { return cmp.Compare(a.Offset, b.Offset) })
	return missed, nil
}

// errReset means that the partition has begun a new epoch.
var errReset = errors.New("link: the partition has a new epoch")
