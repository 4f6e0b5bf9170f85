package revocation

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

// Namespace is the namespace of the table. It has to be one of the hub's, with the mode push.Table; its name is not one that a configuration can
// have. Clients and callers of the API must not reach it.
const Namespace = "@auth"

// table is the channel with the rows.
const table = Namespace + ":revoked"

// Book keeps a Set in step with the table. Its methods may be called concurrently.
type Book struct {
	Set
	hub     *hub.Hub
	revoked func()
	log     *slog.Logger
	changed chan struct{} // there is something new in the Set; capacity 1
	lost    chan struct{} // the subscription has ended; capacity 1
	stop    context.CancelFunc
	stopped chan struct{}
}

// Open reads the table and follows it. Revoked is called when the Set has more than before: once for many revocations that come together, and
// never twice at a time. The caller calls Close before it closes the hub.
func Open(ctx context.Context, h *hub.Hub, revoked func(), log *slog.Logger) (*Book, error) {
	b := &Book{
		hub: h, revoked: revoked, log: log, changed: make(chan struct{}, 1), lost: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	session, err := b.follow(ctx)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	b.stop = stop
	go b.run(running, session)
	return b, nil
}

// Close ends the following, and waits for its goroutine. The Set stays as it is.
func (b *Book) Close() {
	b.stop()
	<-b.stopped
}

// Add revokes, on all nodes. It returns when the table has the row. Errors are *push.Error.
func (b *Book) Add(ctx context.Context, e Entry) error {
	if err := e.check(); err != nil {
		return push.ErrBadRequest.WithMessage("%v", err)
	}
	data, err := json.Marshal(e)
	if err != nil {
		return push.ErrInternal
	}
	_, err = b.hub.Publish(ctx, table, push.Publication{Key: id{e.Kind, e.ID}.key(), Data: data}, "")
	return err
}

// Forget takes a revocation back, on all nodes. Errors are *push.Error.
func (b *Book) Forget(ctx context.Context, kind Kind, name string) error {
	return b.remove(ctx, id{kind, name}.key())
}

func (b *Book) remove(ctx context.Context, key string) error {
	_, err := b.hub.Publish(ctx, table, push.Publication{Key: key, Op: push.Remove}, "")
	return err
}

// How often rows are removed whose time is over, and for how long the table stays unread when it could not be read.
const (
	tidyInterval = time.Minute
	retryPause   = time.Second
	callTimeout  = 10 * time.Second
)

// run owns the session in the hub.
func (b *Book) run(ctx context.Context, session *hub.Session) {
	defer close(b.stopped)
	defer func() {
		if session != nil {
			session.Close()
		}
	}()
	// Nodes that start together do not all remove the same rows.
	tidy := time.NewTimer(tidyInterval + time.Duration(rand.Int64N(int64(tidyInterval))))
	defer tidy.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tidy.C:
			b.tidy(ctx)
			tidy.Reset(tidyInterval + time.Duration(rand.Int64N(int64(tidyInterval))))
		case <-b.changed:
			b.revoked()
		case <-b.lost:
			retry.Reset(0)
		case <-retry.C:
			if session != nil {
				session.Close()
			}
			var err error
			if session, err = b.follow(ctx); err != nil && ctx.Err() == nil {
				b.log.Warn("cannot read what tokens are revoked, will try again", "error", err)
				session = nil
				retry.Reset(retryPause)
			}
		}
	}
}

// tidy removes the rows whose time is over.
func (b *Book) tidy(ctx context.Context) {
	for _, key := range b.Over(time.Now()) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		err := b.remove(ctx, key)
		cancel()
		if err != nil {
			return // the next round tries again
		}
	}
}

// follow reads the table, and subscribes to what changes after that.
func (b *Book) follow(ctx context.Context) (*hub.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	session, err := b.hub.Connect(&follower{b}, rowEncoder{}, hub.SessionOptions{
		Info: push.ClientInfo{Client: "revocations of " + b.hub.ID()}, Internal: true,
	})
	if err != nil {
		return nil, err
	}
	for {
		var rows hub.History
		if rows, err = b.hub.History(ctx, table, hub.HistoryRequest{Limit: -1}); err != nil {
			break
		}
		b.replace(rows.Entries)
		request := hub.SubscribeRequest{Channel: table, Since: &rows.Position, Table: true, ByServer: true}
		err = session.Subscribe(ctx, request, func(s hub.Subscribed) error {
			for i := range s.Deliveries {
				b.apply(rowOf(&s.Deliveries[i]))
			}
			return nil
		})
		if !errors.Is(err, push.ErrUnrecoverablePosition) || ctx.Err() != nil { // that: more has changed meanwhile than is remembered
			break
		}
	}
	if err != nil {
		session.Close()
		return nil, err
	}
	return session, nil
}

// replace has the Set be these rows.
func (b *Book) replace(entries []*channel.Entry) {
	keys := map[string]bool{}
	for _, e := range entries {
		keys[e.Key] = true
	}
	b.Keep(keys)
	for _, e := range entries {
		b.apply(row{Key: e.Key, Data: e.Data})
	}
}

// row is a row of the table as it was changed.
type row struct {
	Key  string
	Data []byte // nil: it was removed
}

func rowOf(d *channel.Delivery) row {
	r := row{Key: d.Entry.Key, Data: d.Entry.Data}
	if d.Kind == channel.Gone || d.Entry.Op == push.Remove {
		r.Data = nil
	}
	return r
}

func (b *Book) apply(r row) {
	if r.Data == nil {
		b.Remove(r.Key)
		return
	}
	isNew, err := b.Put(r.Key, r.Data)
	if err != nil {
		b.log.Warn("a revocation is passed over", "key", r.Key, "error", err)
	}
	if isNew {
		signal(b.changed)
	}
}

// signal puts a value into a channel of capacity 1, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// follower is the carrier of the session in the hub: it has the Set follow the table.
type follower struct{ book *Book }

// TryWrite implements hub.Carrier.
func (f *follower) TryWrite(frames []hub.Frame) int {
	for _, frame := range frames {
		var rows []row
		if frame.Publications == 0 || json.Unmarshal(frame.Bytes, &rows) != nil {
			f.Disconnect(push.DisconnectInsufficientState) // the subscription has ended
			continue
		}
		for _, r := range rows {
			f.book.apply(r)
		}
	}
	return len(frames)
}

// Disconnect implements hub.Carrier: the table is read again.
func (f *follower) Disconnect(push.Disconnect) { signal(f.book.lost) }

// rowEncoder is the form in which the session gets the rows.
type rowEncoder struct{}

// FrameBytes implements hub.Encoder.
func (rowEncoder) FrameBytes() int { return 64 << 10 }

// AppendPublications implements hub.Encoder.
func (rowEncoder) AppendPublications(dst []byte, _ hub.Address, deliveries []channel.Delivery) []byte {
	rows := make([]row, len(deliveries))
	for i := range deliveries {
		rows[i] = rowOf(&deliveries[i])
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return dst // strings and bytes always have JSON
	}
	return append(dst, text...)
}

// AppendUnsubscribe implements hub.Encoder.
func (rowEncoder) AppendUnsubscribe(dst []byte, _ string, _ push.Unsubscribe) []byte { return dst }
