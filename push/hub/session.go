package hub

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/presence"
)

// Session is a connected client as the hub sees it. Its methods may be called concurrently, but not from within its Carrier's.
type Session struct {
	// Set at Open. What a round needs comes first: of thousands of sessions each is cold when its turn comes.
	hub     *Hub
	carrier Carrier
	encoder Encoder

	dirty    atomic.Bool // somebody found the lock taken: look again before leaving
	writable atomic.Bool // the carrier said that it can take more
	queued   atomic.Bool // waits for a worker
	ordered  atomic.Bool // there are orders for it

	mu      sync.Mutex // guards what follows; whoever lets go of it does so with unlock
	subs    []*Subscription
	next    int // where the next flush begins, so that no subscription starves behind others
	blocked bool
	stalled bool // as it was counted: while a blocked session is tried again it is still stalled
	closed  bool
	paced   *paced // nil while all is served as soon as there is something

	// set at Open
	oneWay bool
	number uint32 // tells the hub's sessions apart, more or less
	info   push.ClientInfo
}

// Subscription is one session's cursor into one channel. What changes is guarded by the session's lock, apart from the atomics. There
// are many of them: their size is measured by BenchmarkIdle.
type Subscription struct {
	*particulars
	cursor  channel.Cursor
	session *Session
	topic   *topic
	ends    atomic.Pointer[push.Unsubscribe] // set when the server ends it; over when it has ended
	life    uint32                           // the topic's log the cursor belongs to
	slot    int32                            // among the topic's, whose lock guards it
	tally   channel.Tally                    // of a table or value channel
	lossy   bool                             // the client is told what it lost; set at the beginning
}

// particulars are what most subscriptions have in common. They do not change once a subscription has joined its topic.
type particulars struct {
	view     *channel.View
	presence *attendee // nil in namespaces without
	numbered bool      // publications go by the topic's number
	delta    push.Delta
}

// over marks subscriptions that are no longer there.
var over = &push.Unsubscribe{}

// address is what the subscription's frames call its channel.
func (sub *Subscription) address() Address {
	to := Address{Channel: sub.topic.name, Delta: sub.delta}
	if sub.numbered {
		to.Number = sub.topic.number
	}
	return to
}

// number has a subscription that has not joined yet go by its topic's number.
func (sub *Subscription) number(h *Hub) {
	if sub.particulars == &h.usual[0][sub.delta] {
		sub.particulars = &h.usual[1][sub.delta]
		return
	}
	sub.numbered = true
}

func (sub *Subscription) isOver() bool { return sub.ends.Load() == over }

// SessionOptions qualify a session.
type SessionOptions struct {
	// Info is who the client is. Client must be unique among all nodes.
	Info push.ClientInfo
	// OneWay says that the client cannot subscribe by itself: instead of one subscription its whole connection is ended.
	OneWay bool
	// Bandwidth is how many bytes a second the client wants to be sent at most, see [Session.SetBandwidth]; 0: as many as the hub allows.
	Bandwidth int64
}

// Connect makes a session. The caller closes it when the connection ends. Errors are *push.Error: bad request when the client's
// identity is in use on this node, internal after Close.
func (h *Hub) Connect(c Carrier, e Encoder, o SessionOptions) (*Session, error) {
	s := &Session{hub: h, info: o.Info, carrier: c, encoder: e, oneWay: o.OneWay}
	s.boundLocked(h.bandwidth(o.Bandwidth)) // nobody else knows of it yet
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, push.ErrInternal.WithMessage("the node is shutting down")
	}
	if h.sessions[o.Info.Client] != nil {
		return nil, push.ErrBadRequest.WithMessage("a client %q is connected already", o.Info.Client)
	}
	h.connected++
	s.number = h.connected
	h.sessions[o.Info.Client] = s
	return s, nil
}

// Info returns who the client is.
func (s *Session) Info() push.ClientInfo { return s.info }

