package carriertest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// rows fills a table and returns its rows by key.
func (n *node) rows(channel string, count, size int) map[string][]byte {
	n.suite.Helper()
	all := map[string][]byte{}
	for i := range count {
		key := fmt.Sprintf("row-%d", i)
		all[key] = fmt.Appendf(nil, `"%d %s"`, i, strings.Repeat("x", size))
		n.put(channel, push.Publication{Key: key, Data: all[key]})
	}
	return all
}

// apply applies a publication of a table to the rows of a client.
func apply(rows map[string][]byte, p *push.Publication) {
	switch p.Op {
	case push.Remove:
		delete(rows, p.Key)
	case push.Clear:
		clear(rows)
	default:
		rows[p.Key] = p.Data
	}
}

// sameRows reports whether two tables are equal.
func sameRows(a, b map[string][]byte) bool {
	for key, data := range a {
		if got, ok := b[key]; !ok || !bytes.Equal(data, got) {
			return false
		}
	}
	return len(a) == len(b)
}

// checkTable: a client that subscribes to a table gets all rows, each once, and then the changes. The rows are more than one answer has room for.
func checkTable(s *suite) {
	n := s.start(gateway.Options{})
	want := n.rows("table:a", 300, 500)
	c, result := s.subscriber(n, protocol.SubscribeRequest{Channel: "table:a"})
	got, seen := map[string][]byte{}, 0
	in := func(p *push.Publication) {
		apply(got, p)
		seen++
	}
	for i := range result.Publications {
		in(&result.Publications[i])
	}
	for len(got) < len(want) {
		p := c.publication("table:a")
		in(&p)
	}
	if !sameRows(got, want) || seen != len(want) {
		s.Errorf("%d rows came in %d publications, and are not the %d of the table", len(got), seen, len(want))
	}
	p := push.Publication{Key: "row-1", Data: []byte("1"), Tags: map[string]string{"a": "b"}}
	p.Offset = n.put("table:a", p).Offset
	c.wantPublication("table:a", p)
	p = push.Publication{Key: "row-2", Op: push.Remove}
	p.Offset = n.put("table:a", p).Offset
	c.wantPublication("table:a", p)
}

// checkMap: a client that keeps the rows of a table gets them in pages, and then the changes.
func checkMap(s *suite) {
	n := s.start(gateway.Options{})
	want := n.rows("table:a", 120, 50)
	c := s.client(n)
	request := protocol.SubscribeRequest{Channel: "table:a", Type: protocol.SubscriptionMap, Phase: protocol.PhaseState, Limit: 50}
	got, pages := map[string][]byte{}, 0
	for {
		answer := c.subscribe(request)
		pages++
		if pages == 1 {
			request.Position = answer.Position
			for key, p := range map[string]push.Publication{"row-0": {Data: []byte(`"new"`)}, "row-119": {Op: push.Remove}} {
				p.Key = key
				n.put("table:a", p)
				apply(want, &p)
			}
		}
		for _, list := range [][]push.Publication{answer.State, answer.Publications} {
			for i := range list {
				apply(got, &list[i])
			}
		}
		request.Cursor = answer.Cursor
		if answer.Phase == protocol.PhaseLive {
			break
		}
		if pages > 3 || answer.Phase != protocol.PhaseState || len(answer.State) != 50 || answer.Cursor == "" {
			s.Fatalf("page %d: phase %d, %d rows, cursor %q", pages, answer.Phase, len(answer.State), answer.Cursor)
		}
	}
	if pages != 3 || !sameRows(got, want) {
		s.Errorf("%d rows in %d pages are not those of the table, of which there are %d", len(got), pages, len(want))
	}
	p := push.Publication{Key: "row-7", Op: push.Remove}
	p.Offset = n.put("table:a", p).Offset
	c.wantPublication("table:a", p)
}

// checkRate: a client that wants a table's changes only so often is told that it gets them so, and gets the newest.
func checkRate(s *suite) {
	n := s.start(gateway.Options{PingInterval: -1})
	c, got := s.subscriber(n, protocol.SubscribeRequest{Channel: "table:a", Data: []byte(`{"sluice":{"interval":1000}}`)})
	if want := `{"sluice":{"interval":1000}}`; string(got.Data) != want {
		s.Errorf("subscribe was answered with the data %s, want %s", got.Data, want)
	}
	const changes = 50
	for i := range changes {
		n.set("table:a", "k", fmt.Sprint(i))
	}
	pushes := 0
	for newest := ""; newest != fmt.Sprint(changes-1); pushes++ {
		p := c.publication("table:a")
		newest = string(p.Data)
	}
	if pushes > changes/2 {
		s.Errorf("%d of %d changes were sent though one a second was asked for", pushes, changes)
	}
}
