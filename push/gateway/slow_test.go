package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/outbox"
	"github.com/sluice-push/sluice/push/hub"
)

// pushed is a push of a publication, of either transport, or of the end of a subscription or a connection.
type pushed struct {
	Channel string
	Pub     *struct {
		Data   json.RawMessage
		Offset uint64
		Key    string
		Tags   map[string]string
	}
	Unsubscribe, Disconnect *struct{ Code int }
}

func parsePush(t testing.TB, text string) (p pushed) {
	t.Helper()
	whole := struct{ Push *pushed }{}
	must(t, json.Unmarshal([]byte(text), &whole))
	if whole.Push != nil {
		return *whole.Push
	}
	must(t, json.Unmarshal([]byte(text), &p))
	return p
}

// filler makes publications of about a kilobyte that can be told apart.
func filler(i int) string { return fmt.Sprintf(`"%d %s"`, i, strings.Repeat("x", 1000)) }

// TestUnreadReplies: a client that sends and does not read is not read either, disturbs no other client, and gets all its answers once it reads.
func TestUnreadReplies(t *testing.T) {
	p := newPlace(t, &gateway.Options{CommandsPerSession: -1})
	slow, other := p.client(), p.subscriber("a")
	must(t, slow.conn.NetConn().(*net.TCPConn).SetReadBuffer(readBuffer))
	const n = 50_000
	var sent sync.WaitGroup
	sent.Go(func() {
		for i := range n {
			if slow.conn.WriteMessage(1, fmt.Appendf(nil, `{"id":%d,"history":{"channel":"a","limit":1}}`, i+10)) != nil {
				t.Error("the slow client is cut")
				return
			}
		}
	})
	for i := range 200 {
		p.publish("a", fmt.Sprint(i))
		other.want(fmt.Sprintf(`{"push":{"channel":"a","pub":{"data":%d,"offset":%d}}}`, i, i+1))
		other.ask(`{"id":9,"ping":{}}`, `{"id":9,"ping":{}}`)
	}
	for i := range n {
		if got := slow.receive(); !strings.HasPrefix(got, fmt.Sprintf(`{"id":%d,"history":`, i+10)) {
			t.Fatalf("answer %d: %s", i, got)
		}
	}
	testwait.Return(t, sent.Wait)
}

// TestDeafTalker: a client that sends and never reads may send only so much, and is cut after the write time-out.
func TestDeafTalker(t *testing.T) {
	inFakeTime(t, nil, func(t *testing.T, p *place) {
		c := p.client().forever()
		passed := stopwatch()
		sent := 0
		for c.conn.WriteMessage(1, []byte(`{"id":2,"publish":{"channel":"a","data":1}}`)) == nil {
			sent++
		}
		within(t, "the end", passed(), 9, 12)
		if sent > 10_000 {
			t.Errorf("%d commands were read", sent)
		}
		synctest.Wait()
		if n := p.gateway.Len(); n != 0 {
			t.Errorf("%d clients are left", n)
		}
		found, err := p.hub.History(testwait.Context(t), "a", hub.HistoryRequest{Limit: -1})
		must(t, err)
		if len(found.Entries) > sent+1 {
			t.Errorf("%d of %d commands were carried out", len(found.Entries), sent)
		}
	})
}

// slowly is a way to be slow: what a client gets when it reads again after a while in which it did not.
type slowly struct {
	place *place
	next  func() pushed // the next push
}

// overEach runs a test of a client that does not read for a while, over each transport. The client is subscribed to a channel.
func overEach(t *testing.T, channel string, test func(t *testing.T, s slowly)) {
	overEachWith(t, channel, "null", test)
}

// overEachWith is overEach with the data of the subscription. The end of a connection is a push as well.
func overEachWith(t *testing.T, channel, data string, test func(t *testing.T, s slowly)) {
	t.Run("WebSocket", func(t *testing.T) {
		p := newPlace(t, nil)
		c := p.subscriberWith(channel, data)
		must(t, c.conn.NetConn().(*net.TCPConn).SetReadBuffer(readBuffer))
		test(t, slowly{p, func() pushed {
			line, err := c.line()
			if end := new(websocket.CloseError); errors.As(err, &end) {
				return pushed{Disconnect: &struct{ Code int }{end.Code}}
			}
			must(t, err)
			return parsePush(t, line)
		}})
	})
	t.Run("SSE", func(t *testing.T) {
		inFakeTime(t, nil, func(t *testing.T, p *place) {
			s := p.stream(`{"subs":{"`+channel+`":{"data":`+data+`}}}`, "")
			s.next()
			synctest.Wait()
			test(t, slowly{p, func() pushed { return parsePush(t, s.next().data) }})
		})
	})
	t.Run("SSE over HTTP2", func(t *testing.T) {
		inFakeTime(t, nil, func(t *testing.T, p *place) {
			p.overHTTP2()
			s := p.stream(`{"subs":{"`+channel+`":{"data":`+data+`}}}`, "")
			s.next()
			synctest.Wait()
			test(t, slowly{p, func() pushed { return parsePush(t, s.next().data) }})
		})
	})
}

// fill publishes a lot, and looks meanwhile at what is held for a stream's client.
func (s slowly) fill(t *testing.T, n int, publication func(i int) push.Publication, channel string) {
	t.Helper()
	for i := range n {
		s.place.put(channel, publication(i))
		if held := s.place.gateway.Held(); held > outbox.Limit+2<<10 {
			t.Fatalf("%d bytes are held for a stream's client", held)
		}
	}
}

const (
	// many publications are more than everything between the hub and the client holds.
	many = 12_000
	// readBuffer is what the kernel of a slow client takes: not less than a segment on loopback, below which it would only dribble.
	readBuffer = 128 << 10
)