// SubscribeRequest is what a client asks for.
type SubscribeRequest struct {
	Channel string
	// Since is the position to resume from; nil for a fresh start. The zero Position is before all that a stream has.
	Since *push.Position
	// View is what it wants to see of the channel; nil for all.
	View *channel.View
	// ChanInfo is JSON shown to others in presence, or nil.
	ChanInfo []byte
	// Numbered says that the client accepts frames of publications that have the channel's number instead of its name.
	Numbered bool
	// Delta is a form in which the client accepts publications as the difference to the one that they replace, if the namespace has it: in
	// a stream the one before, otherwise the one that was there, each with the same key. Not with a View.
	Delta push.Delta
	// Keyed says that the client keeps what it has by key, so that there may be differences in tables too.
	Keyed bool
	// Interval is the shortest time between two services of the subscription: what is published meanwhile is conflated in tables and
	// values, and comes together in streams. 0 is what the namespace has for who does not ask, less than 0 as often as it allows.
	Interval time.Duration
	// Lost says that the client can be told how many publications of a stream it lost because it was too slow, so that its subscription
	// goes on if the namespace has push.SlowLose: the number is in the next delivery of kind Put.
	Lost bool
	// Table says that the client keeps the rows of a table by their keys and has those as of Since. A position from which it cannot go on is
	// push.ErrUnrecoverablePosition, not a fresh start, and a channel that is no table push.ErrBadRequest.
	Table bool
	// Joins says that Since is from [Session.Rows], not from an earlier subscription; only with Table.
	Joins bool
	// Budget bounds what the answer carries; the rest follows as pushes. Zero: 512 entries, 32 KiB. Less than one entry: nothing.
	Budget channel.Budget
}

// Subscribed is the answer.
type Subscribed struct {
	// Position is where the client is once it has Deliveries.
	Position push.Position
	// Number is the channel's number, if publications go by it until the subscription ends, otherwise 0. No other subscription of the
	// session has it at the same time.
	Number uint32
	// Delta is the form in which publications may come as differences, if any. None of Deliveries is one.
	Delta push.Delta
	// Lost says that losses will be told; see [SubscribeRequest].
	Lost bool
	// Deliveries are what it gets with the answer: rows of the table, or what it missed. Only Put and Gone occur.
	Deliveries []channel.Delivery
	// Interval is what holds for the subscription.
	Interval time.Duration
	// Recovered says that it has missed nothing, or is getting all it missed, in Deliveries or right after them. It is false for a
	// fresh start.
	Recovered bool
}

// delta returns the form of differences that a request gets.
func (n *namespace) delta(r *SubscribeRequest) push.Delta {
	if r.View != nil || !slices.Contains(n.Deltas, r.Delta) || n.Mode == push.Table && !r.Keyed {
		return push.NoDelta
	}
	return r.Delta
}

// budget returns how much of the channel the answer may carry.
func (r *SubscribeRequest) budget() channel.Budget {
	if r.Budget == (channel.Budget{}) {
		return channel.Budget{Entries: 512, Bytes: 32 << 10}
	}
	return r.Budget
}

// Subscribe begins a subscription. answer is called before it returns, unless there is an error, and before anything else of the
// channel is sent to the carrier; an error from it undoes the subscription and is returned. Errors are *push.Error: already
// subscribed, limit exceeded, unknown channel, bad request, internal; with Table also push.ErrUnrecoverablePosition.
func (s *Session) Subscribe(ctx context.Context, r SubscribeRequest, answer func(Subscribed) error) error {
	find := s.hub.namespaceOf
	if r.Table {
		find = s.hub.tableOf
	}
	n, err := find(r.Channel)
	if err != nil {
		return err
	}
	return s.subscribe(ctx, n, r, answer)
}

