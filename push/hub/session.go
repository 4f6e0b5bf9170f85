package hub

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub/counters"
	"github.com/sluice-push/sluice/push/presence"
)

// Session is a connected client as the hub sees it. Its methods may be called concurrently, but not from methods of its Carrier.
type Session struct {
	// Set by Connect. The fields that a batch needs come first: of thousands of sessions, each is outside the processor's caches when it is served.
	hub     *Hub
	carrier Carrier
	encoder Encoder

	dirty      atomic.Bool // a flush is wanted; the holder of the lock looks at the bit before and after it releases the lock
	writable   atomic.Bool // Flush was called: the carrier can take more
	queued     atomic.Bool // waits for a worker
	hasChanges atomic.Bool // a change of pace is pending, see paceAll

	mu      sync.Mutex // guards the fields up to paced; only unlock releases it, except in close
	subs    []*Subscription
	next    int  // index of the subscription with which the next flush begins, so that none starves behind others
	blocked bool // the carrier has refused frames
	stalled bool // blocked as it was counted: while a blocked session is tried again, it is still stalled
	closed  bool
	paced   *paced // nil while the session has no pacer, and serves every subscription at once

	// Set by Connect.
	oneWay bool
	number uint32 // hash key of the session; differs from those of the 4 billion sessions before it
	info   push.ClientInfo
}

// Subscription is one session's cursor into one channel. The session's lock guards all fields that change, except the atomics and slot. There
// are many subscriptions, so size matters; BenchmarkIdle measures it.
type Subscription struct {
	*subSettings
	cursor     channel.Cursor
	session    *Session
	topic      *topic
	endReason  atomic.Pointer[push.Unsubscribe] // why the server ends it; removed when it has ended
	generation uint32                           // of the log that the cursor belongs to
	slot       int32                            // index in topic.subs; guarded by the topic's lock
	conflation channel.ConflationCounter        // of a table or value channel
	lossy      bool                             // the client is told how many publications it lost; never changes
	byServer   bool                             // the client cannot begin it again by itself; never changes
}

// subSettings are settings of a subscription that most subscriptions share. They do not change after a subscription has joined its topic.
type subSettings struct {
	view     *channel.View
	presence *presence.Entry // nil in namespaces with neither presence nor join and leave pushes
	joins    *Subscription   // the subscription to the channel's join and leave events; nil: the client does not get them
	of       *Subscription   // the subscription whose joins this one is; nil for others
	numbered bool            // frames name the channel by the topic's number
	delta    push.Delta
}

// removed is the value of Subscription.endReason after the subscription was removed.
var removed = &push.Unsubscribe{}

// address returns how the subscription's frames name the channel, and the form of differences that they may have.
func (sub *Subscription) address() Address {
	to := Address{Channel: sub.topic.name, Delta: sub.delta}
	if sub.of != nil {
		to.Channel, to.IsJoins = sub.of.topic.name, true
	}
	if sub.numbered {
		to.Number = sub.topic.number
	}
	return to
}

// number has the frames of a subscription name the channel by the topic's number. The subscription must not have joined its topic yet.
func (sub *Subscription) number(h *Hub) {
	if sub.subSettings == &h.commonSettings[0][sub.delta] {
		sub.subSettings = &h.commonSettings[1][sub.delta]
		return
	}
	sub.numbered = true
}

func (sub *Subscription) isRemoved() bool { return sub.endReason.Load() == removed }

// SessionOptions qualify a session.
type SessionOptions struct {
	// Info identifies the client. Info.Client must be unique among all nodes.
	Info push.ClientInfo
	// OneWay says that the client cannot subscribe by itself. Where the hub would end one of its subscriptions, it ends the whole connection.
	OneWay bool
	// Internal says that the session is one of the node itself and no client: Stats, Node and Disconnect do not know it. It has to end before the hub.
	Internal bool
	// Held says that the carrier takes no frames before the first [Session.Flush].
	Held bool
	// Bandwidth is the client's own limit in bytes a second, see [Session.SetBandwidth]; 0: as many as the hub allows.
	Bandwidth int64
}

