package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
)

// rowsOf fills a table with rows a, b, c …, of which row i has the number i and the offset i+1.
func (p *place) rowsOf(name string, n int) {
	p.t.Helper()
	for i := range n {
		p.put(name, push.Publication{Key: string(rune('a' + i)), Data: fmt.Append(nil, i)})
	}
}

// mapAnswer is what a step of a map subscription is answered.
type mapAnswer struct {
	Subscribe struct {
		Phase               int
		Cursor, Epoch       string
		Offset              uint64
		Recoverable         bool
		State, Publications []struct {
			Key     string
			Offset  uint64
			Removed bool
			Data    json.RawMessage
		}
		Data json.RawMessage
	}
	Error struct{ Code int }
}

// step sends a request to subscribe and returns what it is answered.
func (c *wsClient) step(members string) (a mapAnswer) {
	c.t.Helper()
	c.send(`{"id":2,"subscribe":{` + members + `}}`)
	must(c.t, json.Unmarshal([]byte(c.receive()), &a))
	return a
}

// TestMapOfOnePage: a table that fits one page is all there with the first answer.
func TestMapOfOnePage(t *testing.T) {
	p := newPlace(t, nil)
	p.put("table:t", push.Publication{Key: "a", Data: []byte("1"), Tags: map[string]string{"v": "x"}})
	p.put("table:t", push.Publication{Key: "b", Data: []byte("2")})
	c := p.client()
	script{
		{
			"rows", `{"id":2,"subscribe":{"channel":"table:t","type":1,"phase":2,"data":{"app":1}}}`,
			`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","offset":2,"positioned":true,` +
				`"state":[{"data":1,"offset":1,"tags":{"v":"x"},"key":"a"},{"data":2,"offset":2,"key":"b"}]}}`,
		},
		{"publish", `{"id":3,"publish":{"channel":"table:other","type":1,"key":"k","data":1}}`, `{"id":3,"publish":{}}`},
		{
			"twice", `{"id":4,"subscribe":{"channel":"table:t","type":1,"phase":2}}`,
			`{"id":4,"error":{"code":105,"message":"already subscribed"}}`,
		},
		{
			"an empty one, that goes by a number", `{"id":5,"subscribe":{"channel":"table:none","type":1,"phase":2,"flag":1}}`,
			`{"id":5,"subscribe":{"recoverable":true,"epoch":"EPOCH","offset":3,"positioned":true,"id":3}}`,
		},
	}.run(t, c, "EPOCH", p.epoch("table:t"))
	p.put("table:t", push.Publication{Key: "c", Data: []byte("3")})
	c.want(`{"push":{"channel":"table:t","pub":{"data":3,"offset":4,"key":"c"}}}`)
	p.put("table:none", push.Publication{Key: "a", Data: []byte("4")})
	c.want(`{"push":{"id":3,"pub":{"data":4,"offset":5,"key":"a"}}}`)
	p.put("table:t", push.Publication{Key: "a", Op: push.Remove})
	c.want(`{"push":{"channel":"table:t","pub":{"data":null,"offset":6,"key":"a","removed":true}}}`)
}

// TestMapInPages: rows that change and go between the pages are right once all is read, and what was asked for at the beginning holds.
func TestMapInPages(t *testing.T) {
	p := newPlace(t, nil)
	p.rowsOf("table:t", 6)
	c := p.client()
	a := c.step(`"channel":"table:t","type":1,"phase":2,"limit":2,"data":{"sluice":{"interval":50}}`)
	if got := a.Subscribe; got.Phase != 2 || len(got.State) != 2 || got.Offset != 6 || got.Cursor == "" || got.Epoch != p.epoch("table:t") {
		t.Fatalf("the first page: %+v", got)
	}
	p.put("table:t", push.Publication{Key: "a", Data: []byte("7")})
	p.put("table:t", push.Publication{Key: "d", Op: push.Remove})
	later := `"channel":"table:t","type":1,"phase":2,"limit":2,"offset":6,"epoch":"` + a.Subscribe.Epoch + `","cursor":"`
	a = c.step(later + a.Subscribe.Cursor + `"`)
	if got := a.Subscribe; got.Phase != 2 || len(got.State) != 2 || got.State[1].Key != "e" || got.Offset != 6 || got.Cursor == "" {
		t.Fatalf("the second page: %+v", got)
	}
	p.put("table:t", push.Publication{Key: "g", Data: []byte("9")})
	p.put("table:t", push.Publication{Key: "b", Op: push.Remove})
	c.send(`{"id":2,"subscribe":{` + later + a.Subscribe.Cursor + `"}}`)
	c.want(strings.ReplaceAll(`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","publications":[{"data":7,"offset":7,"key":"a"},`+
		`{"data":null,"offset":8,"key":"d","removed":true},{"data":9,"offset":9,"key":"g"},{"data":null,"offset":10,"key":"b","removed":true}],`+
		`"offset":10,"positioned":true,"data":{"sluice":{"interval":50}},"state":[{"data":5,"offset":6,"key":"f"},{"data":9,"offset":9,"key":"g"}]}}`,
		"EPOCH", a.Subscribe.Epoch))
}

