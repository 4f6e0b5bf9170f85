package laws_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// viewed is how many values of the tag t viewers ask for.
const viewed = 2

// viewer is a client that sees only those rows of tables whose tag t has a certain value. It goes from node to node more often than others do. Clients cannot ask
// for filters yet, so it uses the hubs of the nodes.
type viewer struct {
	w    *cluster
	name string
	rng  *rand.Rand // the fields up to mu belong to the viewer's goroutine
	conn *view      // nil if not connected
	next int        // number of the next connection

	mu    sync.Mutex // guards the fields below; the session's lock may be held before it
	feeds []*feed
}

func newViewer(w *cluster, i int) *viewer {
	v := &viewer{w: w, name: fmt.Sprintf("viewer %d", i)}
	v.rng = rand.New(rand.NewPCG(w.seed, 80+uint64(i))) //nolint:gosec // reproducible, and few
	for _, name := range append([]string{w.loads.channel}, w.names...) {
		if f := newFeed(name, &w.counters); f.mode == push.Table {
			f.view = &channel.View{Filter: []channel.Term{{Tag: "t", Values: []string{fmt.Sprint(i % viewed)}}}}
			v.feeds = append(v.feeds, f)
		}
	}
	return v
}

// view is one connection of a viewer to a hub. It takes everything at once.
type view struct {
	viewer  *viewer
	session *hub.Session
	isOver  atomic.Bool
}

// TryWrite implements hub.Carrier.
func (c *view) TryWrite(frames []hub.Frame) int {
	c.viewer.mu.Lock()
	defer c.viewer.mu.Unlock()
	for i := range frames {
		f := c.viewer.feed(frames[i].Channel)
		if frames[i].Publications == 0 {
			f.counters.ended.Add(1)
			f.over(string(frames[i].Bytes))
			continue
		}
		for d := json.NewDecoder(bytes.NewReader(frames[i].Bytes)); d.More(); {
			var p push.Publication
			if err := d.Decode(&p); err != nil {
				f.fail("frame %q: %v", frames[i].Bytes, err)
				break
			}
			f.add(&p)
		}
	}
	return len(frames)
}

// Disconnect implements hub.Carrier.
func (c *view) Disconnect(push.Disconnect) { c.isOver.Store(true) }

// rows is the form in which viewers get rows: JSON.
type rows struct{}

// FrameBytes implements hub.Encoder.
func (rows) FrameBytes() int { return 1 << 12 }

// AppendPublications implements hub.Encoder.
func (rows) AppendPublications(dst []byte, _ hub.Address, deliveries []channel.Delivery) []byte {
	for i := range deliveries {
		text, err := json.Marshal(publicationOf(&deliveries[i]))
		if err != nil {
			panic(err)
		}
		dst = append(dst, text...)
	}
	return dst
}

// AppendUnsubscribe implements hub.Encoder.
func (rows) AppendUnsubscribe(dst []byte, _ string, u push.Unsubscribe) []byte {
	return append(dst, u.Reason...)
}

// publicationOf returns a delivery as clients get it.
func publicationOf(d *channel.Delivery) push.Publication {
	p := d.Entry.Publication
	if p.Offset = d.Offset; d.Kind == channel.Gone {
		p.Op, p.Data = push.Remove, nil
	}
	return p
}

func (v *viewer) feed(name string) *feed {
	for _, f := range v.feeds {
		if f.name == name {
			return f
		}
	}
	panic("no such channel: " + name)
}

// connect begins a connection to one of the nodes. It fails if that node is being stopped.
func (v *viewer) connect() {
	c := &view{viewer: v}
	v.next++
	s, err := v.w.node(v.rng.IntN(2)).hub.Connect(c, rows{}, hub.SessionOptions{Info: push.ClientInfo{Client: fmt.Sprintf("%s.%d", v.name, v.next)}})
	if err != nil {
		pause(v.w.ctx, time.Duration(v.rng.IntN(2000))*time.Microsecond)
		return
	}
	c.session, v.conn = s, c
	v.w.counters.connections.Add(1)
}