// TestSlowOnStream: who is slow misses nothing, as long as the history reaches.
func TestSlowOnStream(t *testing.T) {
	overEach(t, "a", func(t *testing.T, s slowly) {
		s.fill(t, many, func(i int) push.Publication { return push.Publication{Data: []byte(filler(i))} }, "a")
		for i := range many {
			if got := s.next(); got.Pub == nil || got.Pub.Offset != uint64(i+1) || string(got.Pub.Data) != filler(i) {
				t.Fatalf("publication %d: %+v", i, got)
			}
		}
	})
}

// TestSlowBeyondHistory: who is slower than that is told, as the namespace says.
func TestSlowBeyondHistory(t *testing.T) {
	for channel, want := range map[string]struct{ unsubscribe, disconnect int }{ // the latter of who cannot subscribe, or by policy
		"short:a": {2500, 3010},
		"ends:a":  {2510, 3008},
		"cuts:a":  {0, 3008},
	} {
		t.Run(channel, func(t *testing.T) {
			overEach(t, channel, func(t *testing.T, s slowly) {
				s.fill(t, many, func(i int) push.Publication { return push.Publication{Data: []byte(filler(i))} }, channel)
				for i := range many {
					got := s.next()
					if got.Pub == nil {
						if got.Disconnect != nil && got.Disconnect.Code != want.disconnect || got.Unsubscribe != nil && got.Unsubscribe.Code != want.unsubscribe {
							t.Errorf("ended with %+v %+v", got.Unsubscribe, got.Disconnect)
						}
						return
					}
					if got.Pub.Offset != uint64(i+1) {
						t.Fatalf("publication %d: %+v", i, got)
					}
				}
				t.Error("nothing was lost: more has to be published")
			})
		})
	}
}

// TestLostOverTheWire: who asks to be told what it lost goes on, and can account for every publication.
func TestLostOverTheWire(t *testing.T) {
	overEachWith(t, "short:a", `{"sluice":{"lost":true}}`, func(t *testing.T, s slowly) {
		tags := map[string]string{"a": "b"}
		s.fill(t, many, func(i int) push.Publication { return push.Publication{Data: []byte(filler(i)), Tags: tags} }, "short:a")
		told, at := 0, uint64(0)
		for at < many {
			got := s.next()
			if got.Pub == nil {
				t.Fatalf("ended with %+v %+v", got.Unsubscribe, got.Disconnect)
			}
			due := at + 1
			if text := got.Pub.Tags[push.TagLost]; text != "" {
				n, err := strconv.ParseUint(text, 10, 64)
				must(t, err)
				due += n
				told++
			}
			if got.Pub.Offset != due || got.Pub.Tags["a"] != "b" || string(got.Pub.Data) != filler(int(due)-1) {
				t.Fatalf("publication %d came with %v when %d was due", got.Pub.Offset, got.Pub.Tags, due)
			}
			at = due
		}
		if told == 0 {
			t.Error("nothing was lost: more has to be published")
		}
		if got := s.place.hub.Stats(); got.Lost == 0 || got.LostUnknown != 0 || got.Ended() != 0 {
			t.Errorf("counted: %+v", got.Counts)
		}
		if len(tags) != 1 {
			t.Errorf("the publication's own tags were changed: %v", tags)
		}
	})
}

// TestSlowOnTable: who is slow gets the newest rows, and not all that was in between.
func TestSlowOnTable(t *testing.T) {
	overEach(t, "table:a", func(t *testing.T, s slowly) {
		const rows = 10
		s.fill(t, many, func(i int) push.Publication {
			return push.Publication{Key: fmt.Sprint(i % rows), Data: []byte(filler(i))}
		}, "table:a")
		newest, received := map[string]string{}, 0
		for missing := rows; missing > 0; received++ {
			got := s.next()
			newest[got.Pub.Key] = string(got.Pub.Data)
			missing = 0
			for row := range rows {
				if newest[fmt.Sprint(row)] != filler(many-rows+row) {
					missing++
				}
			}
		}
		if received == many {
			t.Error("nothing was conflated: more has to be published")
		}
	})
}

// TestStuckStream: a client that takes nothing any more is given up.
func TestStuckStream(t *testing.T) {
	for name, prepare := range map[string]func(*place){"HTTP1": func(*place) {}, "HTTP2": (*place).overHTTP2} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, nil, func(t *testing.T, p *place) {
				prepare(p)
				s := p.stream(`{"subs":{"a":{}}}`, "")
				s.next()
				passed := stopwatch()
				for i := range 1000 {
					p.publish("a", filler(i))
				}
				for p.gateway.Len() > 0 && passed() < 60 {
					pass(time.Second)
				}
				within(t, "the end", passed(), 9, 12)
			})
		})
	}
}

// TestQuietStream: a stream on which nothing happens is pinged, and lives.
func TestQuietStream(t *testing.T) {
	for name, prepare := range map[string]func(*place){"HTTP1": func(*place) {}, "HTTP2": (*place).overHTTP2} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, &gateway.Options{PingInterval: 20 * time.Second}, func(t *testing.T, p *place) {
				prepare(p)
				s := p.stream(`{"subs":{"a":{}}}`, "")
				s.next()
				passed := stopwatch()
				s.want("{}", "{}")
				within(t, "two pings", passed(), 40, 41)
				if len(s.ids) != 1 {
					t.Errorf("pings have ids: %q", s.ids)
				}
				p.publish("a", "1")
				s.want(`{"channel":"a","pub":{"data":1,"offset":1}}`)
			})
		})
	}
}