// TestMapComesBack: what changed since, removals included, and then what follows; or the answer upon which SDKs begin anew.
func TestMapComesBack(t *testing.T) {
	p := newPlace(t, nil)
	p.rowsOf("table:t", 3)
	c := p.client()
	p.put("table:t", push.Publication{Key: "a", Data: []byte("4")})
	p.put("table:t", push.Publication{Key: "b", Op: push.Remove})
	p.put("table:t", push.Publication{Key: "a", Data: []byte("6")})
	script{
		{
			"stream", `{"id":2,"subscribe":{"channel":"table:t","type":1,"phase":1,"recover":true,"offset":3,"epoch":"EPOCH","limit":1}}`,
			`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","publications":[{"data":null,"offset":5,"key":"b","removed":true},` +
				`{"data":6,"offset":6,"key":"a"}],"recovered":true,"offset":6,"positioned":true,"was_recovering":true}}`,
		},
		{"unsubscribe", `{"id":3,"unsubscribe":{"channel":"table:t"}}`, `{"id":3,"unsubscribe":{}}`},
		{
			"nothing changed", `{"id":2,"subscribe":{"channel":"table:t","type":1,"phase":1,"recover":true,"offset":6,"epoch":"EPOCH"}}`,
			`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","recovered":true,"offset":6,"positioned":true,"was_recovering":true}}`,
		},
	}.run(t, c, "EPOCH", p.epoch("table:t"))
	p.put("table:t", push.Publication{Op: push.Clear})
	c.want(`{"push":{"channel":"table:t","unsubscribe":{"code":2500,"reason":"insufficient state"}}}`)
	p.put("table:t", push.Publication{Key: "z", Data: []byte("8")})
	script{
		{
			"after a clear", `{"id":2,"subscribe":{"channel":"table:t","type":1,"phase":1,"recover":true,"offset":6,"epoch":"EPOCH"}}`,
			`{"id":2,"error":{"code":112,"message":"unrecoverable position"}}`,
		},
		{
			"in another life", `{"id":2,"subscribe":{"channel":"table:t","type":1,"phase":1,"offset":8,"epoch":"other"}}`,
			`{"id":2,"error":{"code":112,"message":"unrecoverable position"}}`,
		},
		{
			"in the future", `{"id":2,"subscribe":{"channel":"table:t","type":1,"phase":1,"recover":true,"offset":99,"epoch":"EPOCH"}}`,
			`{"id":2,"error":{"code":112,"message":"unrecoverable position"}}`,
		},
		{
			"without a position", `{"id":2,"subscribe":{"channel":"table:t","type":1,"phase":1}}`,
			`{"id":2,"error":{"code":112,"message":"unrecoverable position"}}`,
		},
		{
			"from scratch", `{"id":2,"subscribe":{"channel":"table:t","type":1,"phase":2,"recover":true}}`,
			`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","offset":8,"positioned":true,"state":[{"data":8,"offset":8,"key":"z"}]}}`,
		},
	}.run(t, c, "EPOCH", p.epoch("table:t"))
}

// TestMapOverflow: changes that do not fit the answer follow, and until all have come the client's position is the one it came with.
func TestMapOverflow(t *testing.T) {
	p := newPlace(t, nil)
	at := p.put("table:t", push.Publication{Key: "a", Data: []byte("1")})
	const rows, size = 20, 30_000
	for i := range rows {
		p.put("table:t", push.Publication{Key: fmt.Sprint(i), Data: fmt.Appendf(nil, `"%0*d"`, size, i)})
	}
	c := p.client()
	a := c.step(`"channel":"table:t","type":1,"phase":1,"recover":true,"offset":1,"epoch":"` + at.Epoch + `"`).Subscribe
	if a.Offset != 1 || len(a.Publications) < 8 || len(a.Publications) >= rows || a.Publications[0].Offset != 0 {
		t.Fatalf("the answer has %d rows, the first at %d, and position %d", len(a.Publications), a.Publications[0].Offset, a.Offset)
	}
	offset := uint64(0)
	for range rows - len(a.Publications) {
		if offset != 0 {
			t.Fatal("a row after the last one")
		}
		var l struct {
			Push struct{ Pub struct{ Offset uint64 } }
		}
		must(t, json.Unmarshal([]byte(c.receive()), &l))
		offset = l.Push.Pub.Offset
	}
	if offset != rows+1 {
		t.Errorf("the last row is at %d", offset)
	}
}