// Connect opens a session for a client. The caller closes the session when the connection ends. Errors are *push.Error: bad request if the
// client's identity is in use on this node, internal after Close.
func (h *Hub) Connect(c Carrier, e Encoder, o SessionOptions) (*Session, error) {
	s := &Session{hub: h, info: o.Info, carrier: c, encoder: e, oneWay: o.OneWay, blocked: o.Held}
	s.setBandwidthLocked(h.bandwidth(o.Bandwidth)) // without the lock: no other goroutine has the session yet
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, push.ErrInternal.WithMessage("the node is shutting down")
	}
	if h.sessions[o.Info.Client] != nil {
		return nil, push.ErrBadRequest.WithMessage("client %q is already connected", o.Info.Client)
	}
	h.connected++
	s.number = h.connected
	if !o.Internal {
		h.sessions[o.Info.Client] = s
	}
	return s, nil
}

// Info returns the client's identity, as given to Connect.
func (s *Session) Info() push.ClientInfo { return s.info }

// SubscribeRequest says which channel a client subscribes to, and how.
type SubscribeRequest struct {
	Channel string
	// Since is the position to resume from; nil for a fresh start. The zero Position is before the oldest entry of a stream's history.
	Since *push.Position
	// View selects the part of the channel that the client sees; nil for all.
	View *channel.View
	// ChanInfo is JSON shown to others in presence, or nil.
	ChanInfo []byte
	// Numbered says that the client accepts frames of publications with the channel's number in place of its name.
	Numbered bool
	// Delta is a form in which the client accepts publications as differences, if the namespace has it. In a stream, a difference is to the
	// publication before it, if both have the same key; in tables and values, to the one that it replaces. Delta is ignored with a View.
	Delta push.Delta
	// Keyed says that the client keeps the rows of a table by key. Tables have differences for such clients only.
	Keyed bool
	// Interval is the shortest time between two updates of the subscription. Publications in between are conflated in tables and values, and
	// come together in streams. 0: the namespace's default, less than 0: as often as the namespace allows.
	Interval time.Duration
	// Lost says that the client can be told how many publications of a stream it lost because it was too slow. If the namespace has
	// push.SlowLose, the subscription then goes on after a loss, and the next delivery of kind Put has the number.
	Lost bool
	// Table says that the client keeps the rows of a table by key and has those as of Since. If it cannot resume from that position, Subscribe
	// returns push.ErrUnrecoverablePosition and does not start fresh. If the channel is no table, Subscribe returns push.ErrBadRequest.
	Table bool
	// Joins says that Since is from [Session.Rows], not from an earlier subscription; only with Table.
	Joins bool
	// JoinLeave says that the client gets the joins and leaves of the channel, of all nodes, if the namespace has them.
	JoinLeave bool
	// ByServer says that the client cannot begin the subscription again. Where it would have to, its connection ends, so that it connects again.
	ByServer bool
	// Budget bounds the deliveries of the answer; the rest follows as pushes. Zero: 512 entries, 32 KiB. Less than one entry: none.
	Budget channel.Budget
}

// Subscribed is the answer to a [SubscribeRequest].
type Subscribed struct {
	// Position is where the client is once it has Deliveries.
	Position push.Position
	// Number is the channel's number if frames of publications have it in place of the name, otherwise 0. It holds until the subscription
	// ends. No other subscription of the session has it at the same time.
	Number uint32
	// Delta is the form in which publications may come as differences, if any. Deliveries has no differences.
	Delta push.Delta
	// Lost says that the client will be told of losses; see [SubscribeRequest].
	Lost bool
	// Deliveries are the rows of the table, or the publications that the client missed. Only the kinds Put and Gone occur.
	Deliveries []channel.Delivery
	// Interval is the interval that the subscription has, see [SubscribeRequest].
	Interval time.Duration
	// Recovered says that the client has missed nothing, or gets all that it missed in Deliveries and the pushes right after them. It is
	// false for a fresh start.
	Recovered bool
}

