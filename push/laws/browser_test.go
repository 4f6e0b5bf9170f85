package laws_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/sse"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// browser plays a web page that uses an EventSource without an SDK. After a disconnection it connects again with the last event ID. The node
// then repeats the events after the event with that ID, so the page rolls its state back to that event. Now and then the page is loaded anew.
type browser struct {
	w    *cluster
	name string
	rng  *rand.Rand // the fields up to mu belong to the browser's goroutine
	page string     // the query of the URL
	conn *stream    // nil if not connected

	mu     sync.Mutex // guards the fields below
	feeds  []*feed
	asked  map[string]protocol.SubscribeRequest
	lastID string
	marks  map[*feed]push.Position // positions of the feeds at the event with lastID
	hello  bool                    // the first event of the connection has arrived
}

func newBrowser(w *cluster, i int) *browser {
	b := &browser{w: w, name: fmt.Sprintf("browser %d", i)}
	b.rng = rand.New(rand.NewPCG(w.seed, 50+uint64(i))) //nolint:gosec // reproducible, and few
	for _, name := range w.names {
		b.feeds = append(b.feeds, newFeed(name, &w.counters))
	}
	return b
}

// open loads the page, which asks for random settings.
func (b *browser) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastID, b.marks, b.asked = "", map[*feed]push.Position{}, map[string]protocol.SubscribeRequest{}
	subs := map[string]any{}
	for _, f := range b.feeds {
		ask := map[string]any{}
		f.form = push.Delta(b.rng.IntN(1 + push.Deltas)) //nolint:gosec // a few
		if f.form != push.NoDelta {
			ask["delta"] = f.form.String()
		}
		if b.rng.IntN(2) == 0 {
			ask["data"] = map[string]any{"sluice": map[string]any{"interval": b.rng.IntN(30), "lost": b.rng.IntN(2) == 0}}
		}
		subs[f.name] = ask
		b.asked[f.name] = protocol.SubscribeRequest{Delta: f.form.String()}
		f.pos = push.Position{}
		f.note("a new page: %v", ask)
	}
	text, err := json.Marshal(map[string]any{"subs": subs})
	if err != nil {
		panic(err)
	}
	b.page = url.Values{"cf_connect": {string(text)}}.Encode()
}

// connect opens a connection to one of the nodes. The node may refuse it temporarily.
func (b *browser) connect() {
	if b.page == "" || b.rng.IntN(8) == 0 {
		b.open()
	}
	b.mu.Lock()
	b.hello = false
	for _, f := range b.feeds {
		if at, ok := b.marks[f]; ok {
			f.rollback(at)
		}
		ask := b.asked[f.name]
		ask.Recover = b.lastID != ""
		b.asked[f.name] = ask
		f.asked, f.form = true, push.NoDelta
		if err := f.form.UnmarshalText([]byte(ask.Delta)); err != nil && ask.Delta != push.NoDelta.String() {
			panic(err)
		}
		f.note("connect: with the id %q, from %v", b.lastID, f.pos)
	}
	r := b.request()
	b.mu.Unlock()
	conn, err := listen(b.w.node(b.rng.IntN(2)), b.rng.IntN(2)*256<<b.rng.IntN(8), r, b.receive)
	if err != nil {
		b.lost(err.Error())
		pause(b.w.ctx, time.Duration(b.rng.IntN(2000))*time.Microsecond)
		return
	}
	b.w.counters.connections.Add(1)
	b.conn = conn
}

// request returns the request of the EventSource.
func (b *browser) request() *http.Request {
	r, err := http.NewRequestWithContext(b.w.ctx, http.MethodGet, "http://node"+sse.OneWayPath+"?"+b.page, nil)
	if err != nil {
		panic(err)
	}
	if b.lastID != "" {
		r.Header.Set("Last-Event-ID", b.lastID)
	}
	return r
}

// lost handles the end of a connection.
func (b *browser) lost(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.feeds {
		f.over(why)
	}
}

// cut closes the connection, which may have ended already.
func (b *browser) cut(why string) {
	b.conn.cut()
	b.conn = nil
	b.lost(why)
}

// receive handles an event.
func (b *browser) receive(id, data string, hasID bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case data == "{}": // a heartbeat
	case !b.hello:
		b.hello = true
		b.answered(data)
	case strings.HasPrefix(data, `{"disconnect":`): // an EventSource reconnects by itself
	default:
		b.push(data)
	}
	if hasID {
		b.lastID = id
		for _, f := range b.feeds {
			b.marks[f] = f.pos
		}
	}
}

// answered handles the first event, which contains the answers to all subscriptions.
func (b *browser) answered(data string) {
	var first struct {
		Connect struct{ Subs map[string]json.RawMessage }
	}
	if err := json.Unmarshal([]byte(data), &first); err != nil || len(first.Connect.Subs) != len(b.feeds) {
		b.feeds[0].fail("the first event is %q", data)
		return
	}
	for _, f := range b.feeds {
		var r protocol.Reply
		if err := clientjson.DecodeReply(fmt.Appendf(nil, `{"id":1,"subscribe":%s}`, first.Connect.Subs[f.name]), &r); err != nil {
			f.fail("the first event has %q: %v", first.Connect.Subs[f.name], err)
			return
		}
		ask := b.asked[f.name]
		f.answered(&r.Subscribe, &ask)
	}
}