// TestMapInOrder: a sweep that came to its end in the answer looks like a catch-up to SDKs.
func TestMapInOrder(t *testing.T) {
	row := func(offset, at uint64) channel.Delivery {
		return channel.Delivery{Entry: &channel.Entry{Publication: push.Publication{Offset: offset}}, Offset: at}
	}
	for _, tt := range []struct {
		name     string
		in, want []channel.Delivery
	}{
		{"nothing", nil, nil},
		{"a catch-up", []channel.Delivery{row(3, 3), row(5, 5)}, []channel.Delivery{row(3, 3), row(5, 5)}},
		{"a whole sweep", []channel.Delivery{row(7, 0), row(3, 0), row(5, 9)}, []channel.Delivery{row(3, 3), row(5, 5), row(7, 7)}},
		{"the beginning of one", []channel.Delivery{row(7, 0), row(3, 0)}, []channel.Delivery{row(7, 0), row(3, 0)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gateway.InOrder(tt.in)
			same := func(a, b channel.Delivery) bool { return a.Offset == b.Offset && a.Entry.Offset == b.Entry.Offset }
			if !slices.EqualFunc(tt.in, tt.want, same) {
				t.Errorf("got %+v", tt.in)
			}
		})
	}
}

// TestMapDeltas: with differences all data are strings, those of the pages too; a row is only sent as one that was sent since the client joined.
func TestMapDeltas(t *testing.T) {
	p := newPlace(t, nil)
	filler := strings.Repeat("x", 60)
	put := func(key string, n int) {
		p.put("table:t", push.Publication{Key: key, Data: fmt.Appendf(nil, `{"n":%d,"f":"%s"}`, n, filler)})
	}
	put("a", 1)
	put("b", 2)
	c := p.client()
	full := func(n int) string { return fmt.Sprintf(`"{\"n\":%d,\"f\":\"%s\"}"`, n, filler) }
	at := `,"type":1,"delta":"fossil","epoch":"` + p.epoch("table:t") + `"`
	a := c.step(`"channel":"table:t","phase":2,"limit":1` + at).Subscribe
	if len(a.State) != 1 || string(a.State[0].Data) != full(1) {
		t.Fatalf("the first page: %+v", a)
	}
	put("b", 3)
	c.send(fmt.Sprintf(`{"id":2,"subscribe":{"channel":"table:t","phase":2,"offset":%d,"cursor":"%s"%s}}`, a.Offset, a.Cursor, at))
	c.want(`{"id":2,"subscribe":{"recoverable":true,"epoch":"` + a.Epoch + `","publications":[{"data":` + full(3) + `,"offset":3,"key":"b"}],"offset":3,` +
		`"positioned":true,"delta":true,"state":[{"data":` + full(3) + `,"offset":3,"key":"b"}]}}`)
	put("a", 4)
	c.want(`{"push":{"channel":"table:t","pub":{"data":` + full(4) + `,"offset":4,"key":"a"}}}`)
	for _, key := range []string{"a", "b"} {
		put(key, 5)
		if got := c.receive(); !strings.Contains(got, `"key":"`+key+`","delta":true`) {
			t.Errorf("%s came as %s", key, got)
		}
	}
	p.put("table:t", push.Publication{Key: "a", Op: push.Remove})
	c.want(`{"push":{"channel":"table:t","pub":{"data":null,"offset":7,"key":"a","removed":true}}}`)
	put("a", 8)
	c.want(`{"push":{"channel":"table:t","pub":{"data":` + full(8) + `,"offset":8,"key":"a"}}}`)
}