// delta returns the form of differences that a subscription gets for a request.
func (n *namespace) delta(r *SubscribeRequest) push.Delta {
	if r.View != nil || !slices.Contains(n.Deltas, r.Delta) || n.Mode == push.Table && !r.Keyed {
		return push.NoDelta
	}
	return r.Delta
}

// budget returns the bound of the answer's deliveries.
func (r *SubscribeRequest) budget() channel.Budget {
	if r.Budget == (channel.Budget{}) {
		return channel.Budget{Entries: 512, Bytes: 32 << 10}
	}
	return r.Budget
}

// Subscribe begins a subscription. If there is no error, Subscribe calls answer before it returns and before the carrier gets anything of the
// channel. If answer fails, Subscribe undoes the subscription and returns that error. Other errors are *push.Error: already subscribed, limit
// exceeded, unknown channel, bad request, internal; with Table also push.ErrUnrecoverablePosition.
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
	t, err := n.acquire(ctx, r.Channel)
	if err != nil {
		return err
	}
	since, err := t.confirm(ctx, r.Since, r.View)
	if err != nil {
		t.release()
		return err
	}
	form := n.delta(&r)
	sub := &Subscription{subSettings: &s.hub.commonSettings[0][form], session: s, topic: t, lossy: r.Lost && n.Slow == push.SlowLose, byServer: r.ByServer}
	isShown := n.Presence || n.JoinLeave
	if isShown || r.View != nil {
		sub.subSettings = &subSettings{view: r.View, delta: form}
	}
	if isShown {
		if err := s.hub.introduce(ctx, sub, &r); err != nil {
			t.release()
			return err
		}
	}
	s.mu.Lock()
	err = s.subscribeLocked(t, sub, r, since, answer)
	s.unlock()
	switch {
	case err != nil:
		t.release()
		if sub.joins != nil {
			sub.joins.topic.release()
		}
		s.hub.absentNow(sub)
	case isShown:
		s.hub.warnPresence(t.name, sub.presence.Join(ctx))
	}
	return err
}

// admit makes the checks that do not need the channel to be loaded.
func (s *Session) admit(name string) error {
	s.mu.Lock()
	defer s.unlock()
	return s.admitLocked(name)
}

func (s *Session) admitLocked(name string) error {
	switch {
	case s.closed:
		return push.ErrInternal.WithMessage("the connection is closed")
	case s.find(name) != nil:
		return push.ErrAlreadySubscribed
	case s.isFullLocked() && !s.hub.options.DrySubscriptions:
		s.hub.options.Exceeded(s.info)
		return push.ErrLimitExceeded.WithMessage("at most %d subscriptions are allowed", s.hub.options.SubscriptionsPerSession)
	}
	return nil
}

// isFullLocked reports whether the session has as many subscriptions as it may have. Subscriptions to join and leave events do not count.
func (s *Session) isFullLocked() bool {
	n, most := 0, s.hub.options.SubscriptionsPerSession
	for _, sub := range s.subs {
		if sub.of == nil {
			n++
		}
	}
	return most > 0 && n >= most
}

