package gateway_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// TestPushes: publications as they come over the wire, with everything that may belong to one.
func TestPushes(t *testing.T) {
	p := newPlace(t, nil)
	c, table := p.subscriber("a"), p.subscriber("table:t")
	by := &push.ClientInfo{User: "ann", Client: "1", ConnInfo: []byte(`{"n":1}`), ChanInfo: []byte(`[2]`)}
	for i, step := range []struct {
		client  *wsClient
		channel string
		pub     push.Publication
		want    string
	}{
		{c, "a", push.Publication{Data: []byte(`{"x": 1}`)}, `{"data":{"x": 1},"offset":1}`},
		{c, "a", push.Publication{Data: []byte(`1`), Info: by}, `{"data":1,"info":{"user":"ann","client":"1","conn_info":{"n":1},"chan_info":[2]},"offset":2}`},
		{c, "a", push.Publication{Data: []byte(`1`), Tags: map[string]string{"a": "<1>"}}, `{"data":1,"offset":3,"tags":{"a":"<1>"}}`},
		{c, "a", push.Publication{Data: []byte(`1`), Key: "k"}, `{"data":1,"offset":4,"key":"k"}`},
		{table, "table:t", push.Publication{Data: []byte(`"é"`), Key: "k\"ü"}, `{"data":"é","offset":1,"key":"k\"ü"}`},
		{table, "table:t", push.Publication{Op: push.Remove, Key: "k\"ü"}, `{"data":null,"offset":2,"key":"k\"ü","removed":true}`},
	} {
		p.put(step.channel, step.pub)
		if got, want := step.client.receive(), `{"push":{"channel":"`+step.channel+`","pub":`+step.want+`}}`; got != want {
			t.Errorf("%d: got %s\nwant %s", i, got, want)
		}
	}
}

// TestGone: a row that does not concern the client any more is a removal to it, whatever the publication says.
func TestGone(t *testing.T) {
	entry := &channel.Entry{Publication: push.Publication{Offset: 3, Key: "k", Data: []byte("1")}}
	gone := gateway.PublicationOf(&channel.Delivery{Kind: channel.Gone, Entry: entry, Offset: 5})
	if gone.Op != push.Remove || gone.Data != nil || gone.Key != "k" || gone.Offset != 5 {
		t.Errorf("gone: %+v", gone)
	}
	if entry.Op != push.Set || entry.Data == nil || entry.Offset != 3 {
		t.Errorf("the entry, which all share, has become %+v", entry.Publication)
	}
}

// TestClientPublishes: what clients publish, they publish under their own identity, and remove likewise.
func TestClientPublishes(t *testing.T) {
	p := newPlace(t, nil)
	table := p.subscriber("table:t")
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	info := `"info":{"user":"","client":"` + uuid.FindString(c.receive()) + `"}`
	c.ask(`{"id":2,"publish":{"channel":"table:t","key":"k","data":{"x":1},"tags":{"v":"1"}}}`, `{"id":2,"publish":{}}`)
	table.want(`{"push":{"channel":"table:t","pub":{"data":{"x":1},` + info + `,"offset":1,"tags":{"v":"1"},"key":"k"}}}`)
	c.ask(`{"id":3,"publish":{"channel":"table:t","key":"k","removed":true,"data":"1"}}`,
		`{"id":3,"error":{"code":107,"message":"publish.data and removed exclude each other: leave one out, or send tags with removed"}}`)
	c.ask(`{"id":3,"publish":{"channel":"table:t","key":"k","removed":true}}`, `{"id":3,"publish":{}}`)
	table.want(`{"push":{"channel":"table:t","pub":{"data":null,` + info + `,"offset":2,"key":"k","removed":true}}}`)
}