// TestMapHostile: what no SDK sends is answered with an error that fits, or as if it had not been said, and the connection goes on.
func TestMapHostile(t *testing.T) {
	p := newPlaceWith(t, nil, &hub.Options{SubscriptionsPerSession: 1})
	p.rowsOf("table:t", 26)
	p.rowsOf("table:u", 26)
	c := p.client()
	page := c.step(`"channel":"table:t","type":1,"phase":2,"limit":3`).Subscribe
	other := c.step(`"channel":"table:u","type":1,"phase":2,"limit":3`).Subscribe.Cursor
	at := fmt.Sprintf(`"offset":%d,"epoch":"%s"`, page.Offset, page.Epoch)
	for name, tt := range map[string]struct {
		members string
		code    int
	}{
		"a stream":                {`"channel":"a","phase":2`, 107},
		"the changes of a stream": {`"channel":"a","phase":1,"recover":true`, 107},
		"no such phase":           {`"channel":"table:t","phase":3`, 107},
		"live at once":            {`"channel":"table:t"`, 107},
		"a filter":                {`"channel":"table:t","phase":2,"tf":{"op":"eq"}`, 108},
		"nowhere":                 {`"channel":"nowhere:t","phase":2`, 102},
		"another's cursor":        {`"channel":"table:t","phase":2,` + at + `,"cursor":"` + other + `"`, 112},
		"no cursor":               {`"channel":"table:t","phase":2,` + at + `,"cursor":"~"`, 112},
		"no interval":             {`"channel":"table:t","phase":2,` + at + `,"cursor":"` + page.Cursor + `~"`, 112},
		"two intervals":           {`"channel":"table:t","phase":2,` + at + `,"cursor":"` + page.Cursor + `~1~2"`, 112},
		"too long an interval":    {`"channel":"table:t","phase":2,` + at + `,"cursor":"` + page.Cursor + `~99999999999"`, 112},
		"less than none":          {`"channel":"table:t","phase":2,` + at + `,"cursor":"` + page.Cursor + `~-1"`, 112},
		"a cursor without where":  {`"channel":"table:t","phase":2,"cursor":"` + page.Cursor + `"`, 112},
		"a huge cursor":           {`"channel":"table:t","phase":2,` + at + `,"cursor":"` + strings.Repeat("9.", 10_000) + `"`, 112},
		"an ill-formed wish":      {`"channel":"table:t","phase":2,"data":{"sluice":{"interval":-1}}`, 107},
		"and a late one":          {`"channel":"table:t","phase":1,` + at + `,"data":{"sluice":{"interval":-1}}`, 107},
	} {
		if got := c.step(`"type":1,` + tt.members); got.Error.Code != tt.code {
			t.Errorf("%s: answered with error %d, not %d", name, got.Error.Code, tt.code)
		}
	}
	for limit, want := range map[string]int{`0`: 26, `-1`: 26, `-2147483648`: 26, `2147483647`: 26, `null`: 26, `26`: 26, `25`: 25, `1`: 1} {
		if got := c.step(`"channel":"table:t","type":1,"phase":2,"limit":` + limit); len(got.Subscribe.State) != want {
			t.Errorf("limit %s: %d rows", limit, len(got.Subscribe.State))
		}
		c.ask(`{"id":3,"unsubscribe":{"channel":"table:t"}}`, `{"id":3,"unsubscribe":{}}`)
	}
	if n := p.hub.Stats().Subscriptions; n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// TestMapPages: pages are bounded by their bytes, too, and those of a large table are all there is.
func TestMapPages(t *testing.T) {
	p := newPlace(t, nil)
	const rows = 3000
	for i := range rows {
		p.put("table:t", push.Publication{Key: fmt.Sprint(i), Data: fmt.Appendf(nil, `"%0300d"`, i)})
	}
	c := p.client()
	seen, pages, more := map[string]bool{}, 0, ""
	for {
		a := c.step(`"channel":"table:t","type":1,"phase":2,"limit":100000` + more).Subscribe
		pages++
		for _, row := range a.State {
			seen[row.Key] = true
		}
		if a.Phase == 0 {
			break
		}
		if n := len(a.State); n < 150 || n > 250 {
			t.Fatalf("a page has %d rows", n)
		}
		more = fmt.Sprintf(`,"offset":%d,"epoch":"%s","cursor":"%s"`, a.Offset, a.Epoch, a.Cursor)
	}
	if len(seen) != rows || pages < 12 {
		t.Errorf("%d rows in %d pages", len(seen), pages)
	}
}

// TestMapPermit: each step is asked about.
func TestMapPermit(t *testing.T) {
	p := newPlace(t, &gateway.Options{Permit: func(_ context.Context, _ *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
		if r.Channel == "table:secret" && r.Action == push.ActionSubscribe {
			return gateway.Permission{}, push.ErrPermissionDenied
		}
		return gateway.Permission{}, nil
	}})
	c := p.client()
	for phase := 1; phase <= 2; phase++ {
		if got := c.step(fmt.Sprintf(`"channel":"table:secret","type":1,"phase":%d`, phase)); got.Error.Code != 103 {
			t.Errorf("phase %d: error %d", phase, got.Error.Code)
		}
	}
}