// subscribe is Subscribe for a channel of n.
func (s *Session) subscribe(ctx context.Context, n *namespace, r SubscribeRequest, answer func(Subscribed) error) error {
	if err := s.admit(r.Channel); err != nil {
		return err
	}
	p := n.partition(r.Channel)
	t, err := p.acquire(ctx, r.Channel)
	if err != nil {
		return err
	}
	since, err := t.confirm(ctx, r.Since, r.View)
	if err != nil {
		t.release()
		return err
	}
	form := n.delta(&r)
	sub := &Subscription{particulars: &s.hub.usual[0][form], session: s, topic: t, lossy: r.Lost && n.Slow == push.SlowLose}
	if n.Presence || r.View != nil {
		sub.particulars = &particulars{view: r.View, delta: form}
	}
	if n.Presence {
		sub.presence = &attendee{topic: t, key: presence.NewKey(r.Channel), info: s.info}
		sub.presence.info.ChanInfo = r.ChanInfo
		s.hub.present(ctx, sub.presence)
	}
	s.mu.Lock()
	err = s.subscribeLocked(t, sub, r, since, answer)
	s.unlock()
	if err != nil {
		t.release()
		s.hub.absentNow(sub)
	}
	return err
}

// admit checks what can be checked before the channel is loaded.
func (s *Session) admit(name string) error {
	s.mu.Lock()
	defer s.unlock()
	return s.admitLocked(name)
}

func (s *Session) admitLocked(name string) error {
	most := s.hub.options.SubscriptionsPerSession
	switch {
	case s.closed:
		return push.ErrInternal.WithMessage("the connection is closed")
	case s.find(name) != nil:
		return push.ErrAlreadySubscribed
	case most > 0 && len(s.subs) >= most:
		return push.ErrLimitExceeded.WithMessage("at most %d subscriptions are allowed", most)
	}
	return nil
}

// confirm asks the broker about a position that the log has not reached. It returns nil when the position is void, so that the
// subscription starts fresh.
func (t *topic) confirm(ctx context.Context, since *push.Position, v *channel.View) (*push.Position, error) {
	if since == nil {
		return nil, nil //nolint:nilnil // no position is a position here
	}
	t.mu.Lock()
	if err := t.usableLocked(); err != nil {
		t.mu.Unlock()
		return nil, err
	}
	t.positionLocked(v)
	_, outcome := t.log.Subscribe(since, v)
	epoch := t.log.Epoch()
	if *since == (push.Position{}) && t.log.Mode() == push.Stream && v == nil {
		since, outcome = &push.Position{Epoch: epoch, Offset: t.oldestLocked()}, channel.Fresh
	}
	t.mu.Unlock()
	if outcome != channel.Ahead {
		return since, nil
	}
	head, err := t.part.hub.broker.Head(ctx, t.part.id)
	if err != nil {
		return nil, push.ErrInternal.WithMessage("the broker does not say whether the position is known")
	}
	if head.Epoch != epoch || head.Offset < since.Offset {
		return nil, nil //nolint:nilnil // as above
	}
	return since, nil
}

// subscribeLocked sets the cursor, at since if that is not nil, and answers. The fan-out may see the subscription as soon as it has
// joined, and finds the session's lock taken until the answer is given. The caller's hold on the topic becomes the subscription's
// unless there is an error.
func (s *Session) subscribeLocked(
	t *topic, sub *Subscription, r SubscribeRequest, since *push.Position, answer func(Subscribed) error,
) error {
	if err := s.admitLocked(t.name); err != nil { // once more: others may have subscribed while the channel was loaded
		return err
	}
	if r.Numbered && s.isFreeLocked(t.number) {
		sub.number(s.hub)
	}
	t.mu.Lock()
	if err := t.usableLocked(); err != nil {
		t.mu.Unlock()
		return err
	}
	at := t.positionLocked(sub.view)
	cursor, outcome := t.log.Subscribe(since, sub.view)
	if outcome == channel.Fresh && r.Table {
		t.mu.Unlock()
		t.part.namespace.counts.countSubscribe(&r, outcome, freshnessOf(r.Since, at, since == nil))
		return push.ErrUnrecoverablePosition
	}
	deliveries, end, _ := t.log.Read(cursor, sub.view, r.budget(), nil)
	sub.cursor, sub.life = end, t.life.Load()
	t.joinLocked(sub)
	progress := t.log.Progress()
	t.mu.Unlock()
	sub.tally, _ = sub.tally.Count(len(deliveries), end, progress)

	s.subs = append(s.subs, sub)
	at.Offset = end.Offset()
	told := Subscribed{
		Position: at, Number: sub.address().Number, Delta: sub.delta, Lost: sub.lossy, Deliveries: deliveries, Recovered: outcome != channel.Fresh,
	}
	told.Interval = s.paceLocked(sub, t.part.namespace.interval(r.Interval), deliveries)
	if err := answer(told); err != nil {
		s.dropLocked(sub)
		return err
	}
	t.part.namespace.counts.countSubscribe(&r, outcome, freshnessOf(r.Since, at, since == nil))
	s.dirty.Store(true) // more may have come, or have been left
	return nil
}