// push handles any other event.
func (b *browser) push(data string) {
	var r protocol.Reply
	if err := clientjson.DecodeReply([]byte(`{"push":`+data+`}`), &r); err != nil {
		b.feeds[0].fail("event %q is not of the protocol: %v", data, err)
		return
	}
	for _, f := range b.feeds {
		if f.name == r.Push.Channel && r.Push.Kind == protocol.PushPublication {
			f.add(&r.Push.Publication)
			return
		}
	}
	b.feeds[0].fail("the event %q came", data)
}

// live does random things until done is closed.
func (b *browser) act(done <-chan struct{}) {
	for !isClosed(done) {
		if b.conn != nil && b.conn.isOver() {
			b.cut("the connection ended")
		}
		if b.conn == nil {
			b.connect()
			continue
		}
		switch n := b.rng.IntN(40); {
		case n < 4:
			b.w.counters.stalls.Add(1)
			b.conn.gate.set(true, 0)
			if b.rng.IntN(4) == 0 { // long enough for the gateway to react
				pause(b.w.ctx, time.Duration(b.rng.IntN(200))*time.Millisecond)
			}
		case n < 12:
			b.conn.gate.set(false, b.rng.IntN(2)*(1+b.rng.IntN(300)))
		case n < 14:
			b.w.counters.cuts.Add(1)
			b.cut("cut")
		default:
			pause(b.w.ctx, time.Duration(b.rng.IntN(3000))*time.Microsecond)
		}
	}
}

// catchUp lets the browser receive everything, and waits until it has all publications.
func (b *browser) catchUp() {
	for deadline := time.Now().Add(*patience); ; pause(b.w.ctx, time.Millisecond) {
		if b.conn != nil && b.conn.isOver() {
			b.cut("the connection ended")
		}
		if b.conn == nil {
			if time.Now().After(deadline) {
				b.w.t.Errorf("%s cannot connect", b.name)
				return
			}
			b.connect()
			continue
		}
		b.conn.gate.set(false, 0)
		missing, broken := b.missing()
		switch {
		case broken:
			b.w.t.Error(missing)
			return
		case missing == nil:
			b.checkQuiescent()
			return
		case time.Now().After(deadline):
			b.w.t.Errorf("it did not come to rest: %v", missing)
			return
		}
	}
}

// missing returns an error that says which publications the browser lacks, and whether a law was broken.
func (b *browser) missing() (missing error, broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.feeds {
		if err := f.missing(b.w.published, b.w.epochs[f.name]); err != nil {
			missing = fmt.Errorf("%s: %s: %w\nthe last of its events:\n%s", b.name, f.name, err, strings.Join(f.events, "\n"))
			broken = broken || f.broken != nil
		}
	}
	return missing, broken
}

// checkQuiescent checks the events since the last quiescent point.
func (b *browser) checkQuiescent() {
	b.w.nudging.RLock() // while the lock is held, every received publication is also in the record of published ones
	defer b.w.nudging.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.feeds {
		if err := f.check(b.w.published); err != nil {
			b.w.t.Errorf("%s: %v\nthe last of its events:\n%s", b.name, err, strings.Join(f.events, "\n"))
		}
	}
}

// end closes the page.
func (b *browser) end() {
	if b.conn != nil {
		b.conn.cut()
	}
}

// stream is one connection of a browser. A goroutine reads its events.
type stream struct {
	gate    *gate
	body    *http.Response
	running sync.WaitGroup
	done    chan struct{} // closed when the connection has ended
	stop    sync.Once
}

// listen sends a request over a new connection to a node, as [dial] does, and calls receive with each event.
func listen(n *node, pipe int, r *http.Request, receive func(id, data string, hasID bool)) (*stream, error) {
	s := &stream{done: make(chan struct{})}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		raw, err := n.connect(ctx, pipe)
		if err != nil {
			return nil, err
		}
		s.gate = newGate(raw)
		return s.gate, nil
	}}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("refused: %s", res.Status)
	}
	s.body = res
	s.running.Go(func() {
		defer s.end()
		_ = events(bufio.NewReader(res.Body), receive)
	})
	return s, nil
}

// events reads events as browsers do (HTML Standard, section 9.2.6) until the stream ends. A stream without events counts as a temporary
// refusal.
func events(in *bufio.Reader, receive func(id, data string, hasID bool)) error {
	var id, data string
	hasID, hasData := false, false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err // an incomplete event is ignored
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			if line == "" && hasData {
				receive(id, data, hasID)
			}
			if line == "" {
				hasID, hasData = false, false
			}
		case "id":
			id, hasID = value, true
		case "data":
			data, hasData = value, true
		case "retry", "event":
		default:
			return errors.New("not a field: " + line)
		}
	}
}

// end closes the connection.
func (s *stream) end() {
	s.stop.Do(func() {
		close(s.done)
		_ = s.gate.Conn.Close()
		s.gate.set(false, 0) // wakes a blocked read
	})
}

// cut closes the connection and waits until no more events can arrive.
func (s *stream) cut() {
	s.end()
	s.running.Wait()
	_ = s.body.Body.Close()
}

func (s *stream) isOver() bool { return isClosed(s.done) }
