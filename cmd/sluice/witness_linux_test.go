package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// witness is a subscriber that checks whether it is told the truth. The data of the publications are numbers. In a stream each is one more than the
// last one, unless the server has said that something was lost; in a table the numbers of a row do not fall. A refused subscription that the server
// calls temporary is made again, and so is a connection that ends.
type witness struct {
	t        *testing.T
	name     string
	end      context.CancelFunc
	finished chan struct{}

	mu       sync.Mutex
	address  string             // guarded by mu: host:port of the node
	hangUp   context.CancelFunc // guarded by mu: ends the present connection
	channels map[string]*seen   // the map is immutable, its values are guarded by mu
	refused  int                // guarded by mu: how often the server has refused a subscription for now
}

// seen is what a witness knows of a channel.
type seen struct {
	kind       channelKind
	at         push.Position
	subscribed bool
	fresh      bool             // the next publication may have any number
	last       int64            // the last number of a stream
	lost       int              // how often the server has said that something was lost
	from       uint64           // the offset after which the witness has everything
	all        []int64          // the numbers of a gappy stream after that
	rows       map[string]int64 // of a table
}

type channelKind int

const (
	stream channelKind = iota
	gappy              // a stream in which numbers may be missing, because their publications failed
	table
)

// watch starts a witness.
func watch(t *testing.T, name, address string, channels map[string]channelKind) *witness {
	t.Helper()
	w := &witness{t: t, name: name, address: address, channels: map[string]*seen{}, finished: make(chan struct{})}
	for channel, kind := range channels {
		w.channels[channel] = &seen{kind: kind, fresh: true, rows: map[string]int64{}}
	}
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	go w.run(ctx)
	t.Cleanup(w.stop)
	return w
}

func (w *witness) stop() {
	w.end()
	testwait.Receive(w.t, w.finished)
}

// move has the witness connect to another node, where it resumes.
func (w *witness) move(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.address = address
	if w.hangUp != nil {
		w.hangUp()
	}
}

func (w *witness) isSubscribed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.channels {
		if !s.subscribed {
			return false
		}
	}
	return true
}

// retryPause is how long a witness waits before it asks again.
const retryPause = 50 * time.Millisecond

func (w *witness) run(ctx context.Context) {
	defer close(w.finished)
	for ctx.Err() == nil {
		conn, hangUp := context.WithCancel(ctx)
		w.mu.Lock()
		address := w.address
		w.hangUp = hangUp
		for _, s := range w.channels {
			s.subscribed = false
		}
		w.mu.Unlock()
		_ = w.connect(conn, address) // the connection has ended, and is made again
		hangUp()
		pause(ctx)
	}
}

func pause(ctx context.Context) {
	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// connect is one connection.
func (w *witness) connect(ctx context.Context, address string) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+address+"/connection/websocket", nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(feedLine)
	send := func(cmd *protocol.Command) error {
		return conn.Write(ctx, websocket.MessageText, clientjson.AppendCommand(nil, cmd))
	}
	if err := send(&protocol.Command{ID: 1, Kind: protocol.KindConnect}); err != nil {
		return err
	}
	var (
		asked  = map[uint32]string{}
		number = uint32(1)
		again  = make(chan string, len(w.channels)) // channels to subscribe to
		frames = make(chan []byte)
	)
	for channel := range w.channels {
		again <- channel
	}
	reading := make(chan error, 1)
	go func() {
		for {
			_, frame, err := conn.Read(ctx)
			if err != nil {
				reading <- err
				return
			}
			select {
			case frames <- frame:
			case <-ctx.Done():
				reading <- ctx.Err()
				return
			}
		}
	}()
	for {
		select {
		case channel := <-again:
			number++
			asked[number] = channel
			if err := send(w.request(number, channel)); err != nil {
				return err
			}
		case frame := <-frames:
			for line, rest := clientjson.NextLine(frame); line != nil; line, rest = clientjson.NextLine(rest) {
				var r protocol.Reply
				if err := clientjson.DecodeReply(line, &r); err != nil {
					w.t.Errorf("%s: %.200s: %v", w.name, line, err)
					return err
				}
				if r.IsPing() {
					if err := send(&protocol.Command{}); err != nil {
						return err
					}
					continue
				}
				if channel := w.handle(&r, asked[r.ID]); channel != "" {
					time.AfterFunc(retryPause, func() { again <- channel })
				}
			}
		case err := <-reading:
			return err
		}
	}
}