// confirm returns the position from which to resume. If the log has not reached since, confirm asks the broker whether since exists. It returns nil
// if not, so that the subscription starts fresh; but an error if the broker has a new epoch, because this log may be older than what the client has.
func (t *topic) confirm(ctx context.Context, since *push.Position, v *channel.View) (*push.Position, error) {
	if since == nil {
		return nil, nil //nolint:nilnil // nil is a fresh start
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
	if err != nil || head.Epoch != epoch { // of which this node has not heard yet
		return nil, push.ErrInternal.WithMessage("the broker could not check the position")
	}
	if head.Offset < since.Offset {
		return nil, nil //nolint:nilnil // as above
	}
	return since, nil
}

// subscribeLocked sets the cursor, at since if that is not nil, and calls answer. Fan-out may see the subscription as soon as it has joined the
// topic, and finds the session's lock taken until answer has returned. If there is no error, the subscription takes over the caller's
// hold on the topic.
func (s *Session) subscribeLocked(
	t *topic, sub *Subscription, r SubscribeRequest, since *push.Position, answer func(Subscribed) error,
) error {
	if err := s.admitLocked(t.name); err != nil { // again: another call may have subscribed while the channel was loaded
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
		t.part.namespace.counts.CountSubscribe(r.Joins, outcome, counters.FreshnessOf(r.Since, at, since == nil))
		return push.ErrUnrecoverablePosition
	}
	deliveries, end, _ := t.log.Read(cursor, sub.view, r.budget(), nil)
	sub.cursor, sub.generation = end, t.generation.Load()
	t.joinLocked(sub)
	progress := t.log.Progress()
	t.mu.Unlock()
	sub.conflation, _ = sub.conflation.Count(len(deliveries), end, progress)

	if s.isFullLocked() {
		s.hub.options.Exceeded(s.info)
	}
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
	if sub.joins != nil {
		s.followJoinsLocked(sub.joins)
	}
	t.part.namespace.counts.CountSubscribe(r.Joins, outcome, counters.FreshnessOf(r.Since, at, since == nil))
	s.dirty.Store(true) // the log may have more than the answer
	return nil
}

// isFreeLocked reports whether no subscription of the session uses a channel's number. Numbers repeat after 2³² channels.
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

// Subscriptions returns the channels to which the session is subscribed.
func (s *Session) Subscriptions() []string {
	s.mu.Lock()
	defer s.unlock()
	var names []string
	for _, sub := range s.subs {
		if sub.of == nil {
			names = append(names, sub.topic.name)
		}
	}
	return names
}

// Unsubscribe ends a subscription at the client's request, and reports whether there was one. Nothing of the channel is sent afterwards.
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

// End ends a subscription from the server's side, and tells the client. It waits while an answer to the client is being written.
func (s *Session) End(name string, u push.Unsubscribe) {
	s.mu.Lock()
	defer s.unlock()
	if sub := s.find(name); sub != nil && sub.endReason.CompareAndSwap(nil, &u) {
		s.dirty.Store(true)
	}
}

// removeLocked ends a subscription and its hold on the topic, and its join and leave pushes.
func (s *Session) removeLocked(sub *Subscription) {
	s.dropLocked(sub)
	sub.topic.release()
	if sub.joins != nil {
		s.removeLocked(sub.joins)
	}
}

// dropLocked removes a subscription from the session and its topic.
func (s *Session) dropLocked(sub *Subscription) {
	i := slices.Index(s.subs, sub)
	s.subs = slices.Delete(s.subs, i, i+1)
	if s.paced != nil {
		s.paced.remove(sub)
	}
	if s.next > i {
		s.next--
	}
	sub.endReason.Store(removed)
	sub.topic.leave(sub)
}

// Disconnect ends the client's connection from the server's side. It does not take the session's lock, because a client that does not read
// its answers can keep the lock taken.
func (s *Session) Disconnect(d push.Disconnect) { s.carrier.Disconnect(d) }

// Close ends all subscriptions without telling the client, whose connection has ended. It waits while an answer to the client is being
// written. Nothing is written to the carrier afterwards. A second Close does nothing.
func (s *Session) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), s.hub.options.LoadTimeout)
	defer cancel()
	s.close(ctx)
}

// close is Close; ctx bounds the requests to the broker, which remove the client from presence.
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
		if sub.of == nil { // others end with the subscription whose joins they are
			s.removeLocked(sub)
		}
	}
	h := s.hub
	if s.paced != nil {
		h.timers.Cancel(s.paced.timer)
	}
	s.mu.Unlock() // not unlock: a closed session has nothing to flush
	_ = s.takeChanges()
	h.mu.Lock()
	delete(h.sessions, s.info.Client)
	h.mu.Unlock()
	for _, sub := range subs {
		h.absent(ctx, sub)
	}
}