// cut ends the connection.
func (v *viewer) cut(why string) {
	v.conn.session.Close()
	v.conn = nil
	v.w.counters.cuts.Add(1)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.feeds {
		f.over(why)
	}
}

// subscribe subscribes to all channels to which the viewer is not subscribed.
func (v *viewer) subscribe() {
	for _, f := range v.feeds {
		v.mu.Lock()
		ask := hub.SubscribeRequest{Channel: f.name, View: f.view}
		if f.pos.Epoch != "" {
			at := f.pos
			ask.Since = &at
		}
		live := f.live
		v.mu.Unlock()
		if live {
			continue
		}
		err := v.conn.session.Subscribe(v.w.ctx, ask, func(s hub.Subscribed) error {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.answered(f, ask.Since, &s)
			return nil
		})
		var e *push.Error
		if err != nil && (!errors.As(err, &e) || !e.Temporary) {
			v.mu.Lock()
			f.fail("subscribing is answered %v", err)
			v.mu.Unlock()
		}
	}
}

// answered handles the answer to a subscription, as the gateway tells it to clients.
func (v *viewer) answered(f *feed, since *push.Position, s *hub.Subscribed) {
	ask := protocol.SubscribeRequest{Recover: since != nil}
	a := protocol.SubscribeResult{Position: s.Position, WasRecovering: since != nil, Recovered: s.Recovered}
	for i := range s.Deliveries {
		a.Publications = append(a.Publications, publicationOf(&s.Deliveries[i]))
	}
	switch {
	case len(s.Deliveries) == 0:
	case s.Recovered:
		a.Position.Offset = since.Offset
	default:
		a.Position.Offset = 0
	}
	f.answered(&a, &ask)
}

// act goes from node to node until done is closed.
func (v *viewer) act(done <-chan struct{}) {
	for !isClosed(done) {
		if v.conn != nil && (v.conn.isOver.Load() || v.rng.IntN(4) == 0) {
			v.cut("it goes elsewhere")
		}
		if v.conn == nil {
			v.connect()
			continue
		}
		v.subscribe()
		pause(v.w.ctx, time.Duration(v.rng.IntN(5000))*time.Microsecond)
	}
}

// catchUp waits until the viewer has all rows.
func (v *viewer) catchUp() {
	for deadline := time.Now().Add(*patience); ; pause(v.w.ctx, time.Millisecond) {
		if v.conn != nil && v.conn.isOver.Load() {
			v.cut("the connection ended")
		}
		if v.conn == nil {
			if time.Now().After(deadline) {
				v.w.t.Errorf("%s cannot connect", v.name)
				return
			}
			v.connect()
			continue
		}
		v.subscribe()
		missing, broken := v.missing()
		switch {
		case broken:
			v.w.t.Error(missing)
			return
		case missing == nil:
			v.checkQuiescent()
			return
		case time.Now().After(deadline):
			v.w.t.Errorf("it did not come to rest: %v", missing)
			return
		}
	}
}

// missing returns an error that says which rows the viewer lacks, and whether a law was broken.
func (v *viewer) missing() (missing error, broken bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.feeds {
		if err := f.missing(v.w.published, v.w.epochs[f.name]); err != nil {
			missing = fmt.Errorf("%s: %s: %w\nthe last of its events:\n%s", v.name, f.name, err, strings.Join(f.events, "\n"))
			broken = broken || f.broken != nil
		}
	}
	return missing, broken
}

// checkQuiescent checks what came since the last quiescent point.
func (v *viewer) checkQuiescent() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.feeds {
		if err := f.check(v.w.published); err != nil {
			v.w.t.Errorf("%s: %v\nthe last of its events:\n%s", v.name, err, strings.Join(f.events, "\n"))
		}
	}
}

// end ends the connection.
func (v *viewer) end() {
	if v.conn != nil {
		v.conn.session.Close()
	}
}