// request returns the command that subscribes to a channel, from the position of the witness if it has one.
func (w *witness) request(number uint32, channel string) *protocol.Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.channels[channel].at
	return &protocol.Command{ID: number, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{
		Channel: channel, Recover: at.Epoch != "", Position: at,
	}}
}

// handle takes a reply, to a request to subscribe to the channel asked or to none. It returns a channel to subscribe to once more.
func (w *witness) handle(r *protocol.Reply, asked string) (again string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.Error != nil && r.Error.Temporary && asked != "":
		w.refused++
		return asked
	case r.Error != nil:
		w.t.Errorf("%s: command for %q was refused: %v", w.name, asked, r.Error)
	case r.Kind == protocol.KindSubscribe:
		w.enter(asked, &r.Subscribe)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushPublication:
		w.take(r.Push.Channel, &r.Push.Publication)
	case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushUnsubscribe:
		w.channels[r.Push.Channel].subscribed = false
		return r.Push.Channel
	}
	return ""
}

// enter takes the answer to a request to subscribe. Without recovery the witness forgets what it has, which the answer allows.
func (w *witness) enter(channel string, r *protocol.SubscribeResult) {
	s := w.channels[channel]
	switch {
	case !r.Recovered || r.Position.Epoch != s.at.Epoch:
		if s.at.Epoch != "" {
			s.lost++
		}
		s.at = push.Position{Epoch: r.Position.Epoch} // rows of a table may be older than the position
		s.fresh, s.from = true, r.Position.Offset
		clear(s.rows)
		s.all = nil
	case r.Position.Offset < s.at.Offset:
		w.t.Errorf("%s: %s: recovered at %v, before %v", w.name, channel, r.Position, s.at)
	}
	if s.kind != table {
		s.at.Offset = r.Position.Offset
	}
	s.subscribed = true
	for i := range r.Publications {
		w.take(channel, &r.Publications[i])
	}
	s.at.Offset = max(s.at.Offset, r.Position.Offset)
}

// take takes a publication.
func (w *witness) take(channel string, p *push.Publication) {
	s := w.channels[channel]
	if p.Offset != 0 {
		if p.Offset <= s.at.Offset && s.kind != table {
			w.t.Errorf("%s: %s: offset %d after %d", w.name, channel, p.Offset, s.at.Offset)
		}
		s.at.Offset = max(s.at.Offset, p.Offset)
	}
	if p.Op == push.Remove {
		delete(s.rows, p.Key)
		return
	}
	var number int64
	if err := json.Unmarshal(p.Data, &number); err != nil {
		w.t.Errorf("%s: %s: data %s: %v", w.name, channel, p.Data, err)
	}
	switch s.kind {
	case table:
		if number < s.rows[p.Key] {
			w.t.Errorf("%s: %s: row %s is %d after %d", w.name, channel, p.Key, number, s.rows[p.Key])
		}
		s.rows[p.Key] = number
	case gappy:
		s.all = append(s.all, number)
	default:
		if number != s.last+1 && (!s.fresh || number <= s.last) {
			w.t.Errorf("%s: %s: %d after %d, and no word of a loss", w.name, channel, number, s.last)
		}
		s.last, s.fresh = number, false
	}
}

// has reports whether the witness has the publications with these numbers, the newest of their streams.
func (w *witness) has(newest map[string]int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for channel, number := range newest {
		if s := w.channels[channel]; s != nil && s.last < number {
			return false
		}
	}
	return true
}

// hasRows reports whether the witness has these rows of a table, and no others.
func (w *witness) hasRows(channel string, want map[string]int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Equal(w.channels[channel].rows, want)
}

// stored is a publication in a history.
type stored struct {
	offset uint64
	number int64
}

// hasAll reports whether the witness has what the history of a gappy stream has above the offset after which it has everything, and nothing else.
func (w *witness) hasAll(channel string, history []stored) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.channels[channel]
	var want []int64
	for _, p := range history {
		if p.offset > s.from {
			want = append(want, p.number)
		}
	}
	return slices.Equal(s.all, want)
}

// String describes the witness's progress.
func (w *witness) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s, refused %d times:", w.name, w.address, w.refused)
	for _, channel := range slices.Sorted(maps.Keys(w.channels)) {
		s := w.channels[channel]
		fmt.Fprintf(&b, " %s: subscribed %t, at %d, last %d, lost %d;", channel, s.subscribed, s.at.Offset, s.last, s.lost)
	}
	return b.String()
}