// isFreeLocked reports whether no subscription goes by a number: after four thousand million channels numbers are used again.
func (s *Session) isFreeLocked(number uint32) bool {
	return number != 0 && !slices.ContainsFunc(s.subs, func(sub *Subscription) bool { return sub.address().Number == number })
}

func (s *Session) find(name string) *Subscription {
	for _, sub := range s.subs {
		if sub.topic.name == name {
			return sub
		}
	}
	return nil
}

// Subscribes reports whether the session is subscribed to a channel.
func (s *Session) Subscribes(name string) bool {
	s.mu.Lock()
	defer s.unlock()
	return s.find(name) != nil
}

// Unsubscribe ends a subscription at the client's wish and reports whether there was one. Nothing of the channel is sent afterwards.
func (s *Session) Unsubscribe(name string) bool {
	s.mu.Lock()
	sub := s.find(name)
	if sub != nil {
		s.removeLocked(sub)
	}
	s.unlock()
	if sub == nil {
		return false
	}
	s.hub.absentNow(sub)
	return true
}

// removeLocked ends a subscription and its hold on the topic.
func (s *Session) removeLocked(sub *Subscription) {
	s.dropLocked(sub)
	sub.topic.release()
}

// dropLocked takes a subscription out of the session and its topic.
func (s *Session) dropLocked(sub *Subscription) {
	i := slices.Index(s.subs, sub)
	s.subs = slices.Delete(s.subs, i, i+1)
	if s.paced != nil {
		s.paced.remove(sub)
	}
	if s.next > i {
		s.next--
	}
	sub.ends.Store(over)
	sub.topic.leave(sub)
}

// Disconnect ends the client's connection from the server's side. It does not wait for the session's lock: a client that reads no
// answers holds it.
func (s *Session) Disconnect(d push.Disconnect) { s.carrier.Disconnect(d) }

// Close ends all subscriptions without telling the client: its connection is over. It waits while an answer to the client is
// being written. Nothing is written to the carrier afterwards. Closing again does nothing.
func (s *Session) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), s.hub.options.LoadTimeout)
	defer cancel()
	s.close(ctx)
}

// close is Close; ctx bounds what the broker is told of it.
func (s *Session) close(ctx context.Context) {
	s.mu.Lock()
	if s.closed {
		s.unlock()
		return
	}
	s.closed = true
	s.blockLocked(false)
	subs := slices.Clone(s.subs)
	for _, sub := range subs {
		s.removeLocked(sub)
	}
	h := s.hub
	if s.paced != nil {
		h.alarms.Cancel(s.paced.alarm)
	}
	s.mu.Unlock() // not unlock: there is nothing left to be flushed
	_ = h.orders.take(s)
	h.mu.Lock()
	delete(h.sessions, s.info.Client)
	h.mu.Unlock()
	for _, sub := range subs {
		h.absent(ctx, sub)
	}
}