// TestServerEnds: the server ends a subscription, and then nothing of the channel comes any more, until the client subscribes again.
func TestServerEnds(t *testing.T) {
	p := newPlace(t, nil)
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	target := hub.Target{Client: uuid.FindString(c.receive())}
	for _, u := range []push.Unsubscribe{push.UnsubscribeServer, push.UnsubscribeInsufficientState} {
		c.send(`{"id":2,"subscribe":{"channel":"a"}}`)
		c.receive()
		must(t, p.hub.Unsubscribe(testwait.Context(t), target, "a", u))
		c.want(fmt.Sprintf(`{"push":{"channel":"a","unsubscribe":{"code":%d,"reason":"%s"}}}`, u.Code, u.Reason))
		p.publish("a", "1")
		c.ask(`{"id":3,"ping":{}}`, `{"id":3,"ping":{}}`)
	}
}

// line is a reply or a push, as far as the order matters.
type line struct {
	ID        int
	Error     json.RawMessage
	Subscribe *struct {
		Recovered    bool
		Offset       uint64
		Publications []struct{ Offset uint64 }
	}
	Push *pushed
}

// pace keeps a publisher from running away from its readers.
type pace struct {
	at      []atomic.Uint64 // where each of them is
	changed chan struct{}
}

func (p *pace) set(i int, at uint64) {
	p.at[i].Store(at)
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// wait returns when no reader is far behind an offset, and reports whether there is a reader.
func (p *pace) wait(t *testing.T, head uint64) bool {
	for {
		slowest := uint64(math.MaxUint64)
		for i := range p.at {
			slowest = min(slowest, p.at[i].Load())
		}
		if slowest == math.MaxUint64 || head < slowest+600 {
			return slowest != math.MaxUint64
		}
		testwait.Receive(t, p.changed)
	}
}

// TestReplyBeforePush: while a publisher never pauses, clients subscribe, unsubscribe and resume. No push comes before the
// reply, none after an unsubscribe was answered, and between reply and pushes nothing is missing or doubled.
func TestReplyBeforePush(t *testing.T) {
	p := newPlace(t, nil)
	const n = 8
	paced := pace{make([]atomic.Uint64, n), make(chan struct{}, 1)}
	epoch := p.epoch("a")
	var clients sync.WaitGroup
	for i := range n {
		c := p.client()
		clients.Go(func() {
			defer paced.set(i, math.MaxUint64)
			at := uint64(0)
			for round := range 25 {
				if at = c.follow(epoch, at, round > 0, func(at uint64) { paced.set(i, at) }); at == 0 {
					return
				}
			}
		})
	}
	for head := uint64(0); paced.wait(t, head); {
		head = p.publish("a", "1").Offset
	}
	testwait.Return(t, clients.Wait)
}

// follow subscribes, resuming behind an offset, follows some pushes, unsubscribes, and returns where it is then; 0 when it failed.
func (c *wsClient) follow(epoch string, at uint64, resume bool, progress func(at uint64)) uint64 {
	next := func() (l line, ok bool) {
		got, err := c.line()
		if err == nil {
			err = json.Unmarshal([]byte(got), &l)
		}
		if err != nil || l.Error != nil {
			c.t.Errorf("after %d: %s, %v", at, got, err)
			return l, false
		}
		return l, true
	}
	recovering := ""
	if resume {
		recovering = fmt.Sprintf(`,"recover":true,"epoch":%q,"offset":%d`, epoch, at)
	}
	_ = c.conn.WriteMessage(1, []byte(`{"id":2,"subscribe":{"channel":"a"`+recovering+`}}`))
	l, ok := next()
	if !ok || l.Subscribe == nil || resume && !l.Subscribe.Recovered {
		c.t.Errorf("the answer to subscribe is %+v", l)
		return 0
	}
	if !resume {
		at = l.Subscribe.Offset
	}
	if at != l.Subscribe.Offset {
		c.t.Errorf("resumed behind %d, the reply says %d", at, l.Subscribe.Offset)
		return 0
	}
	for _, pub := range l.Subscribe.Publications {
		if at++; pub.Offset != at {
			c.t.Errorf("publication %d comes in the place of %d", pub.Offset, at)
			return 0
		}
	}
	for i := 0; ; i++ {
		progress(at)
		if i == 10 {
			_ = c.conn.WriteMessage(1, []byte("{\"id\":3,\"unsubscribe\":{\"channel\":\"a\"}}\n{\"id\":4,\"ping\":{}}"))
		}
		if l, ok = next(); !ok {
			return 0
		}
		if l.ID == 3 {
			break
		}
		if at++; l.Push == nil || l.Push.Pub == nil || l.Push.Pub.Offset != at {
			c.t.Errorf("instead of publication %d came %+v", at, l)
			return 0
		}
	}
	if l, ok = next(); !ok || l.ID != 4 {
		c.t.Errorf("after the end of the subscription came %+v", l)
		return 0
	}
	return at
}

// TestManySubscriptions: a client with many channels is served with all of them.
func TestManySubscriptions(t *testing.T) {
	p := newPlace(t, nil)
	c := p.client()
	var commands []string
	for i := range 100 {
		commands = append(commands, fmt.Sprintf(`{"id":%d,"subscribe":{"channel":"c%d"}}`, i+2, i))
	}
	c.send(strings.Join(commands, "\n"))
	for i := range 100 {
		if got := c.receive(); !strings.HasPrefix(got, fmt.Sprintf(`{"id":%d,"subscribe":{`, i+2)) {
			t.Fatalf("subscription %d: %s", i, got)
		}
	}
	for i := range 100 {
		p.publish(fmt.Sprintf("c%d", i), "1")
		c.want(fmt.Sprintf(`{"push":{"channel":"c%d","pub":{"data":1,"offset":%d}}}`, i, i+1))
	}
}

// TestNumbers: a client that offers it is told a number, and publications go by that; the end of a subscription goes by its name. Others
// of the same channel know nothing of it, nor do one-way clients.
func TestNumbers(t *testing.T) {
	p := newPlace(t, nil)
	plain, c := p.subscriber("a"), p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	target := hub.Target{Client: uuid.FindString(c.receive())}
	numbers := map[uint64]bool{}
	subscribe := func(name string) (id string) {
		t.Helper()
		c.send(`{"id":2,"subscribe":{"channel":"` + name + `","flag":1}}`)
		var r protocol.Reply
		must(t, clientjson.DecodeReply([]byte(c.receive()), &r))
		if r.ID != 2 || r.Subscribe.ID == 0 || numbers[r.Subscribe.ID] {
			t.Fatalf("%s was answered %+v, after %v", name, r, numbers)
		}
		numbers[r.Subscribe.ID] = true
		return strconv.FormatUint(r.Subscribe.ID, 10)
	}
	a, table := subscribe("a"), subscribe("table:t")
	p.publish("a", "1")
	c.want(`{"push":{"id":` + a + `,"pub":{"data":1,"offset":1}}}`)
	plain.want(`{"push":{"channel":"a","pub":{"data":1,"offset":1}}}`)
	p.put("table:t", push.Publication{Key: "k", Op: push.Remove})
	c.want(`{"push":{"id":` + table + `,"pub":{"data":null,"offset":1,"key":"k","removed":true}}}`)

	must(t, p.hub.Unsubscribe(testwait.Context(t), target, "a", push.UnsubscribeServer))
	c.want(`{"push":{"channel":"a","unsubscribe":{"code":2000,"reason":"server unsubscribe"}}}`)
	c.ask(`{"id":3,"unsubscribe":{"channel":"table:t"}}`, `{"id":3,"unsubscribe":{}}`)
	p.publish("a", "2")
	c.send(`{"id":4,"subscribe":{"channel":"a","recover":true,"epoch":"` + p.epoch("a") + `","offset":1}}`)
	if got := c.receive(); !strings.Contains(got, `"publications":[{"data":2,"offset":2}]`) || strings.Contains(got, `"id":`+a) {
		t.Errorf("without the flag: %s", got)
	}
	p.publish("a", "3")
	c.want(`{"push":{"channel":"a","pub":{"data":3,"offset":3}}}`)
}
